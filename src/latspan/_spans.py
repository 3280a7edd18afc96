"""
From a finished timeline to spans, and the seam through which they leave.

A *sink* is where spans are opened and finished: the OpenTelemetry API's, which is an
application's own provider, or latspan's private one. Which of them is in use is nobody's
business here.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from latspan import semconv
from latspan._timeline import Attempt, Timeline
from latspan.metrics import METRICS
from latspan.segments import (
    Outcome,
    ReportedTimings,
    Segment,
    SegmentName,
    Source,
    Stage,
    totals,
)
from latspan.tokens import TokenCounts
from latspan.units import MetricUnit, in_metric_unit, to_seconds

__all__ = [
    "ApiSink",
    "AttributeValue",
    "ChildSpan",
    "EndChildren",
    "EnrichingSink",
    "FinishedSpan",
    "NoSink",
    "OpenSpan",
    "SpanSink",
    "attempt_spans",
    "gen_ai_latency",
    "interleaved_attributes",
    "latency_attributes",
    "not_said_otherwise",
    "segment_spans",
    "start_and_end",
    "token_attributes",
]

AttributeValue = str | bool | int | float | Sequence[str]

_NEVER_A_SPAN: Final[frozenset[str]] = frozenset({SegmentName.CONSUMER, SegmentName.RETRY})
"""Time that is interleaved with others, or has spans of its own: an attribute instead."""

_PERCENTILE_95_NEEDS: Final = 20


class ChildSpan(NamedTuple):
    """A child that is known only after its parent has ended. Instants are Unix nanoseconds."""

    name: str
    start_epoch_ns: int
    end_epoch_ns: int
    attributes: Mapping[str, AttributeValue]
    kind: SpanKind = SpanKind.INTERNAL
    failed: bool = False


class FinishedSpan(NamedTuple):
    """
    What is known of a span at its end.

    Args:
        end_epoch_ns: Unix nanoseconds.
        attributes: Added to those it was opened with.
        failed: Whether its status is an error.
        children: Spans beneath it.
        name: What it turned out to be; its first name stands if ``None``.
    """

    end_epoch_ns: int
    attributes: Mapping[str, AttributeValue]
    failed: bool = False
    children: tuple[ChildSpan, ...] = ()
    name: str | None = None


class OpenSpan(Protocol):
    """A span that has begun."""

    @property
    def span_context(self) -> SpanContext:
        """Its identity, which travels in ``traceparent``."""
        ...

    @property
    def context(self) -> Context:
        """The OpenTelemetry context in which it is the current span."""
        ...

    def finish(self, finished: FinishedSpan) -> None:
        """End it, children included; called once."""
        ...


class SpanSink(Protocol):
    """Where spans are opened."""

    @property
    def inline(self) -> bool:
        """
        Whether spans must be finished on the caller's thread, when the request ends.

        True for an application's own provider, so that its ``force_flush`` loses none.
        """
        ...

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> OpenSpan:
        """Begin a span beneath the current one."""
        ...

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Make and end spans beneath the one that is current in ``parent``."""
        ...


EndChildren = Callable[[Sequence[ChildSpan], Context], None]
"""Makes and ends the children of the span that is current in a context."""


def start_and_end(tracer: trace.Tracer, children: Sequence[ChildSpan], context: Context) -> None:
    """Start and end children through the OpenTelemetry API."""
    for child in children:
        span = tracer.start_span(
            child.name,
            context=context,
            kind=child.kind,
            attributes=child.attributes,
            start_time=child.start_epoch_ns,
        )
        if child.failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(child.end_epoch_ns)


class _ApiSpan:
    """A span of the OpenTelemetry API."""

    __slots__ = ("_context", "_end_children", "_span")

    def __init__(self, span: trace.Span, end_children: EndChildren) -> None:
        self._span = span
        self._end_children = end_children
        self._context = trace.set_span_in_context(span)

    @property
    def span_context(self) -> SpanContext:
        return self._span.get_span_context()

    @property
    def context(self) -> Context:
        return self._context

    def finish(self, finished: FinishedSpan) -> None:
        span = self._span
        if span.is_recording():
            self._end_children(finished.children, self._context)
            if finished.name is not None:
                span.update_name(finished.name)
            span.set_attributes(finished.attributes)
            if finished.failed:
                span.set_status(Status(StatusCode.ERROR))
        span.end(finished.end_epoch_ns)


