"""
Timeline, span, event and record of a call that has ended.

This code usually runs on the worker thread, after the last change to the call.
:func:`finished_call` computes a :class:`FinishedCall` from an :class:`ObservedCall` and the
outcome, end and error type of the call. :func:`publish` passes that to the span and the recorder.
The functions `finished_call` and `publish` are long, because each further function that runs once
per call costs time: see ADR 0039.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from latspan import semconv
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.operations._content import details, with_content
from latspan._live.operations._context import convention_labels, custom_series
from latspan._live.operations._enclosing import ScopeIds
from latspan._live.operations._response_summary import (
    ResponseSummary,
    lowered_headers,
    summarize_response,
)
from latspan._live.otel.spans import (
    AttributeValue,
    FinishedSpan,
    OpenSpan,
    attempt_spans,
    header_attributes,
    latency_attributes,
    only_missing,
    segment_spans,
    token_attributes,
)
from latspan._live.process.event_loop import LoopWatch
from latspan._live.process.runtime import EmitEvent, Observation, Runtime
from latspan._model.recording import RequestRecord, details_of
from latspan._model.segments import FAILURES, NOT_WAITING, Kind, Outcome, Side
from latspan._model.timeline import (
    Attempt,
    CallObservation,
    Reads,
    Timeline,
    answering,
    call_timeline,
)
from latspan._model.tokens import TokenSource
from latspan._model.wire import INFERENCES, ApiFormat, ChunkKind


class ObservedCall(NamedTuple):
    """
    Observations of a call, or of an HTTP exchange outside any call.

    Args:
        runtime: The active runtime.
        kind: ``call`` or ``http``.
        name: Name of the span.
        start_ns: Start of the client library's method, monotonic nanoseconds.
        offset_ns: Nanoseconds to add to a monotonic reading to get Unix time.
        server: Host and port of the server, ``None`` if unknown.
        api_format: API format of the response; ``None`` if the response is not read.
        choices: Number of choices requested.
        series: Series attributes, by latspan's names.
        custom: Further span attributes that the surrounding code had set at the start.
        started_with: Attributes of the span at its start.
        renamed: Whether the exchange became a call after its span had started, so that ``name`` and
            ``started_with`` are set at the end of the span.
        convention_metrics: Whether the call is recorded in the metrics of the GenAI conventions.
        method: HTTP method of the attempts.
        headers: Response headers.
        attempts: Attempts on the transport.
        returned_ns: Time at which the client library returned the stream or the response.
        close_started_ns: Time at which the caller started to close the stream.
        reads: Reads of the stream; ``None`` if there is no stream, or it is not a model's.
        end_marked: Whether the end mark of the stream was read.
        parts: Kept parts of the response, without its text.
        request: Content of the request, if content is read.
        response: Content of the response, ``None`` if content is not read.
        span: Span of the call.
        observation: Observation of the process during the call, ``None`` if it is not observed.
        loop: Watch of the event loop on which the call waited, ``None`` if it is not watched.
        prepare_other_ns: Last instant before the first attempt at which another task or the timer
            is known to have run on the loop, monotonic nanoseconds; ``None`` if unknown.
        parent: IDs of the innermost request or stage that contains the call, and of its outermost
            request or stage; both 0 if there is none.
    """

    runtime: Runtime
    kind: Kind
    name: str
    start_ns: int
    offset_ns: int
    server: tuple[str, int] | None
    api_format: ApiFormat | None
    choices: int
    series: Mapping[str, str]
    custom: Mapping[str, AttributeValue]
    started_with: Mapping[str, AttributeValue]
    renamed: bool
    convention_metrics: bool
    method: str
    headers: Mapping[str, str]
    attempts: list[Attempt]
    returned_ns: int | None
    close_started_ns: int | None
    reads: Reads | None
    end_marked: bool
    parts: tuple[Any, ...]
    request: Any
    response: Sequence[Any] | None
    span: OpenSpan
    observation: Observation | None
    loop: LoopWatch | None
    prepare_other_ns: int | None
    parent: ScopeIds

    @property
    def is_page(self) -> bool:
        """Whether the response is a page for people instead of that of a model."""
        if self.api_format is None:
            return False
        return lowered_headers(self.headers).get("content-type", "").startswith(_PAGE)

    def summary(self) -> ResponseSummary:
        """Return the summary of the response, without its content."""
        further = self.runtime.response_headers
        if self.api_format is None:
            with handle_internal_errors("the headers of a response"):
                named = header_attributes(lowered_headers(self.headers), further)
                return ResponseSummary(attributes=named)
            return ResponseSummary()
        return summarize_response(
            self.api_format,
            self.parts,
            self.headers,
            streamed=self.reads is not None,
            further_headers=further,
        )

    def timeline(self, summary: ResponseSummary, outcome: Outcome, done_ns: int) -> Timeline:
        """
        Return the timeline of the call.

        Args:
            summary: Summary of the response.
            outcome: Outcome of the call.
            done_ns: End of the call, monotonic nanoseconds.
        """
        tokens, reads = summary.tokens, self.reads
        streamed_tokens = tokens.output
        if (
            tokens.output is not None
            and tokens.reasoning
            and reads is not None
            and ChunkKind.REASONING not in reads.kinds
        ):
            # The provider counts reasoning that it does not show.
            streamed_tokens = tokens.output - tokens.reasoning
        return call_timeline(
            CallObservation(
                start_ns=self.start_ns,
                done_ns=done_ns,
                outcome=outcome,
                attempts=self.attempts,
                returned_ns=self.returned_ns,
                reads=reads,
                close_started_ns=self.close_started_ns,
                reported=summary.reported,
                output_tokens=streamed_tokens,
                tokens_estimated=tokens.source is TokenSource.ESTIMATED,
                choices=max(self.choices, summary.choices),
                body_is_the_callers=self.kind is Kind.HTTP,
                expected=self.runtime.expected,
                blocks=() if self.loop is None else self.loop.blocks(self.start_ns, done_ns),
                prepare_other_ns=self.prepare_other_ns,
            )
        )


class FinishedCall(NamedTuple):
    """
    Result of a call that has ended.

    Args:
        outcome: Final outcome, determined from the response too.
        error_type: Status code or name of an exception type.
        summary: Summary of the response, with the captured content.
        timeline: Segments and metrics.
        attributes: Attributes of the span that are set at its end.
    """

    outcome: Outcome
    error_type: str | None
    summary: ResponseSummary
    timeline: Timeline
    attributes: Mapping[str, AttributeValue]


_PAGE: Final = "text/html"
"""Media type of a page for people, for example to log in, which no model sends."""

_CUT: Final = "error"
"""
Finish reason of a choice whose reason was expected and did not arrive.

