"""``@traced``: a span around a function of one's own, whatever kind of function it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from latspan import _runtime, semconv
from latspan._fork import this_process
from latspan._runtime import Runtime
from latspan.instrument._outcomes import error_type_of, outcome_of
from latspan.segments import Outcome

if TYPE_CHECKING:
    from latspan._spans import AttributeValue, OpenSpan

__all__ = ["traced"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


@overload
def traced(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def traced(*, name: str | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def traced(function: Callable[..., Any] | None = None, /, *, name: str | None = None) -> Any:
    """
    Put a span around a function: ``@latspan.traced``.

    Works on functions and generators, synchronous and asynchronous. A generator's span lasts from
    its first step to its end, and is the current span only while a step runs.

    Args:
        function: The function.
        name: The span's name; the function's module and qualified name, if not given.
    """
    if function is None:
        return functools.partial(_trace, name=name)
    return _trace(function, name=name)


def _trace(function: Callable[..., Any], *, name: str | None) -> Callable[..., Any]:
    span_name = name or f"{function.__module__}.{function.__qualname__}"
    if inspect.isasyncgenfunction(function):
        return _traced_async_generator(function, span_name)
    if inspect.isgeneratorfunction(function):
        return _traced_generator(function, span_name)
    if inspect.iscoroutinefunction(function):
        return _traced_coroutine(function, span_name)
    return _traced_function(function, span_name)


class _Traced:
    """One span of a traced function, ended once."""

    __slots__ = ("_inline", "_offset_ns", "_process", "_runtime", "_span")

    def __init__(self, runtime: Runtime, name: str) -> None:
        from opentelemetry.trace import SpanKind

        sink = runtime.sink()
        self._runtime = runtime
        self._process = this_process()
        self._inline = sink.inline
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self._span: OpenSpan = sink.open(
            name,
            kind=SpanKind.INTERNAL,
            start_epoch_ns=runtime.clock.monotonic_ns() + self._offset_ns,
            attributes={},
        )

    @contextmanager
    def current(self) -> Generator[None]:
        """Be the current span for one step."""
        from opentelemetry import context

        token = context.attach(self._span.context)
        try:
            yield
        finally:
            context.detach(token)

    def finish(self, error: BaseException | None = None) -> None:
        if self._process is not this_process():
            # The process that began it ends it too.
            return
        from latspan._spans import FinishedSpan

        end_epoch_ns = self._runtime.clock.monotonic_ns() + self._offset_ns
        outcome = Outcome.COMPLETED if error is None else outcome_of(error)
        attributes: dict[str, AttributeValue] = {semconv.LATSPAN_OUTCOME: outcome.value}
        if error is not None and outcome is not Outcome.CLOSED_EARLY:
            attributes[semconv.ERROR_TYPE] = error_type_of(error)
        finished = FinishedSpan(end_epoch_ns, attributes, failed=outcome.failed)

        self._runtime.conclude(
            lambda: self._span.finish(finished),
            "the end of a traced function",
            inline=self._inline,
        )


def _open(name: str) -> _Traced | None:
    runtime = _runtime.current()
    if runtime is None:
        return None
    with _runtime.guarded("the start of a traced function"):
        return _Traced(runtime, name)
    return None


def _traced_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        span = _open(name)
        if span is None:
            return function(*args, **kwargs)
        try:
            with span.current():
                result = function(*args, **kwargs)
        except BaseException as error:
            span.finish(error)
            raise
        span.finish()
        return result

    return call


def _traced_coroutine(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        span = _open(name)
        if span is None:
            return await function(*args, **kwargs)
        try:
            with span.current():
                result = await function(*args, **kwargs)
        except BaseException as error:
            span.finish(error)
            raise
        span.finish()
        return result

    return call


def _traced_generator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        source = cast("Generator[Any, Any, Any]", function(*args, **kwargs))
        span = _open(name)
        if span is None:
            return (yield from source)
        step: Callable[[Any], Any] = source.send
        sent: Any = None
        try:
            while True:
                try:
                    with span.current():
                        item = step(sent)
                except StopIteration as stop:
                    span.finish()
                    return stop.value
                try:
                    step, sent = source.send, (yield item)
                except GeneratorExit:
                    with span.current():
                        source.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - handed to the generator
                    step, sent = source.throw, thrown
        except BaseException as error:
            span.finish(error)
            raise

    return call


def _traced_async_generator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        source = cast("AsyncGenerator[Any, Any]", function(*args, **kwargs))
        span = _open(name)
        step: Callable[[Any], Any] = source.asend
        sent: Any = None
        try:
            while True:
                try:
                    if span is None:
                        item = await step(sent)
                    else:
                        with span.current():
                            item = await step(sent)
                except StopAsyncIteration:
                    break
                try:
                    step, sent = source.asend, (yield item)
                except GeneratorExit:
                    await source.aclose()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - handed to the generator
                    step, sent = source.athrow, thrown
        except BaseException as error:
            if span is not None:
                span.finish(error)
            raise
        if span is not None:
            span.finish()

    return call