class ApiSink:
    """
    Spans through the OpenTelemetry API: an application's provider, whatever it is.

    Args:
        tracer: A tracer of that provider.
        end_children: How its spans' children are ended; started first, unless given.
    """

    inline = True

    def __init__(self, tracer: trace.Tracer, end_children: EndChildren | None = None) -> None:
        self._tracer = tracer
        self._end_children = end_children or functools.partial(start_and_end, tracer)

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> OpenSpan:
        """Begin a span beneath the current one; the provider's sampler rules."""
        span = self._tracer.start_span(
            name, kind=kind, attributes=attributes, start_time=start_epoch_ns
        )
        return _ApiSpan(span, self._end_children)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Make and end spans beneath the one that is current in ``parent``."""
        self._end_children(children, parent)


class EnrichingSink:
    """
    No span of its own: what is known goes to the span that another instrumentation has open.

    Args:
        sink: Where the spans beneath go.
        span: The other's span.
    """

    inline = True

    def __init__(self, sink: SpanSink, span: trace.Span) -> None:
        self._sink = sink
        self._span = span

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],
    ) -> OpenSpan:
        """Take the other's span for ours, which it ends itself."""
        return _EnrichedSpan(self._sink, self._span, attributes)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Hand them on."""
        self._sink.end_children(children, parent)


class _EnrichedSpan:
    """
    The other's span, whose end waits for the call's.

    Some end theirs inside the call, before its answer is known: ended, it would take nothing more.
    """

    __slots__ = ("_attributes", "_context", "_ended_epoch_ns", "_sink", "_span")

    def __init__(
        self, sink: SpanSink, span: trace.Span, attributes: Mapping[str, AttributeValue]
    ) -> None:
        self._sink = sink
        self._span = span
        self._attributes = attributes
        self._context = trace.set_span_in_context(span)
        self._ended_epoch_ns: int | None = None
        with suppress(AttributeError):
            span.end = self._end_later

    def _end_later(self, end_time: int | None = None) -> None:
        if self._ended_epoch_ns is None:
            self._ended_epoch_ns = time.time_ns() if end_time is None else end_time

    @property
    def span_context(self) -> SpanContext:
        return self._span.get_span_context()

    @property
    def context(self) -> Context:
        return self._context

    def finish(self, finished: FinishedSpan) -> None:
        span = self._span
        try:
            self._sink.end_children(finished.children, self._context)
            # What the other says of it stands: a span is its maker's.
            said: Mapping[str, object] = getattr(span, "attributes", None) or {}
            known = {**self._attributes, **finished.attributes}
            span.set_attributes({key: value for key, value in known.items() if key not in said})
        finally:
            with suppress(AttributeError):
                del span.end
            if self._ended_epoch_ns is not None:
                span.end(self._ended_epoch_ns)


class NoSink:
    """No spans: histograms alone."""

    inline = False

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],  # noqa: ARG002
    ) -> OpenSpan:
        """Hand on whatever span is current, and end nothing."""
        return _NoSpan()

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Drop them."""


class _NoSpan:
    __slots__ = ("_context",)

    def __init__(self) -> None:
        self._context = trace.set_span_in_context(trace.get_current_span())

    @property
    def span_context(self) -> SpanContext:
        return trace.INVALID_SPAN_CONTEXT

    @property
    def context(self) -> Context:
        return self._context

    def finish(self, finished: FinishedSpan) -> None:
        pass


