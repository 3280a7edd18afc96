"""
Context managers that are also decorators: scopes around a block, or around each run of a function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Protocol, TypeVar, cast

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_P = ParamSpec("_P")
_R = TypeVar("_R")


class Execution(Protocol[_T_co]):
    """One run of a block, a function call, or a generator from its first step to its end."""

    def current(self) -> AbstractContextManager[_T_co]:
        """Make the run current for one step."""
        ...

    def end(self, error: BaseException | None = None) -> None:
        """End the run, with the exception that ended it, if any."""
        ...


class _Steps(Generic[_T]):
    """A run that is current during each step, and does nothing at its end."""

    __slots__ = ("_current",)

    def __init__(self, current: Callable[[], AbstractContextManager[_T]]) -> None:
        self._current = current

    def current(self) -> AbstractContextManager[_T]:
        return self._current()

    def end(self, error: BaseException | None = None) -> None:
        """Do nothing."""


class _Entry(Generic[_T]):
    """One ``with`` statement that has entered a scope."""

    __slots__ = ("_inside", "_run", "_token")

    def __init__(self, run: Execution[_T] | None) -> None:
        self._run = run
        self._inside: AbstractContextManager[_T] | None = None
        self._token: Token[_Entry[Any] | None] | None = None

    def enter(self) -> _T:
        self._token = _innermost.set(self)
        if self._run is None:
            # `begin` may return None only for runs without a value.
            return cast("_T", None)
        self._inside = self._run.current()
        return self._inside.__enter__()

    def exit(self, error: BaseException | None) -> None:
        if self._token is not None:
            # A generator may be closed in a different context from the one it was started in.
            with suppress(ValueError):
                _innermost.reset(self._token)
        if self._inside is not None:
            self._inside.__exit__(None, None, None)
        if self._run is not None:
            self._run.end(error)


_innermost: Final[ContextVar[_Entry[Any] | None]] = ContextVar("latspan_scope", default=None)


class ScopeManager(Generic[_T]):
    """
    Context manager and decorator: a scope around a block, or around each run of a function.

    The same object can be used any number of times: sequentially, nested, and in several threads
    and tasks at once.

    Args:
        begin: Called for each run of the block or the function; returns the object that stands for
            this run. It may return ``None`` instead only if the ``with`` statement has no value.
    """

    __slots__ = ("_begin", "_open")

    def __init__(self, begin: Callable[[], Execution[_T] | None]) -> None:
        self._begin = begin
        self._open: list[_Entry[_T]] = []

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        return wrapped(function, self._begin)

    def __enter__(self) -> _T:
        return self._enter(self._begin())

    def _enter(self, run: Execution[_T] | None) -> _T:
        entry = _Entry(run)
        value = entry.enter()
        self._open.append(entry)
        return value

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._open:
            self._left().exit(exc)

    def _left(self) -> _Entry[_T]:
        """
        Remove and return the entry that ends here.

        Other threads and tasks may be inside the same scope.
        """
        here = _innermost.get()
        for entry in self._open.copy():
            if entry is here:
                self._open.remove(entry)
                return entry
        # The scope was entered in another context. The entries do not record their context, so
        # the latest one is used.
        return self._open.pop()


def scope_entering(current: Callable[[], AbstractContextManager[_T]]) -> ScopeManager[_T]:
    """
    Return a scope that enters a context manager.

    Args:
        current: Returns a new context manager for each block and each step of a generator.
    """
    return ScopeManager(lambda: _Steps(current))


def named_scope(subject: Any, scope: Callable[[str], ScopeManager[Any]]) -> Any:
    """
    Return a scope with a given name, or a function whose runs are scopes with the function's name.

    Args:
        subject: Name of the scope, or the function to decorate.
        scope: Function that returns a scope with a given name.
    """
    # A `classmethod` object is not callable.
    if callable(subject) or isinstance(subject, classmethod):
        decorate = cast("Any", scope(target_of(subject).__name__))
        return decorate(subject)
    return scope(subject)


Begin = Callable[[], Execution[Any] | None]
"""Begins a run; returns ``None`` for no run."""


def wrapped(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """
    Return ``function`` wrapped so that each of its runs is an :class:`Execution`.

    The function may be a generator, and synchronous or asynchronous. The run of a generator lasts
    from the generator's first step to its end, and is current only while a step runs.

    Args:
        function: The function, or the ``classmethod`` or ``staticmethod`` object of one.
        begin: Called when a run begins.
    """
    if isinstance(function, classmethod | staticmethod):
        # `functools.wraps` would return a plain function, which binds its first argument wrongly.
        method = cast("Any", function)
        return cast("Callable[..., Any]", type(method)(wrapped(method.__func__, begin)))
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin)
    if inspect.isgeneratorfunction(function) and not _is_awaited(function):
        return _generator(function, begin)
    if inspect.iscoroutinefunction(function) or _is_awaited(function):
        return _coroutine(function, begin)
    return _function(function, begin)


def target_of(function: Any) -> Any:
    """
    Return the function or class whose name a callable has.

    Args:
        function: A function, a method, a ``functools.partial``, or an object with ``__call__``.
    """
    while isinstance(function, functools.partial):
        function = cast("Any", function).func
    return function if hasattr(function, "__qualname__") else cast("object", function).__class__


def _is_awaited(function: Any) -> bool:
    """Return whether ``types.coroutine`` made the generators of a function awaitable."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return bool(getattr(code, "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE)


def _function(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        run = begin()
        if run is None:
            return function(*args, **kwargs)
        try:
            with run.current():
                result = function(*args, **kwargs)
        except BaseException as error:
            run.end(error)
            raise
        run.end()
        return result

    return call


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        run = begin()
        if run is None:
            return await function(*args, **kwargs)
        try:
            with run.current():
                result = await function(*args, **kwargs)
        except BaseException as error:
            run.end(error)
            raise
        run.end()
        return result

    return call


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        source = cast("Generator[Any, Any, Any]", function(*args, **kwargs))
        run = begin()
        if run is None:
            return (yield from source)
        step: Callable[[Any], Any] = source.send
        sent: Any = None
        try:
            while True:
                try:
                    with run.current():
                        item = step(sent)
                except StopIteration as stop:
                    run.end()
                    return stop.value
                try:
                    step, sent = source.send, (yield item)
                except GeneratorExit:
                    with run.current():
                        source.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - handed to the generator
                    step, sent = source.throw, thrown
        except BaseException as error:
            run.end(error)
            raise

    return call


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        source = cast("AsyncGenerator[Any, Any]", function(*args, **kwargs))
        run = begin()
        step: Callable[[Any], Any] = source.asend
        sent: Any = None
        try:
            while True:
                try:
                    if run is None:
                        item = await step(sent)
                    else:
                        with run.current():
                            item = await step(sent)
                except StopAsyncIteration:
                    break
                try:
                    step, sent = source.asend, (yield item)
                except GeneratorExit:
                    with nullcontext() if run is None else run.current():
                        await source.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - handed to the generator
                    step, sent = source.athrow, thrown
        except BaseException as error:
            if run is not None:
                run.end(error)
            raise
        if run is not None:
            run.end()

    return call
