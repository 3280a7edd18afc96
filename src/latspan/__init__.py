"""
latspan shows where an LLM request's time went, segment by segment.

Importing this package loads nothing but this file: every name is fetched when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from latspan._version import __version__

if TYPE_CHECKING:
    from latspan.errors import LatspanError
    from latspan.instrument import attributes, auto_instrument, request, traced, uninstrument, warm
    from latspan.sdk import configure, force_flush, shutdown, snapshot
    from latspan.stages import stage

__all__ = [
    "LatspanError",
    "__version__",
    "attributes",
    "auto_instrument",
    "configure",
    "force_flush",
    "request",
    "shutdown",
    "snapshot",
    "stage",
    "traced",
    "uninstrument",
    "warm",
]

_HOME = {
    "LatspanError": "latspan.errors",
    "attributes": "latspan.instrument",
    "auto_instrument": "latspan.instrument",
    "configure": "latspan.sdk",
    "force_flush": "latspan.sdk",
    "request": "latspan.instrument",
    "shutdown": "latspan.sdk",
    "snapshot": "latspan.sdk",
    "stage": "latspan.stages",
    "traced": "latspan.instrument",
    "uninstrument": "latspan.instrument",
    "warm": "latspan.instrument",
}


def __getattr__(name: str) -> object:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module 'latspan' has no attribute '{name}'") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