def segment_spans(segments: Sequence[Segment], start_epoch_ns: int) -> tuple[ChildSpan, ...]:
    """
    Return a child for each segment that is one interval, not empty, and whose source is known.

    Args:
        segments: Of a finished timeline.
        start_epoch_ns: When that timeline began, Unix nanoseconds.
    """
    interleaved = _interleaved(segments)
    return tuple(
        ChildSpan(
            name,
            start_epoch_ns + start_ns,
            start_epoch_ns + end_ns,
            _segment_attributes(name, source),
        )
        for name, start_ns, end_ns, source in segments
        if name not in interleaved and source is not Source.UNKNOWN and start_ns < end_ns
    )


# Of the same few segments all calls are made: one mapping each, which nobody changes.
@functools.lru_cache(maxsize=256)
def _segment_attributes(name: str, source: Source) -> Mapping[str, AttributeValue]:
    return {semconv.LATSPAN_SEGMENT: name, semconv.LATSPAN_SOURCE: source.value}


def _interleaved(segments: Sequence[Segment]) -> frozenset[str]:
    """Return the names of what has no span of its own: more than one interval, or never one."""
    names = [segment.name for segment in segments]
    if len({*names}) == len(names):
        return _NEVER_A_SPAN
    return _NEVER_A_SPAN.union(name for name, intervals in Counter(names).items() if intervals > 1)


def attempt_spans(
    attempts: Sequence[Attempt], *, method: str, epoch_offset_ns: int, done_ns: int
) -> tuple[ChildSpan, ...]:
    """Return a child for each try of a call, where there was more than one."""
    if len(attempts) < 2:
        return ()
    return tuple(
        ChildSpan(
            name=method,
            start_epoch_ns=attempt.start_ns + epoch_offset_ns,
            end_epoch_ns=(attempt.end_ns or done_ns) + epoch_offset_ns,
            attributes=_attempt_attributes(attempt, resend_count),
            kind=SpanKind.CLIENT,
            failed=attempt.failed,
        )
        for resend_count, attempt in enumerate(attempts)
    )


def _attempt_attributes(attempt: Attempt, resend_count: int) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    if resend_count:
        attributes[semconv.HTTP_REQUEST_RESEND_COUNT] = resend_count
    if attempt.status is not None:
        attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = attempt.status
    if attempt.error_type is not None:
        attributes[semconv.ERROR_TYPE] = attempt.error_type
    if attempt.reused is not None:
        attributes[semconv.LATSPAN_CONNECTION_REUSED] = attempt.reused
    return attributes


_NAMED: Final[Mapping[str, tuple[str, MetricUnit]]] = {
    name: (key, METRICS[name].unit)
    for name, key in (
        ("time_to_first_chunk", semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK),
        ("time_to_first_token", semconv.LATSPAN_TIME_TO_FIRST_TOKEN),
        ("time_to_first_visible_token", semconv.LATSPAN_TIME_TO_FIRST_VISIBLE_TOKEN),
        ("time_per_output_token", semconv.LATSPAN_TIME_PER_OUTPUT_TOKEN),
        ("chunk_gap_max", semconv.LATSPAN_CHUNK_GAP_MAX),
        ("stall_count", semconv.LATSPAN_STALL_COUNT),
        ("stall_duration", semconv.LATSPAN_STALL_DURATION),
        ("stall_ratio", semconv.LATSPAN_STALL_RATIO),
        ("fluidity", semconv.LATSPAN_FLUIDITY),
        ("buffer_needed", semconv.LATSPAN_BUFFER_NEEDED),
    )
}
"""The attribute of each metric, and its unit."""


