"""How a client library's object is closed, heard by whoever follows it."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

__all__ = ["aclosing_of", "closing_of"]


class _Watching(Protocol):
    def closing(self) -> None: ...
    def closed(self) -> None: ...


_WatchOf = Callable[[Any], _Watching | None]
"""Returns who follows an object, ``None`` where nobody does."""


def closing_of(watch_of: _WatchOf) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """
    Return what replaces a ``close``, which leaving ``with`` calls too, or an ``__exit__``.

    Args:
        watch_of: Returns who follows the object that is closed.
    """

    def replacing(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def close(self: Any, *args: Any) -> Any:
            watching = watch_of(self)
            if watching is None:
                return original(self, *args)
            watching.closing()
            try:
                return original(self, *args)
            finally:
                watching.closed()

        return close

    return replacing


def aclosing_of(
    watch_of: _WatchOf,
) -> Callable[[Callable[..., Awaitable[Any]]], Callable[..., Awaitable[Any]]]:
    """Return the same for an asynchronous ``close``; argument as for :func:`closing_of`."""

    def replacing(original: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(original)
        async def close(self: Any, *args: Any) -> Any:
            watching = watch_of(self)
            if watching is None:
                return await original(self, *args)
            watching.closing()
            try:
                return await original(self, *args)
            finally:
                watching.closed()

        return close

    return replacing
