"""
Finding of a rule: a cause, the evidence for it, one lever, and what would refute it.

Some evidence serves several rules: that of the server's own metrics, which ``scrape_servers``
records with each request. Samples are taken at intervals, so a short queue may fall between two of
them. They support a cause, but shares are not computed from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from latspan._model.text import percent
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import Facts
from latspan._study.diagnose._line import MIN_POINTS

_KV_FULL: Final = 0.9
"""Used fraction of the KV cache from which requests wait for it, or are evicted from it."""

_KV_NEARLY_FULL: Final = 0.8
_FEW: Final = 0.5
_KEPT: Final = 0.8
"""
Used fraction of the KV cache with half as many running requests, over that of slow ones, from which
it contains what the server keeps of finished requests.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """
    A cause of the time in the leading segment.

    Args:
        cause: The cause.
        summary: The cause as a sentence without its subject, for example ``requests wait in the
            server's queue``.
        lever: The one change to try.
        evidence: Numbers that support it, one sentence each.
        refuted_by: Observation that would refute it.
        segments: Segments that the cause explains.
    """

    cause: Cause
    summary: str
    lever: str
    evidence: tuple[str, ...]
    refuted_by: str
    segments: tuple[str, ...]


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
    """Return the evidence of the server's metrics for a full KV cache; empty if it is not full."""
    kv = facts.sampled("kv_usage")
    if kv is None:
        return []
    # If all requests wait about as long, typical ones show it too: a cache that a large request
    # waits for is not full.
    usage = kv[0] if facts.attribution.by_excess else max(kv)
    if not _is_full(facts, usage):
        return []
    return [f"the KV cache is {percent(usage)} full while requests wait"]


def _is_full(facts: Facts, usage: float) -> bool:
    """
    Return whether the KV cache has no room for more requests like the others.

    Some servers count what they keep of finished requests as used, although it gives way to others.
    Then much less is running, and the cache is about as full.
    """
    running, waits = facts.sampled("requests_running"), facts.sampled("requests_waiting")
    if running is not None and _is_kept(facts, usage, running[0]):
        return False
    if usage >= _KV_FULL:
        return True
    if running is None or waits is None or waits[0] <= 0 or running[0] < 1:
        return False
    return usage >= _KV_NEARLY_FULL and usage * (running[0] + 1) / running[0] > 1


def _is_kept(facts: Facts, usage: float, running: float) -> bool:
    """Return whether the KV cache is about as full with half as many running requests, or fewer."""
    numbers, used = (facts.table.number(name) for name in ("requests_running", "kv_usage"))
    few = used[(numbers <= _FEW * running) & np.isfinite(used)]
    return len(few) >= MIN_POINTS and float(np.median(few)) >= _KEPT * usage
