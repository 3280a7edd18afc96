"""
Timeline, span and record of a request or stage that has ended.

This code runs inline or on the worker thread, after the calls inside have been recorded.
:func:`finished_scope` computes a :class:`FinishedScope` from an :class:`ObservedScope` and the way
the scope ended. :func:`publish_scope` passes that to the span and the recorder. The end of a call
has the same structure, see ``_call_end.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.operations._annotations import Annotations, Known
from latspan._live.operations._contents import Contents
from latspan._live.operations._context import convention_labels, custom_series, span_attributes
from latspan._live.operations._enclosing import ScopeIds
from latspan._live.otel.spans import (
    AttributeValue,
    FinishedSpan,
    OpenSpan,
    gen_ai_latency,
    metric_attributes,
    only_missing,
    segment_spans,
    spanless_attributes,
)
from latspan._live.process.event_loop import LoopWatch
from latspan._live.process.runtime import Observation, Runtime
from latspan._model.metrics import FIRST_WAITS, TIME_TO_FIRST_TOKEN, MetricValue
from latspan._model.recording import RequestRecord, details_of
from latspan._model.segments import CUT, Kind, Outcome, Segment, Side
from latspan._model.timeline import Activity, Inner, ScopeTimeline, scope_timeline
from latspan._model.tokens import TokenCounts, TokenSource

_NO_ANNOTATIONS: Final = Annotations()
_APPLICATION: Final = (
    semconv.LATSPAN_APPLICATION_BEFORE,
    semconv.LATSPAN_APPLICATION_BETWEEN,
    semconv.LATSPAN_APPLICATION_AFTER,
)
_DIAGNOSED: Final = (semconv.LATSPAN_STAGE_KIND, semconv.LATSPAN_PATH_INFERRED, *_APPLICATION)
"""Attributes that a diagnosis needs; a record in memory has these alone, to be small."""


class ObservedScope(NamedTuple):
    """
    Observations of a request or stage.

    Args:
        runtime: Runtime that was active at its start.
        kind: ``request``, ``inner_request`` or ``stage``.
        name: Final name.
        side: Side of the network.
        offset_ns: Nanoseconds to add to a monotonic reading to get Unix time.
        activity: The scope as an activity, with its end, and with the activities inside it.
        contents: The activities inside it.
        loop: Watch of the event loop on which it waited, ``None`` if it is not watched.
        series: Series attributes, by latspan's names.
        custom: Further span attributes that the surrounding code had set at the start.
        started_with: Attributes of the span at its start.
        annotations: Annotations set while it was open, ``None`` if there are none.
        span: Its span.
        observation: Observation of the process, ``None`` if it is not observed.
        ids: Numbers that its record has.
        parent_id: Number of the scope that it is inside of, 0 if it is the outermost.
    """

    runtime: Runtime
    kind: Kind
    name: str
    side: Side
    offset_ns: int
    activity: Activity
    contents: Contents
    loop: LoopWatch | None
    series: Mapping[str, str]
    custom: Mapping[str, AttributeValue]
    started_with: Mapping[str, AttributeValue]
    annotations: Annotations | None
    span: OpenSpan
    observation: Observation | None
    ids: ScopeIds
    parent_id: int

    @property
    def start_ns(self) -> int:
        """Start, monotonic nanoseconds."""
        return self.activity.start_ns

    @property
    def stage_name(self) -> str | None:
        """Name of a stage, ``None`` for a request."""
        return self.name if self.kind is Kind.STAGE else None


class FinishedScope(NamedTuple):
    """
    Result of a request or stage that has ended.

    Args:
        outcome: Its outcome.
        result: Segments and metrics, and the segments that it reports itself.
        metrics: All metrics of the record.
        custom: The application's own attributes of span and series.
        attributes: Attributes of the span that are set at its end.
        output_tokens: Number of tracked tokens, ``None`` if none are tracked.
        streamed: Whether it streams, see :class:`~latspan.testing.RequestRecord`.
        late: Attributes that were set late, see :class:`~latspan.testing.RequestRecord`.
    """

    outcome: Outcome
    result: ScopeTimeline
    metrics: Mapping[str, MetricValue]
    custom: Mapping[str, AttributeValue]
    attributes: Mapping[str, AttributeValue]
    output_tokens: int | None
    streamed: bool | None
    late: tuple[str, ...]


def finished_scope(
    observed: ObservedScope,
    outcome: Outcome,
    done_ns: int,
    error_type: str | None,
    known: Known,
) -> FinishedScope:
    """
    Return the result of a request or stage.

    Args:
        observed: Observations of it.
        outcome: Its outcome.
        done_ns: Its end, monotonic nanoseconds.
        error_type: Name of the exception type that ended it, or a status code.
        known: Facts that were not known at the start.
    """
    runtime, start_ns, stage_name = observed.runtime, observed.start_ns, observed.stage_name
    result = scope_timeline(
        observed.activity,
        blocks=() if observed.loop is None else observed.loop.blocks(start_ns, done_ns),
        keeps_open=outcome in CUT,
    )
    timeline = result.timeline
    annotations = observed.annotations or _NO_ANNOTATIONS
    # Read once, so that span and series agree.
    custom = {**observed.custom, **annotations.custom}
    metrics = {
        **timeline.metrics,
        **known.metrics,
        **annotations.all_metrics(timeline.start_ns),
    }
    timed, estimated = metric_attributes(metrics)
    attributes: dict[str, AttributeValue] = {
        **timed,
        **({} if not known.series else span_attributes(observed.kind, observed.series)),
        **known.attributes,
        **annotations.span_attributes(),
        **spanless_attributes(result.own, merged=result.merged > 0),
        **_path_attributes(result),
        semconv.LATSPAN_OUTCOME: outcome.value,
    }
    if result.merged:
        attributes[semconv.LATSPAN_MERGED_COUNT] = result.merged
    if estimated:
        attributes[semconv.LATSPAN_ESTIMATED_ATTRIBUTES] = estimated
    if error_type is not None:
        attributes[semconv.ERROR_TYPE] = error_type
    if observed.observation is not None:
        sampled = observed.observation(start_ns, done_ns, None, observed.side)
        attributes |= only_missing(sampled, attributes)
    if runtime.emit_gen_ai_latency and _is_a_models(observed, attributes):
        first = metrics.get(TIME_TO_FIRST_TOKEN)
        attributes |= gen_ai_latency(
            dict(observed.contents.stages_ns()),
            first_token_ns=None if first is None else first.value,
            duration_ns=timeline.duration_ns,
        )
    if stage_name is not None:
        attributes[semconv.LATSPAN_SEGMENT] = stage_name
        attributes[semconv.LATSPAN_SOURCE] = observed.activity.source.value
    return FinishedScope(
        outcome,
        result,
        metrics,
        custom,
        attributes,
        annotations.output_tokens,
        _is_streamed(result.inside, metrics, outcome),
        _late(annotations, result.inside, done_ns) if annotations.changed_ns else (),
    )


def _path_attributes(result: ScopeTimeline) -> dict[str, AttributeValue]:
    """Return where the application's own time was, and how much of the path is inferred."""
    attributes: dict[str, AttributeValue] = {}
    if result.application_ns is not None:
        for name, duration_ns in zip(_APPLICATION, result.application_ns, strict=True):
            attributes[name] = duration_ns / NS_PER_S
    if result.inferred_ns:
        attributes[semconv.LATSPAN_PATH_INFERRED] = result.inferred_ns / NS_PER_S
    return attributes


