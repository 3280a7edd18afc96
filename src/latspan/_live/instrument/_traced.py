"""``@traced`` decorator: a span around a function or generator of the application."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from latspan import semconv
from latspan._base.fork import this_process
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.instrument._decorators import target_of, wrapped
from latspan._live.instrument._outcomes import error_type_of, outcome_of
from latspan._live.process.runtime import Runtime, current_runtime
from latspan._model.segments import Outcome

if TYPE_CHECKING:
    from latspan._live.otel.spans import AttributeValue, OpenSpan

_P = ParamSpec("_P")
_R = TypeVar("_R")


@overload
def traced(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def traced(name: str, /) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
@overload
def traced(*, name: str | None = None) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...
def traced(function: Callable[..., Any] | str | None = None, /, *, name: str | None = None) -> Any:
    """
    Create a span for each call of a function: ``@latspan.traced`` or ``@latspan.traced("name")``.

    The function may be a generator, and synchronous or asynchronous. The span of a generator lasts
    from the generator's first step to its end, and is the current span only while a step runs.

    Args:
        function: The function.
        name: The span's name; if not given, the function's module and qualified name.
    """
    if function is None or isinstance(function, str):
        return functools.partial(_trace, name=function or name)
    return _trace(function, name=name)


def _trace(function: Callable[..., Any], *, name: str | None) -> Callable[..., Any]:
    return wrapped(function, functools.partial(_open, name or _name_of(function)))


def _name_of(function: Any) -> str:
    """Return module and qualified name of a function, or of another callable's target or class."""
    named = target_of(function)
    return f"{named.__module__}.{named.__qualname__}"


class _Traced:
    """One span of a traced function, ended once."""

    __slots__ = ("_inline", "_offset_ns", "_process", "_runtime", "_span")

    def __init__(self, runtime: Runtime, name: str) -> None:
        from opentelemetry import context
        from opentelemetry.trace import SpanKind

        from latspan._base.text import text_of

        sink = runtime.sink()
        self._runtime = runtime
        self._process = this_process()
        self._inline = sink.inline
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self._span: OpenSpan = sink.open(
            text_of(name),
            kind=SpanKind.INTERNAL,
            start_epoch_ns=runtime.clock.monotonic_ns() + self._offset_ns,
            attributes={},
            parent_context=context.get_current(),
        )

    def current(self) -> AbstractContextManager[None]:
        """Make the span current for one step."""
        from latspan._live.operations import inside

        return inside(self._span.context)

    def end(self, error: BaseException | None = None) -> None:
        if self._process is not this_process():
            # In a forked child: only the process that began the span ends it.
            return
        from latspan._live.otel.spans import FinishedSpan

        end_epoch_ns = self._runtime.clock.monotonic_ns() + self._offset_ns
        outcome = Outcome.COMPLETED if error is None else outcome_of(error)
        attributes: dict[str, AttributeValue] = {semconv.LATSPAN_OUTCOME: outcome.value}
        if error is not None and outcome is not Outcome.CLOSED_EARLY:
            attributes[semconv.ERROR_TYPE] = error_type_of(error)
        finished = FinishedSpan(end_epoch_ns, attributes, failed=outcome.failed)
        self._span.stop_recording()
        self._runtime.run_at_end(
            "the end of a traced function", self._span.end, finished, inline=self._inline
        )


def _open(name: str) -> _Traced | None:
    runtime = current_runtime()
    if runtime is None:
        return None
    with handle_internal_errors("the start of a traced function"):
        return _Traced(runtime, name)
    return None
