"""Lock-free reading of the newest items of a deque that another thread appends to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def newest(kept: deque[_T], wanted: Callable[[_T], bool]) -> list[_T]:
    """
    Return the newest items, newest first, up to the first that is not wanted.

    A lock could deadlock: a signal handler or the garbage collector may call this function on a
    thread that is already inside it. If an item is added during the iteration, it starts again.

    Args:
        kept: The items, oldest first.
        wanted: Function that returns whether to return an item; at the first item for which it
            does not, the search stops.
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
