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
    from latspan.stages import (
        Carried,
        batch,
        carry,
        degraded,
        describe,
        generated,
        rejected,
        resume,
        stage,
    )

__all__ = [
    "Carried",
    "LatspanError",
    "__version__",
    "attributes",
    "auto_instrument",
    "batch",
    "carry",
    "configure",
    "degraded",
    "describe",
    "force_flush",
    "generated",
    "rejected",
    "request",
    "resume",
    "shutdown",
    "snapshot",
    "stage",
    "traced",
    "uninstrument",
    "warm",
]

_HOME = {
    "Carried": "latspan.stages",
    "LatspanError": "latspan.errors",
    "attributes": "latspan.instrument",
    "auto_instrument": "latspan.instrument",
    "batch": "latspan.stages",
    "carry": "latspan.stages",
    "configure": "latspan.sdk",
    "degraded": "latspan.stages",
    "describe": "latspan.stages",
    "force_flush": "latspan.sdk",
    "generated": "latspan.stages",
    "rejected": "latspan.stages",
    "request": "latspan.instrument",
    "resume": "latspan.stages",
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
