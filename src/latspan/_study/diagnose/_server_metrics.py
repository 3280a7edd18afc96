"""
Evidence from the server's own metrics, which ``scrape_servers`` records with each request.

Samples have an interval, so a short queue may be between two of them. They support a cause, and no
share follows from them.
"""

from __future__ import annotations

from typing import Final

from latspan._drawing import percent
from latspan._study.diagnose._facts import Facts

__all__ = ["kv_pressure", "waiting"]

_KV_FULL: Final = 0.9
"""Fraction of the KV cache from which requests wait for it, or lose their place in it."""


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