Source: OpenTelemetry GenAI conventions, ``gen_ai.response.finish_reasons``.
"""


def finished_call(
    observed: ObservedCall, outcome: Outcome, done_ns: int, error_type: str | None
) -> FinishedCall:
    """
    Return the result of a call.

    Args:
        observed: Observations of the call.
        outcome: Outcome as seen by the caller; the response may change it.
        done_ns: End of the call, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
    """
    streamed = observed.reads is not None
    summary = observed.summary()
    if outcome is Outcome.COMPLETED:
        if streamed and observed.api_format is not None:
            observed.runtime.stream_ended(
                observed.server, observed.api_format.name, has_reason=summary.ended
            )
        if summary.error_type is not None:
            outcome, error_type = Outcome.ERROR, summary.error_type
        elif not summary.ended and observed.is_page:
            outcome, error_type = Outcome.ERROR, _PAGE
        elif streamed and not (summary.ended or observed.end_marked):
            outcome, error_type = Outcome.TRUNCATED, semconv.ERROR_TYPE_OTHER
    reasons = summary.finish_reasons
    if not all(reasons.values()) and (not streamed or outcome not in NOT_WAITING):
        # The choice was truncated or failed, so its reason will not arrive.
        reasons = {choice: reason or _CUT for choice, reason in reasons.items()}
        summary = summary._replace(finish_reasons=reasons)
    content = None if observed.api_format is None else observed.api_format.content
    if observed.response is not None and content is not None:
        summary = with_content(
            summary,
            content,
            request=observed.request,
            response=observed.response,
            runtime=observed.runtime,
            model=observed.series.get("model"),
            sampled=observed.span.span_context.trace_flags.sampled,
            # The schema of an output message requires a finish reason. For a message that its
            # reader did not wait for, no other value fits.
            default_reason=None if outcome is Outcome.COMPLETED else _CUT,
        )
    timeline = observed.timeline(summary, outcome, done_ns)
    attributes = latency_attributes(timeline, outcome, summary.reported)
    attributes |= token_attributes(summary.tokens)
    attributes |= summary.attributes
    known_reasons = tuple([reason for _, reason in sorted(reasons.items()) if reason is not None])
    if known_reasons:
        attributes[semconv.GEN_AI_RESPONSE_FINISH_REASONS] = known_reasons
    attempts = observed.attempts
    if attempts:
        last = attempts[0] if len(attempts) == 1 else answering(attempts) or attempts[-1]
        attributes[semconv.LATSPAN_ATTEMPT_COUNT] = len(attempts)
        if last.reused is not None:
            attributes[semconv.LATSPAN_CONNECTION_REUSED] = last.reused
        if observed.kind is Kind.HTTP and last.status is not None:
            attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = last.status
    if error_type is not None:
        attributes[semconv.ERROR_TYPE] = error_type
    if observed.renamed:
        attributes = {**observed.started_with, **attributes}
    if observed.observation is not None and observed.kind is Kind.CALL:
        sampled_attributes = observed.observation(
            observed.start_ns, timeline.done_ns, observed.server, Side.CLIENT
        )
        if sampled_attributes:
            known = {**observed.started_with, **attributes}
            attributes |= only_missing(sampled_attributes, known)
    return FinishedCall(outcome, error_type, summary, timeline, attributes)


def publish(observed: ObservedCall, finished: FinishedCall) -> None:
    """End the span of a call, emit its event and record its values."""
    outcome, _, summary, timeline, attributes = finished
    runtime, span = observed.runtime, observed.span
    offset_ns, start_epoch_ns = observed.offset_ns, observed.start_ns + observed.offset_ns
    children = segment_spans(timeline.segments, start_epoch_ns)
    if len(observed.attempts) > 1:
        children = (
            *attempt_spans(
                observed.attempts,
                method=observed.method,
                epoch_offset_ns=offset_ns,
                done_ns=timeline.done_ns,
            ),
            *children,
        )
    span.end(
        FinishedSpan(
            end_epoch_ns=timeline.done_ns + offset_ns,
            attributes=attributes,
            failed=outcome in FAILURES,
            name=observed.name if observed.renamed else None,
            children=children,
        )
    )
    known = {**observed.started_with, **attributes}
    # Only the instrumentation that records the call in the conventions' metrics emits its event.
    if runtime.emit is not None and observed.convention_metrics:
        with handle_internal_errors("the event of a call"):
            _emit_event(runtime.emit, observed, finished, known)
    series = observed.series
    if observed.custom and runtime.series_attributes:
        series = {**series, **custom_series(runtime, observed.custom)}
    written: dict[str, Any] = {}
    if runtime.write_record is not None:
        # Fields of the record that are only written to files.
        written["details"] = details_of({**observed.custom, **known})
        written["marks_ns"] = {
            mark.value: instant - timeline.start_ns for mark, instant in timeline.marks.items()
        }
    trace_id, span_id, *_ = span.span_context
    runtime.record(
        RequestRecord(
            name=observed.name,
            kind=observed.kind,
            outcome=outcome,
            start_epoch_ns=start_epoch_ns,
            duration_ns=timeline.done_ns - timeline.start_ns,
            segments=timeline.segments,
            metrics=timeline.metrics,
            chunk_gaps=timeline.chunk_gaps,
            tokens=summary.tokens,
            attributes=series,
            trace_id=trace_id,
            span_id=span_id,
            sampled=span.kept,
            convention=convention_labels(known) if observed.convention_metrics else {},
            output_chunk_gaps_ns=() if observed.reads is None else observed.reads.gaps_ns(),
            parent_id=observed.parent.scope_id,
            root_id=observed.parent.root_id,
            streamed=observed.reads is not None,
            **written,
        ),
        span,
    )


def _emit_event(
    emit: EmitEvent,
    observed: ObservedCall,
    finished: FinishedCall,
    known: Mapping[str, AttributeValue],
) -> None:
    if observed.api_format is not None and observed.api_format.operation in INFERENCES:
        emit(
            semconv.EVENT_INFERENCE_DETAILS,
            finished.timeline.done_ns + observed.offset_ns,
            details(known, finished.summary.content, observed.runtime),
            observed.span.context,
        )
