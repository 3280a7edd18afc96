"""
What a rule concludes: a cause, the evidence for it, one lever, and what would refute it.

Some evidence serves several rules: that of the server's own metrics, which ``scrape_servers``
records with each request. Samples have an interval, so a short queue may be between two of them.
They support a cause, and no share follows from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latspan._drawing import percent
from latspan._study.diagnose._facts import Facts

__all__ = ["Finding", "kv_pressure", "milliseconds", "times", "waiting"]

_KV_FULL: Final = 0.9
"""Fraction of the KV cache from which requests wait for it, or lose their place in it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A cause of the time in the leading segment.

    Args:
        cause: Name of the cause, one word of the documentation's table.
        summary: The cause as a sentence without its subject, for example ``requests wait in the
            server's queue``.
        lever: The one change to try.
        evidence: Numbers that support it, one sentence each.
        refuted_by: Observation that would refute it.
        segments: Segments that the cause explains.
    """

    cause: str
    summary: str
    lever: str
    evidence: tuple[str, ...]
    refuted_by: str
    segments: tuple[str, ...]


def milliseconds(value_ns: float) -> str:
    """Return a time for a sentence."""
    value = value_ns / 1e6
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"


def times(ratio: float) -> str:
    """Return a ratio for a sentence."""
    return f"{ratio:.1f} times"


def waiting(facts: Facts) -> list[str]:
    """Return what the server's metrics state about its queue, if it is longer for slow requests."""
    waiting = facts.sampled("requests_waiting")
    if waiting is None or waiting[0] < waiting[1]:
        return []
    return [
        (
            f"the server's metrics show {waiting[0]:.0f} waiting requests during slow ones,"
            f" {waiting[1]:.0f} during typical ones"
        )
    ]


def kv_pressure(facts: Facts) -> list[str]:
    """Return that the server's metrics show a full KV cache, if they do."""
    kv = facts.sampled("kv_usage")
    if kv is None or kv[0] < _KV_FULL:
        return []
    return [f"the KV cache is {percent(kv[0])} full during slow requests"]
