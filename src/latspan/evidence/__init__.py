"""
Timings that servers report of themselves: one small adapter a source.

An adapter is a function from an :class:`~latspan.wire.Answer` to
:class:`~latspan.segments.ReportedTimings`, or ``None`` where the answer is not from its server.
It reads, it does not judge: whether the reported parts fit what the client measured is decided in
one place for all sources. To add one, write ``evidence/<server>.py`` and list it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from latspan.evidence.llama_cpp import read as _read_llama_cpp
from latspan.evidence.server_timing import read as _read_server_timing
from latspan.segments import ReportedTimings
from latspan.wire import Answer

__all__ = ["ADAPTERS", "Adapter", "read"]

Adapter = Callable[[Answer], ReportedTimings | None]

ADAPTERS: Final[tuple[Adapter, ...]] = (_read_llama_cpp, _read_server_timing)
"""Asked in this order; the first that recognises an answer speaks for it."""


def read(answer: Answer) -> ReportedTimings | None:
    """Return what the server said about its own time, or ``None`` if it said nothing known."""
    for adapter in ADAPTERS:
        reported = adapter(answer)
        if reported is not None:
            return reported
    return None
