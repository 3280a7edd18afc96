"""
Hooks on the close methods of a client library's objects, which notify the tracker.

They have a module of their own, because ``_coexistence.py`` recognises by its module the code that
calls an SDK and receives its result: these hooks are called by an SDK.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class _Watching(Protocol):
    def closing(self) -> None: ...
    def closed(self) -> None: ...


_TrackerOf = Callable[[Any], _Watching | None]
"""Returns the tracker of an object, ``None`` if the object is not tracked."""


def closing_of(tracker_of: _TrackerOf) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Return a function that takes a ``close`` or ``__exit__`` and returns its replacement.

    Leaving a ``with`` block calls ``close`` too.

    Args:
        tracker_of: Returns the tracker of the object that is closed.
    """

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def close(self: Any, *args: Any) -> Any:
            tracker = tracker_of(self)
            if tracker is None:
                return original(self, *args)
            tracker.closing()
            try:
                return original(self, *args)
            finally:
                tracker.closed()

        return close

    return replacing


def aclosing_of(
    tracker_of: _TrackerOf,
) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """Return the asynchronous counterpart of :func:`closing_of`."""

    def replacing(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(original)
        async def close(self: Any, *args: Any) -> Any:
            tracker = tracker_of(self)
            if tracker is None:
                return await original(self, *args)
            tracker.closing()
            try:
                return await original(self, *args)
            finally:
                tracker.closed()

        return close

    return replacing
