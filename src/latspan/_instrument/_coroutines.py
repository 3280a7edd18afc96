"""Coroutines and functions of latspan that replace those of a client library."""

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

    An ``async def`` would work too, but would raise for wrong arguments only when awaited.

    Args:
        function: A plain function; it is modified and returned.
    """
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    # Python 3.11 has no function for this. `inspect` reads this flag of the code object. The flag
    # does not change what the function does, because an instruction in the code creates a
    # coroutine.
    plain: Any = function
    plain.__code__ = plain.__code__.replace(co_flags=plain.__code__.co_flags | inspect.CO_COROUTINE)
    return function


def impersonate(ours: Coroutine[Any, Any, _T], begun: Awaitable[_T]) -> Coroutine[Any, Any, _T]:
    """
    Return ``ours``, made to look like ``begun``, which it awaits.

    ``ours`` gets the name of ``begun``. If ``ours`` is dropped before its first step, for example
    by a task that is cancelled immediately, ``begun`` is closed, so that Python prints no
    additional warning.

    Args:
        ours: latspan's coroutine, not started yet.
        begun: The awaitable that the client library returned. The library has been called
            already, because it raises for wrong arguments when it is called, and starts nothing
            else before it is awaited.
    """
    if isinstance(begun, CoroutineType):
        named: Any = ours
        named.__name__, named.__qualname__ = begun.__name__, begun.__qualname__
        weakref.finalize(ours, begun.close).atexit = False
    return ours
