"""
Inspection of an application's span processors: which hooks they use and when they export.

latspan may skip the start of a span if no processor has a hook that runs before the end of a span.
It may end a span after its request if all processors collect spans in batches. Such a late span
must not miss a flush: therefore the provider's and the SDK's own processors are patched to wait for
latspan before they flush or shut down.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, cast

from opentelemetry.sdk.trace import SpanProcessor, SynchronousMultiSpanProcessor, Tracer
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

from latspan import _runtime

__all__ = ["Processors", "has_processors"]

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

_LONGEST_WAIT_S: Final = 5.0


def has_processors(provider: object) -> bool:
    """Return whether a provider has span processors; true if its type is not known."""
    processor = getattr(provider, "_active_span_processor", None)
    if type(processor) is not SynchronousMultiSpanProcessor:
        return True
    return bool(processor._span_processors)  # pyright: ignore[reportPrivateUsage]


class Processors:
    """
    Processors of an SDK tracer, inspected again only after one was added.

    The SDK replaces its tuple of processors when one is added, so that comparing the identity of
    the tuple is enough to detect it.

    Args:
        tracer: A tracer of an application's provider.
    """

    __slots__ = ("_batch", "_ignore_starts", "_looked_at", "_tracer")

    def __init__(self, tracer: Tracer) -> None:
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
        processors: Sequence[SpanProcessor] = processor._span_processors  # pyright: ignore[reportPrivateUsage]
        if self._looked_at is not processors:
            self._ignore_starts = all(map(_ignores_starts, processors))
            self._batch = {type(each) for each in processors} == {BatchSpanProcessor}
            for each in (processor, *processors):
                if type(each) in _OF_THE_SDK:
                    _have_wait(each)
            self._looked_at = processors
        return True


def _ignores_starts(processor: SpanProcessor) -> bool:
    return all(
        getattr(getattr(processor, hook, None), "__func__", None) in _NO_OP_HOOKS for hook in _HOOKS
    )


def _have_wait(processor: Any) -> None:
    """Patch a processor to wait for finished requests before it flushes or shuts down."""
    if hasattr(processor, _WAITS):
        return
    setattr(processor, _WAITS, True)
    processor.force_flush = _after_waiting(processor.force_flush)
    processor.shutdown = _after_waiting(processor.shutdown)


def _after_waiting(method: Callable[..., _T]) -> Callable[..., _T]:
    @functools.wraps(method)
    def after_waiting(*args: Any, **kwargs: Any) -> _T:
        with _runtime.handle_internal_errors("a flush by the application"):
            runtime = _runtime.current()
            if runtime is not None:
                runtime.drain(_LONGEST_WAIT_S)
        return method(*args, **kwargs)

    return after_waiting


def _yes() -> bool:
    return True