def _late(annotations: Annotations, inside: Sequence[Inner], done_ns: int) -> tuple[str, ...]:
    """
    Return the attributes whose values were set when a latency inside the scope was known already.

    That is from the first visible token or the end of the first call on, or from the first token
    that the scope tracked. If it has neither, it is from the end of the first stage inside on.
    """
    first_token_ns = annotations.first_token_ns
    known = [] if first_token_ns is None else [first_token_ns]
    activities = [inner.activity for inner in inside]
    calls = [each for each in activities if each.kind is Kind.CALL]
    for call in calls:
        if call.first_visible_ns is not None:
            known.append(call.first_visible_ns)
        if call.done_ns is not None:
            # The end of the first of several merged calls is unknown; all began after this.
            known.append(call.done_ns if call.merged is None else call.start_ns)
    if not known and not calls:
        known = [
            each.done_ns if each.merged is None else each.start_ns
            for each in activities
            if each.kind is Kind.STAGE and each.done_ns is not None and each.done_ns < done_ns
        ]
    if not known:
        return ()
    first_ns = min(known)
    return tuple(
        sorted(name for name, at_ns in annotations.changed_ns.items() if at_ns >= first_ns)
    )


def _is_streamed(
    inside: Sequence[Inner], metrics: Mapping[str, MetricValue], outcome: Outcome
) -> bool | None:
    """Return whether a scope streams; ``None`` if it ended before that was known."""
    calls = [inner.activity for inner in inside if inner.activity.kind is Kind.CALL]
    if any(call.streamed for call in calls) or not FIRST_WAITS.isdisjoint(metrics):
        return True
    return False if calls or outcome is Outcome.COMPLETED else None


