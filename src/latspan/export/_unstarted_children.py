"""Children of an application's spans: ended whole, where nobody would see them start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import (
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    Tracer,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import (
    ParentBased,
    Sampler,
    SamplingResult,
    StaticSampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from latspan._spans import AttributeValue, ChildSpan, EndChildren, start_and_end
from latspan.export._trace_flags import has_random_id, trace_flags

__all__ = ["end_children_of"]

_FAILED: Final = Status(StatusCode.ERROR)
_FINE: Final = Status(StatusCode.UNSET)

_HOOKS: Final = tuple(hook for hook in ("on_start", "_on_ending") if hasattr(SpanProcessor, hook))
"""What a processor is told of a span before its end; the SDK has the second since 1.40."""

_DEAF: Final = frozenset(
    getattr(cls, hook)
    for cls in (SpanProcessor, SimpleSpanProcessor, BatchSpanProcessor)
    for hook in _HOOKS
)
"""The SDK's own hooks that do nothing."""

_KNOWN: Final = (
    "sampler",
    "resource",
    "span_processor",
    "id_generator",
    "_span_limits",
    "_instrumentation_scope",
)
"""The parts of the SDK's tracer that are used here; some are its own affair."""

_BY_TRACE: Final = frozenset({StaticSampler, TraceIdRatioBased})
"""The SDK's samplers that look at nothing but the trace."""

_COUNTS_NOTHING: Final = frozenset({"NoneType", "NoOpTracerMetrics"})


def end_children_of(tracer: trace.Tracer) -> EndChildren | None:
    """
    Return the fast way to end children of that tracer's spans, ``None`` where it has none.

    Args:
        tracer: Of an application's provider, whatever that is.
    """
    # A subclass may do anything, and an SDK whose inside has changed is not one that we know.
    if type(tracer) is not Tracer or not all(map(tracer.__dict__.__contains__, _KNOWN)):
        return None
    return _UnstartedChildren(tracer)


class _UnstartedChildren:
    """
    Ends children of an SDK's spans without starting them.

    To start and end a span of the SDK's takes some 15 µs on the caller's thread, and a call has
    nine children, all of which have ended when they become known. So each is made as the SDK
    makes it at its end: its sampler is asked, its identities are drawn, its limits hold, and its
    processors are handed the same span. Where a processor wants to hear of a span before that,
    to add an attribute say, the spans are started as usual.
    """

    __slots__ = ("_limits", "_looked_at", "_scope", "_tracer")

    def __init__(self, tracer: Tracer) -> None:
        inside = cast("Any", tracer)
        self._tracer = tracer
        self._limits: SpanLimits = inside._span_limits
        self._scope = inside._instrumentation_scope
        self._looked_at: tuple[Sequence[SpanProcessor] | None, bool] = (None, False)

    def __call__(self, children: Sequence[ChildSpan], context: Context) -> None:
        if self._nobody_hears():
            parent = trace.get_current_span(context).get_span_context()
            sampler = self._tracer.sampler
            one_for_all = _looks_at_the_trace_alone(sampler)
            answer: SamplingResult | None = None
            flags = TraceFlags.get_default()
            for child in children:
                attributes: Mapping[str, Any] = child.attributes
                if answer is None or not one_for_all:
                    answer = sampler.should_sample(
                        context, parent.trace_id, child.name, child.kind, attributes, ()
                    )
                    flags = trace_flags(
                        sampled=answer.decision.is_sampled(), is_random=has_random_id(parent)
                    )
                if not one_for_all:
                    attributes = cast("Any", answer).attributes
                # Drawn whatever was decided, as the SDK does.
                span_id = self._tracer.id_generator.generate_span_id()
                if answer.decision.is_recording():
                    identity = SpanContext(
                        parent.trace_id,
                        span_id,
                        is_remote=False,
                        trace_flags=flags,
                        trace_state=answer.trace_state,
                    )
                    self._end(child, parent, identity, attributes)
        else:
            start_and_end(self._tracer, children, context)

    def _nobody_hears(self) -> bool:
        """Return whether nothing but the end of a span is anybody's business, at this moment."""
        inside = cast("Any", self._tracer)
        # Later SDKs can switch a tracer off, and count the spans that are open.
        if not getattr(inside, "_is_enabled", _yes)():
            return False
        if type(getattr(inside, "_tracer_metrics", None)).__name__ not in _COUNTS_NOTHING:
            return False
        processor = inside.span_processor
        if type(processor) is not SynchronousMultiSpanProcessor:
            return False
        # An application may add a processor at any time: that makes it another tuple.
        processors: Sequence[SpanProcessor] = processor._span_processors  # pyright: ignore[reportPrivateUsage]
        looked_at, nobody_hears = self._looked_at
        if looked_at is not processors:
            nobody_hears = all(map(_is_deaf, processors))
            self._looked_at = processors, nobody_hears
        return nobody_hears

    def _end(
        self,
        child: ChildSpan,
        parent: SpanContext,
        identity: SpanContext,
        attributes: Mapping[str, Any],
    ) -> None:
        tracer = self._tracer
        tracer.span_processor.on_end(
            ReadableSpan(
                child.name,
                context=identity,
                parent=parent,
                resource=tracer.resource,
                attributes=self._bounded(child.attributes, attributes),
                kind=child.kind,
                instrumentation_scope=self._scope,
                status=_FAILED if child.failed else _FINE,
                start_time=child.start_epoch_ns,
                end_time=child.end_epoch_ns,
            )
        )

    def _bounded(
        self, ours: Mapping[str, AttributeValue], attributes: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return the attributes as the SDK keeps them; a sampler may have changed ours."""
        most, longest = self._limits.max_span_attributes, self._limits.max_span_attribute_length
        as_they_are = attributes is ours or attributes == ours
        if longest is None and (most is None or len(ours) <= most) and as_they_are:
            return dict(ours)
        return BoundedAttributes(most, attributes, max_value_len=longest)


def _looks_at_the_trace_alone(sampler: Sampler) -> bool:
    """Return whether a sampler says the same of all children of a span of this process."""
    if type(sampler) is ParentBased:
        below = cast("Any", sampler)
        return all(
            type(each) in _BY_TRACE
            for each in (below._local_parent_sampled, below._local_parent_not_sampled)
        )
    return type(sampler) in _BY_TRACE


def _yes() -> bool:
    return True


def _is_deaf(processor: SpanProcessor) -> bool:
    return all(
        getattr(getattr(processor, hook, None), "__func__", None) in _DEAF for hook in _HOOKS
    )
