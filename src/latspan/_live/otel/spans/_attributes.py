"""Attributes of spans: times, tokens, and what was observed around a request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S, to_seconds
from latspan._live.otel.spans._children import spanless_names
from latspan._live.otel.spans._span import AttributeValue
from latspan._model.metrics import METRICS, SPAN_ATTRIBUTES, TIME_TO_FIRST_CHUNK, MetricValue
from latspan._model.segments import Outcome, ReportedTimings, Segment, Source, Stage, totals
from latspan._model.timeline import Timeline
from latspan._model.tokens import TokenCounts
from latspan._model.units import MetricUnit

_MEASURED: Final = Source.MEASURED
_PERCENTILE_95_NEEDS: Final = 20

_NAMED: Final[Mapping[str, tuple[str, MetricUnit]]] = {
    name: (key, METRICS[name].unit) for name, key in SPAN_ATTRIBUTES.items()
}
"""Attribute and unit of each metric that spans have."""

_OF_CALLS: Final[Mapping[str, tuple[str, MetricUnit]]] = {
    TIME_TO_FIRST_CHUNK: (semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK, "s"),
    **_NAMED,
}
"""The same for calls, for which the conventions define one more attribute."""


def metric_attributes(
    metrics: Mapping[str, MetricValue], named: Mapping[str, tuple[str, MetricUnit]] = _NAMED
) -> tuple[dict[str, AttributeValue], list[str]]:
    """
    Return the attributes that a span has for its metrics.

    Args:
        metrics: Metrics by name.
        named: Attribute and unit of each metric that becomes an attribute.

    Returns:
        The attributes, and the names of those that were not measured.
    """
    attributes: dict[str, AttributeValue] = {}
    estimated: list[str] = []
    for name, (key, unit) in named.items():
        if name in metrics:
            value, source = metrics[name]
            # As `in_metric_unit`, written out because a span has about ten of them.
            attributes[key] = value if unit == "1" else value / NS_PER_S
            if source is not _MEASURED:
                estimated.append(key)
    return attributes, estimated


def latency_attributes(
    timeline: Timeline, outcome: Outcome, reported: Iterable[ReportedTimings]
) -> dict[str, AttributeValue]:
    """Return the time attributes of a client span; seconds as doubles."""
    attributes, estimated = metric_attributes(timeline.metrics, _OF_CALLS)
    # `_value_` is the attribute behind the property `value`; reading it takes a tenth of the time.
    attributes[semconv.LATSPAN_OUTCOME] = outcome._value_
    gaps = timeline.chunk_gaps
    if len(gaps) >= _PERCENTILE_95_NEEDS:
        ordered = sorted([gap_ns for gap_ns, _ in gaps])
        rank = -(-len(ordered) * 95 // 100)
        attributes[semconv.LATSPAN_CHUNK_GAP_P95] = to_seconds(ordered[rank - 1])
        if any(source is not _MEASURED for _, source in gaps):
            estimated.append(semconv.LATSPAN_CHUNK_GAP_P95)
    if estimated:
        attributes[semconv.LATSPAN_ESTIMATED_ATTRIBUTES] = estimated
    if "buffered" in timeline.metrics:
        attributes[semconv.LATSPAN_BUFFERED] = True
    spanless = spanless_names(timeline.segments)
    if spanless:
        attributes |= _durations_of(spanless, timeline.segments)
    for report in reported:
        prefix = f"{semconv.LATSPAN_REPORTED_PREFIX}{report.system}."
        for name, value in report.raw.items():
            attributes[prefix + name] = value
    if timeline.rejected:
        attributes[semconv.LATSPAN_EVIDENCE_REJECTED] = timeline.rejected
    return attributes


def gen_ai_latency(
    stages_ns: Mapping[str, int], *, first_token_ns: int | None, duration_ns: int
) -> dict[str, AttributeValue]:
    """
    Return the time attributes that vLLM's span of the same request would have, in seconds.

    Args:
        stages_ns: Duration of each stage.
        first_token_ns: The time to the first token, if one came.
        duration_ns: Duration of the whole request.

    Source: vLLM, ``vllm/v1/engine/output_processor.py``, ``do_tracing``.
    """
    latencies: dict[str, float] = {
        name: to_seconds(stages_ns[stage])
        for name, stage in (
            ("time_in_queue", Stage.QUEUE),
            ("time_in_model_prefill", Stage.PREFILL),
            ("time_in_model_decode", Stage.DECODE),
        )
        if stage in stages_ns
    }
    if "time_in_model_prefill" in latencies and "time_in_model_decode" in latencies:
        latencies["time_in_model_inference"] = (
            latencies["time_in_model_prefill"] + latencies["time_in_model_decode"]
        )
    if first_token_ns is not None:
        latencies["time_to_first_token"] = to_seconds(first_token_ns)
    latencies["e2e"] = to_seconds(duration_ns)
    return {semconv.GEN_AI_LATENCY_PREFIX + name: seconds for name, seconds in latencies.items()}


def spanless_attributes(
    segments: Sequence[Segment], *, merged: bool = False
) -> dict[str, AttributeValue]:
    """
    Return the time of each segment that has no span of its own, in seconds.

    Args:
        segments: Segments of a finished timeline.
        merged: Whether intervals were merged and so have no position, so that no segment has a
            span.
    """
    if merged:
        return _durations_of({segment.name for segment in segments}, segments)
    return _durations_of(spanless_names(segments), segments)


def _durations_of(names: Collection[str], segments: Sequence[Segment]) -> dict[str, AttributeValue]:
    """Return the total time of the segments with these names, in seconds."""
    return {
        semconv.segment_duration(total.name): to_seconds(total.duration_ns)
        for total in totals(segment for segment in segments if segment.name in names)
    }


def only_missing(
    observed: Mapping[str, AttributeValue], own: Mapping[str, AttributeValue]
) -> dict[str, AttributeValue]:
    """
    Return what was observed around a request, except attributes that the request sets itself.

    Args:
        observed: Observed attributes; ``latspan.sampled_attributes`` lists which are samples.
        own: Attributes of the request.
    """
    attributes = {name: value for name, value in observed.items() if name not in own}
    sampled = attributes.pop(semconv.LATSPAN_SAMPLED_ATTRIBUTES, ())
    kept = [name for name in sampled if name in attributes] if isinstance(sampled, list) else []
    return {**attributes, semconv.LATSPAN_SAMPLED_ATTRIBUTES: kept} if kept else attributes


def token_attributes(tokens: TokenCounts) -> dict[str, AttributeValue]:
    """Return token counts under the conventions' names; unknown counts are absent."""
    attributes: dict[str, AttributeValue] = {}
    for name, count in (
        (semconv.GEN_AI_USAGE_INPUT_TOKENS, tokens.input),
        (semconv.GEN_AI_USAGE_OUTPUT_TOKENS, tokens.output),
        (semconv.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS, tokens.cached),
        (semconv.GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS, tokens.cache_write),
        (semconv.GEN_AI_USAGE_REASONING_OUTPUT_TOKENS, tokens.reasoning),
        (semconv.GEN_AI_USAGE_AUDIO_INPUT_TOKENS, tokens.audio_input),
        (semconv.GEN_AI_USAGE_AUDIO_OUTPUT_TOKENS, tokens.audio_output),
    ):
        if count is not None:
            attributes[name] = count  # noqa: PERF403 - it would be a further function per call
    if attributes:
        attributes[semconv.LATSPAN_TOKEN_SOURCE] = tokens.source._value_
    return attributes
