"""A function of one's own, of whatever kind, with something around each of its runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

__all__ = ["Run", "wrapped"]


class Run(Protocol):
    """One run of a function: a call, or a generator from its first step to its end."""

    def current(self) -> AbstractContextManager[None]:
        """Be current for one step."""
        ...

    def finish(self, error: BaseException | None = None) -> None:
        """End it; with what ended it, if anything did."""
        ...


Begin = Callable[[], Run | None]
"""Begins a run; ``None`` where nothing is to be around it."""


def wrapped(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    """
    Return ``function`` with something around each of its runs.

    Works on functions and generators, synchronous and asynchronous. What is around a generator
    lasts from its first step to its end, and is current only while a step runs.

    Args:
        function: The function.
        begin: Called when a run begins.
    """
    if inspect.isasyncgenfunction(function):
        return _async_generator(function, begin)
    if inspect.isgeneratorfunction(function):
        return _generator(function, begin)
    if inspect.iscoroutinefunction(function):
        return _coroutine(function, begin)
    return _function(function, begin)


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
            run.finish(error)
            raise
        run.finish()
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
            run.finish(error)
            raise
        run.finish()
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
                    run.finish()
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
            run.finish(error)
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
                run.finish(error)
            raise
        if run is not None:
            run.finish()

    return call