def publish_scope(observed: ObservedScope, finished: FinishedScope, name: str | None) -> None:
    """
    End the span of a request or stage, and record its values.

    Args:
        observed: Observations of it.
        finished: Its result.
        name: Name that the span gets at its end; ``None`` if it keeps its first name.
    """
    runtime, timeline, outcome = observed.runtime, finished.result.timeline, finished.outcome
    attributes, start_epoch_ns = finished.attributes, observed.start_ns + observed.offset_ns
    observed.span.end(
        FinishedSpan(
            end_epoch_ns=timeline.done_ns + observed.offset_ns,
            attributes={**finished.custom, **attributes},
            # For a server, a rejection is intended and not a failure; for a client, it is a
            # failure.
            failed=outcome.failed
            and (observed.side is Side.CLIENT or outcome is not Outcome.REJECTED),
            name=name,
            children=segment_spans(_unseen(observed, finished), start_epoch_ns),
        )
    )
    known = {**finished.custom, **observed.started_with, **attributes}
    details: Mapping[str, object] = (
        {name: known[name] for name in _DIAGNOSED if name in known}
        if runtime.write_record is None
        else details_of(known)
    )
    is_a_models = _is_a_models(observed, attributes)
    identity = observed.span.span_context
    runtime.record(
        RequestRecord(
            name=observed.name,
            kind=observed.kind,
            outcome=outcome,
            start_epoch_ns=start_epoch_ns,
            duration_ns=timeline.duration_ns,
            segments=timeline.segments,
            metrics=finished.metrics,
            tokens=TokenCounts(output=finished.output_tokens, source=TokenSource.PROVIDER),
            attributes={**observed.series, **custom_series(runtime, finished.custom)},
            side=observed.side,
            trace_id=identity.trace_id,
            span_id=identity.span_id,
            sampled=observed.span.kept,
            reports=_reports(observed.kind, finished.result),
            steps=finished.result.steps,
            segment_steps=finished.result.segment_steps if finished.result.steps else (),
            convention=convention_labels({**observed.started_with, **attributes})
            if is_a_models
            else {},
            scope_id=observed.ids.scope_id,
            parent_id=observed.parent_id,
            root_id=observed.ids.root_id,
            details=details,
            streamed=None if observed.kind is Kind.STAGE else finished.streamed,
            late=finished.late,
        ),
        observed.span,
    )


def _reports(kind: Kind, result: ScopeTimeline) -> tuple[Segment, ...] | None:
    """Return the segments that a scope records in histograms; ``None`` for all of them."""
    if kind is Kind.INNER_REQUEST:
        # The request around it records the same time.
        return ()
    return result.own if kind is Kind.STAGE else None


def _unseen(observed: ObservedScope, finished: FinishedScope) -> list[Segment]:
    """
    Return the segments that have no span yet.

    Each step has a span of its own, and the span of a stage covers the stage's own time. What is
    left are delays by the event loop, and writes that were held up. After a merge the positions are
    unknown, so no spans are created.
    """
    if finished.result.merged:
        return []
    return [each for each in finished.result.own if each.name != observed.stage_name]


def _is_a_models(observed: ObservedScope, attributes: Mapping[str, AttributeValue]) -> bool:
    """Return whether it is a served request with a ``gen_ai.operation.name`` attribute."""
    served = observed.kind is Kind.REQUEST and observed.side is Side.SERVER
    return served and semconv.GEN_AI_OPERATION_NAME in attributes
