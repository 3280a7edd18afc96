"""
The public hooks: what integrations build on, and how people instrument their own code.

An SDK integration opens a call and follows its stream; a transport integration adds attempts to
the call that is open, or opens an exchange of its own where there is none. So a client library
over an HTTP library counts once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from latspan.instrument._by_hand import attributes, request
from latspan.instrument._discovery import auto_instrument, instrumented, uninstrument
from latspan.instrument._hooks import (
    Attempt,
    Call,
    active_call,
    inject_trace_context,
    open_call,
    open_exchange,
)
from latspan.instrument._outcomes import error_type_of, outcome_of
from latspan.instrument._streams import Watch, aiterate, iterate, watch
from latspan.instrument._traced import traced

if TYPE_CHECKING:
    from latspan.instrument._instrumentor import Instrumentor
    from latspan.instrument._patching import Patches

__all__ = [
    "Attempt",
    "Call",
    "Instrumentor",
    "Patches",
    "Watch",
    "active_call",
    "aiterate",
    "attributes",
    "auto_instrument",
    "error_type_of",
    "inject_trace_context",
    "instrumented",
    "iterate",
    "open_call",
    "open_exchange",
    "outcome_of",
    "request",
    "traced",
    "uninstrument",
    "watch",
]

# What patches client libraries brings wrapt and OpenTelemetry's instrumentation package with it;
# an application that only decorates its own functions needs neither.
_PATCHING = {
    "Instrumentor": "latspan.instrument._instrumentor",
    "Patches": "latspan.instrument._patching",
}


def __getattr__(name: str) -> object:
    if name in _PATCHING:
        return getattr(import_module(_PATCHING[name]), name)
    raise AttributeError(f"module 'latspan.instrument' has no attribute '{name}'")
