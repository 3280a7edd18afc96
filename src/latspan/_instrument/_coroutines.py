"""Coroutines of ours, and functions that return them, in the place of a client library's."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any, ParamSpec, TypeVar

__all__ = ["as_coroutine_function", "impersonate"]

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def as_coroutine_function(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """
    Mark a function that returns a coroutine, for ``inspect.iscoroutinefunction``.

    An ``async def`` would do as well, but refuse wrong arguments only when it is awaited.

    Args:
        function: A plain function; it is changed, and returned.
    """
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    # Python 3.11 has no such mark. `inspect` reads this flag; the interpreter makes a coroutine
    # by an instruction in the code, whatever the flag is.
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_flags=plain.__code__.co_flags | inspect.CO_COROUTINE)
    return function


def impersonate(ours: Coroutine[Any, Any, _T], begun: Awaitable[_T]) -> Coroutine[Any, Any, _T]:
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
