"""
Contract of integrations: the names that another distribution needs to instrument an SDK.

An integration derives from :class:`Instrumentor`, patches the SDK's methods with
:func:`patch_method` and its streams with :func:`patch_stream`, and opens each call with
:func:`open_call`. The format of the responses is an ``ApiFormat`` of
``latspan.integrations.formats``. The guide "Instrument another SDK" has a complete example.

An integration of a model SDK imports only this package and ``latspan.semconv`` from latspan. The
integrations of HTTP clients and servers are part of latspan and use private modules too.
"""

from __future__ import annotations

from latspan._live.instrument import (
    Call,
    Instrumentor,
    Patches,
    UnderlyingClient,
    is_instrumented,
    open_call,
    patch_method,
    patch_stream,
    track_response,
)
from latspan._model.segments import Outcome

__all__ = [
    "Call",
    "Instrumentor",
    "Outcome",
    "Patches",
    "UnderlyingClient",
    "is_instrumented",
    "open_call",
    "patch_method",
    "patch_stream",
    "track_response",
]
