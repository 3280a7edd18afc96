"""The newest of what one thread keeps and others look up, without a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

__all__ = ["newest"]

_T = TypeVar("_T")


def newest(kept: deque[_T], wanted: Callable[[_T], bool]) -> list[_T]:
    """
    Return the newest items, newest first, up to the first that is not wanted.

    No lock is taken: a signal handler may ask on a thread that is asking already, and the collector
    may run anywhere. Where something is added meanwhile, it looks again.

    Args:
        kept: Oldest first.
        wanted: Whether an item is to be returned; once not, no older one is.
    """
    while True:
        found: list[_T] = []
        try:
            for item in reversed(kept):
                if not wanted(item):
                    break
                found.append(item)
        except RuntimeError:
            continue
        return found
