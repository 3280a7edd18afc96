"""
The SDK's own tracer, whose parts save most of the time that child spans take, and its processors.

Only the exact class of the SDK is used in this way, and only if it has all the attributes below. A
subclass may behave in any way, and so may a version of the SDK with other attributes: their spans
are started and ended through the API.

Of an application's span processors it matters which hooks they use, and when they export. latspan
may skip the start of a span if no processor has a hook that runs before the end of a span. It may
end a span after its request if all processors collect spans in batches. Such a late span must not
miss a flush: therefore the provider's and the SDK's own processors are patched to wait for latspan
before they flush or shut down.

The tuple of processors, the tracer's switch and its counters have no public names. If a release
names them otherwise, spans are started and ended one by one, as the API would.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard, TypeVar, cast

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, SynchronousMultiSpanProcessor, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

_LIMITS: Final = "_span_limits"
_SCOPE: Final = "_instrumentation_scope"
_USED: Final = ("sampler", "resource", "span_processor", "id_generator", _LIMITS, _SCOPE)
"""Attributes of the SDK's tracer that latspan uses; two of them are private."""


def is_known(tracer: trace.Tracer) -> TypeGuard[Tracer]:
    """Return whether a tracer is the SDK's own, with the attributes that latspan uses."""
    return type(tracer) is Tracer and all(map(tracer.__dict__.__contains__, _USED))


def limits_of(tracer: Tracer) -> SpanLimits:
    """Return the limits of the spans of a known tracer."""
    return getattr(tracer, _LIMITS)


def scope_of(tracer: Tracer) -> InstrumentationScope:
    """Return the instrumentation scope of the spans of a known tracer."""
    return getattr(tracer, _SCOPE)


_T = TypeVar("_T")

_HOOKS: Final = tuple(hook for hook in ("on_start", "_on_ending") if hasattr(SpanProcessor, hook))
"""Hooks of a processor before the end of a span; the second exists since SDK 1.40."""

_NO_OP_HOOKS: Final = frozenset(
    getattr(cls, hook)
    for cls in (SpanProcessor, SimpleSpanProcessor, BatchSpanProcessor)
    for hook in _HOOKS
)
"""Implementations of the hooks in the SDK that do nothing."""

_COUNTS_NOTHING: Final = frozenset({"NoneType", "NoOpTracerMetrics"})

_OF_THE_SDK: Final = (SynchronousMultiSpanProcessor, SimpleSpanProcessor, BatchSpanProcessor)
"""Processors whose flush waits for latspan; the first is the one that a provider itself calls."""

_WAITS: Final = "_latspan_waits"
"""Attribute that marks a processor whose flush waits for latspan."""


class Processors:
    """
    Processors of an SDK tracer, inspected again only after one was added.

    The SDK replaces its tuple of processors when one is added, so that comparing the identity of
    the tuple is enough to detect it.

    Args:
        tracer: A tracer of an application's provider.
        before_flush: Called before a processor flushes or shuts down; it does not raise.
    """

    __slots__ = ("_batch", "_before_flush", "_ignore_starts", "_looked_at", "_tracer")

    def __init__(self, tracer: Tracer, before_flush: Callable[[], None]) -> None:
        self._before_flush = before_flush
        self._tracer = cast("Any", tracer)
        self._looked_at: Sequence[SpanProcessor] | None = None
        self._ignore_starts = self._batch = False

    def need_only_ends(self) -> bool:
        """Return whether, at this moment, only the end of a span has an effect, not its start."""
        # Newer SDKs can disable a tracer, and count the open spans.
        if not getattr(self._tracer, "_is_enabled", _yes)():
            return False
        if type(getattr(self._tracer, "_tracer_metrics", None)).__name__ not in _COUNTS_NOTHING:
            return False
        return self._look() and self._ignore_starts

    def gather(self) -> bool:
        """
        Return whether all processors collect spans in batches, so that none reacts to an end.

        After this call the provider, and each of the SDK's own processors, waits for latspan
        before it flushes or shuts down.
        """
        return self._look() and self._batch

    def _look(self) -> bool:
        """Inspect the processors and return whether the way they are called is known."""
        processor = self._tracer.span_processor
        if type(processor) is not SynchronousMultiSpanProcessor:
            return False
        processors: Sequence[SpanProcessor] | None = getattr(processor, "_span_processors", None)
        if processors is None:
            return False
        if self._looked_at is not processors:
            self._ignore_starts = all(map(_ignores_starts, processors))
            self._batch = {type(each) for each in processors} == {BatchSpanProcessor}
            for each in (processor, *processors):
                if type(each) in _OF_THE_SDK:
                    _have_wait(each, self._before_flush)
            self._looked_at = processors
        return True


def _ignores_starts(processor: SpanProcessor) -> bool:
    return all(
        getattr(getattr(processor, hook, None), "__func__", None) in _NO_OP_HOOKS for hook in _HOOKS
    )


def _have_wait(processor: Any, before_flush: Callable[[], None]) -> None:
    """Patch a processor to wait for finished requests before it flushes or shuts down."""
    if hasattr(processor, _WAITS):
        return
    setattr(processor, _WAITS, True)
    processor.force_flush = _after(before_flush, processor.force_flush)
    processor.shutdown = _after(before_flush, processor.shutdown)


def _after(before: Callable[[], None], method: Callable[..., _T]) -> Callable[..., _T]:
    @functools.wraps(method)
    def after(*args: Any, **kwargs: Any) -> _T:
        before()
        return method(*args, **kwargs)

    return after


def _yes() -> bool:
    return True