def latency_attributes(
    timeline: Timeline, outcome: Outcome, reported: Iterable[ReportedTimings]
) -> dict[str, AttributeValue]:
    """Return what a client span says of its time; seconds as doubles."""
    attributes: dict[str, AttributeValue] = {semconv.LATSPAN_OUTCOME: outcome.value}
    estimated: list[str] = []
    for name, (key, unit) in _NAMED.items():
        value = timeline.metrics.get(name)
        if value is not None:
            attributes[key] = in_metric_unit(value.value, unit)
            if value.source is not Source.MEASURED:
                estimated.append(key)
    gaps = timeline.chunk_gaps
    if len(gaps) >= _PERCENTILE_95_NEEDS:
        ordered = sorted(gap.value for gap in gaps)
        rank = -(-len(ordered) * 95 // 100)
        attributes[semconv.LATSPAN_CHUNK_GAP_P95] = to_seconds(ordered[rank - 1])
        if any(gap.source is not Source.MEASURED for gap in gaps):
            estimated.append(semconv.LATSPAN_CHUNK_GAP_P95)
    if estimated:
        attributes[semconv.LATSPAN_ESTIMATED] = estimated
    if "buffered" in timeline.metrics:
        attributes[semconv.LATSPAN_BUFFERED] = True
    attributes |= interleaved_attributes(timeline.segments)
    for report in reported:
        prefix = f"{semconv.LATSPAN_REPORTED_PREFIX}{report.system}."
        attributes |= {prefix + name: value for name, value in report.raw.items()}
    if timeline.rejected:
        attributes[semconv.LATSPAN_EVIDENCE_REJECTED] = timeline.rejected
    return attributes


def gen_ai_latency(
    stages_ns: Mapping[str, int], *, first_token_ns: int | None, duration_ns: int
) -> dict[str, AttributeValue]:
    """
    Return what vLLM's span of the same request would say of its time, in seconds.

    Args:
        stages_ns: How long each stage took.
        first_token_ns: The time to the first token, if one came.
        duration_ns: All of it.

    Source: vLLM, ``vllm/v1/engine/output_processor.py``, ``do_tracing``.
    """
    said: dict[str, float] = {
        name: to_seconds(stages_ns[stage])
        for name, stage in (
            ("time_in_queue", Stage.QUEUE),
            ("time_in_model_prefill", Stage.PREFILL),
            ("time_in_model_decode", Stage.DECODE),
        )
        if stage in stages_ns
    }
    if "time_in_model_prefill" in said and "time_in_model_decode" in said:
        said["time_in_model_inference"] = (
            said["time_in_model_prefill"] + said["time_in_model_decode"]
        )
    if first_token_ns is not None:
        said["time_to_first_token"] = to_seconds(first_token_ns)
    said["e2e"] = to_seconds(duration_ns)
    return {semconv.GEN_AI_LATENCY_PREFIX + name: seconds for name, seconds in said.items()}


def interleaved_attributes(segments: Sequence[Segment]) -> dict[str, AttributeValue]:
    """Return the time of each segment that has no span of its own, in seconds."""
    interleaved = _interleaved(segments)
    return {
        semconv.segment_duration(total.name): to_seconds(total.duration_ns)
        for total in totals(segment for segment in segments if segment.name in interleaved)
    }


def not_said_otherwise(
    around: Mapping[str, AttributeValue], said: Mapping[str, AttributeValue]
) -> dict[str, AttributeValue]:
    """
    Return what was observed around a request, but for what the request says itself.

    Args:
        around: What was observed; under ``latspan.sampled`` which of it are samples.
        said: The attributes of the request.
    """
    attributes = {name: value for name, value in around.items() if name not in said}
    sampled = attributes.pop(semconv.LATSPAN_SAMPLED, ())
    kept = [name for name in sampled if name in attributes] if isinstance(sampled, list) else []
    return {**attributes, semconv.LATSPAN_SAMPLED: kept} if kept else attributes


def token_attributes(tokens: TokenCounts) -> dict[str, AttributeValue]:
    """Return token counts under the conventions' names; absent where nobody said."""
    counted = {
        semconv.GEN_AI_USAGE_INPUT_TOKENS: tokens.input,
        semconv.GEN_AI_USAGE_OUTPUT_TOKENS: tokens.output,
        semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: tokens.cached,
        semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: tokens.cache_write,
        semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: tokens.reasoning,
    }
    attributes: dict[str, AttributeValue] = {
        name: count for name, count in counted.items() if count is not None
    }
    if attributes:
        attributes[semconv.LATSPAN_TOKEN_SOURCE] = tokens.source.value
    return attributes
