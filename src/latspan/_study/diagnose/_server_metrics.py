"""
Evidence from the server's own metrics, which ``scrape_servers`` records with each request.

Samples are taken at intervals, so a short queue may fall between two of them. They support a cause,
but shares are not computed from them.
"""

from __future__ import annotations

from typing import Final

from latspan._drawing import percent
from latspan._study.diagnose._facts import Facts

__all__ = ["kv_pressure", "waiting"]

_KV_FULL: Final = 0.9
"""Used fraction of the KV cache from which requests wait for it, or are evicted from it."""


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
    if kv is None or kv[0] < _KV_FULL:
        return []
    return [f"the KV cache is {percent(kv[0])} full during slow requests"]
