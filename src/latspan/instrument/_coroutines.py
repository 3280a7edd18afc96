"""A coroutine of ours in the place of one of a client library's."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Coroutine
from types import CoroutineType
from typing import Any, TypeVar

__all__ = ["stand_in"]

_T = TypeVar("_T")


def stand_in(ours: Coroutine[Any, Any, _T], begun: Awaitable[_T]) -> Coroutine[Any, Any, _T]:
    """
    Return ``ours`` so that it passes for ``begun``, which it awaits.

    It bears the other's name, and where it is dropped before its first step, as a task that is
    cancelled at once drops it, Python warns no more than it would without us.

    Args:
        ours: Not started yet.
        begun: What the client library returned; called already, because a library refuses wrong
            arguments when it is called, and begins nothing else before it is awaited.
    """
    if isinstance(begun, CoroutineType):
        named: Any = ours
        named.__name__, named.__qualname__ = begun.__name__, begun.__qualname__
        weakref.finalize(ours, begun.close).atexit = False
    return ours
