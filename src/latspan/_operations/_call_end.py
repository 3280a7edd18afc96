"""
Timeline, span, event and record of a call that has ended.

This code usually runs on the worker thread, after the last change to the call. Its input is one
value, :class:`ObservedCall`, and the outcome, end and error type of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from latspan import semconv
from latspan._event_loop import LoopWatch
from latspan._operations._content import INFERENCES, details, with_content
from latspan._operations._context import convention_labels, custom_series
from latspan._operations._enclosing import ScopeIds
from latspan._operations._response_summary import ResponseSummary, summarize_response
from latspan._recording import RequestRecord, details_of
from latspan._runtime import Observation, Runtime, handle_internal_errors
from latspan._segments import Kind, Outcome, Side
from latspan._spans import (
    AttributeValue,
    FinishedSpan,
    OpenSpan,
    attempt_spans,
    latency_attributes,
    only_missing,
    segment_spans,
    token_attributes,
)
from latspan._timeline import Attempt, CallObservation, Reads, Timeline, answering, call_timeline
from latspan._tokens import TokenCounts, TokenSource
from latspan._wire import ApiFormat, ChunkKind

__all__ = ["CallEnd", "ObservedCall", "TentativeEnd"]


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
        renamed: Whether the exchange became a call after its span had started, so that the span
            still needs its name and these attributes.
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
        observation: Observation of the process during the call.
        loop: Watch of the event loop on which the call waited, ``None`` if it is not watched.
        prepare_other_ns: Last instant before the first attempt at which something else is known to
            have run on the event loop.
        parent: Numbers of the innermost request or stage that the call is inside of.
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
    observation: Observation
    loop: LoopWatch | None
    prepare_other_ns: int | None
    parent: ScopeIds

    def record_attributes(self) -> Mapping[str, str]:
        """Return the attributes that identify the series of the call."""
        if not self.custom or not self.runtime.series_attributes:
            return self.series
        return {**self.series, **custom_series(self.runtime, self.custom)}

    def summary(self) -> ResponseSummary:
        """Return the summary of the response, without its content."""
        if self.api_format is None:
            return ResponseSummary()
        streamed = self.reads is not None
        return summarize_response(self.api_format, self.parts, self.headers, streamed=streamed)

    def timeline(self, summary: ResponseSummary, outcome: Outcome, done_ns: int) -> Timeline:
        """
        Return the timeline of the call.

        Args:
            summary: Summary of the response.
            outcome: Outcome of the call.
            done_ns: End of the call, monotonic nanoseconds.
        """
        return call_timeline(
            CallObservation(
                start_ns=self.start_ns,
                done_ns=done_ns,
                outcome=outcome,
                attempts=self.attempts,
                returned_ns=self.returned_ns,
                reads=self.reads,
                close_started_ns=self.close_started_ns,
                reported=summary.reported,
                output_tokens=self._streamed_tokens(summary.tokens),
                tokens_estimated=summary.tokens.source is TokenSource.ESTIMATED,
                choices=max(self.choices, summary.choices),
                body_is_the_callers=self.kind is Kind.HTTP,
                expected=self.runtime.expected,
                blocks=() if self.loop is None else self.loop.blocks(self.start_ns, done_ns),
                prepare_other_ns=self.prepare_other_ns,
            )
        )

    def _streamed_tokens(self, tokens: TokenCounts) -> int | None:
        """Return the number of streamed tokens, without hidden reasoning that a provider counts."""
        if tokens.output is None or not tokens.reasoning or self.reads is None:
            return tokens.output
        shown = ChunkKind.REASONING in self.reads.kinds
        return tokens.output if shown else tokens.output - tokens.reasoning

    def with_content(self, summary: ResponseSummary) -> ResponseSummary:
        """Return the summary of the response with the content that the configuration captures."""
        if self.response is None or self.api_format is None or self.api_format.content is None:
            return summary
        return with_content(
            summary,
            self.api_format.content,
            request=self.request,
            response=self.response,
            runtime=self.runtime,
            model=self.series.get("model"),
            sampled=self.span.span_context.trace_flags.sampled,
        )


class TentativeEnd(NamedTuple):
    """
    End of a call whose caller has stopped reading, valid unless reading resumes.

    Args:
        outcome: Outcome of the call.
        done_ns: End of the call, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
        last_read: Start and end of the read that returned no chunk, if there was one.
    """

    outcome: Outcome
    done_ns: int
    error_type: str | None
    last_read: tuple[int, int] | None


class CallEnd:
    """
    Final outcome and timeline of a call, determined from its response.

    Args:
        observed: Observations of the call.
        outcome: Outcome as seen by the caller; the response may change it.
        done_ns: End of the call, monotonic nanoseconds.
        error_type: Status code or name of an exception type.
    """

    __slots__ = ("_error_type", "_observed", "_outcome", "_summary", "timeline")

    def __init__(
        self, observed: ObservedCall, outcome: Outcome, done_ns: int, error_type: str | None
    ) -> None:
        streamed = observed.reads is not None
        summary = observed.summary()
        if outcome is Outcome.COMPLETED and summary.error_type is not None:
            outcome, error_type = Outcome.ERROR, summary.error_type
        elif (
            outcome is Outcome.COMPLETED and streamed and not (summary.ended or observed.end_marked)
        ):
            outcome, error_type = Outcome.TRUNCATED, semconv.ERROR_TYPE_OTHER
        left = {Outcome.COMPLETED, Outcome.CLOSED_EARLY, Outcome.ABANDONED}
        summary = observed.with_content(
            summary.with_finish_reasons(cut=not streamed or outcome not in left)
        )
        self._observed = observed
        self._outcome, self._error_type, self._summary = outcome, error_type, summary
        self.timeline = observed.timeline(summary, outcome, done_ns)
        """Segments and metrics of the call."""

    def publish(self) -> None:
        """End the span, emit the event and record the values."""
        observed, timeline, summary = self._observed, self.timeline, self._summary
        attributes = self._attributes()
        self._end_span(attributes)
        with handle_internal_errors("the event of a call"):
            self._emit_event(attributes)
        identity = observed.span.span_context
        observed.runtime.record(
            RequestRecord(
                name=observed.name,
                kind=observed.kind,
                outcome=self._outcome,
                start_epoch_ns=observed.start_ns + observed.offset_ns,
                duration_ns=timeline.duration_ns,
                segments=timeline.segments,
                metrics=timeline.metrics,
                chunk_gaps=timeline.chunk_gaps,
                tokens=summary.tokens,
                attributes=observed.record_attributes(),
                trace_id=identity.trace_id,
                span_id=identity.span_id,
                sampled=observed.span.kept,
                convention=self._convention(attributes),
                output_chunk_gaps_ns=() if observed.reads is None else observed.reads.gaps_ns(),
                parent_id=observed.parent.scope_id,
                root_id=observed.parent.root_id,
                **({} if observed.runtime.write_record is None else self._written(attributes)),
            ),
            observed.span,
        )

    def _written(self, attributes: Mapping[str, AttributeValue]) -> dict[str, Any]:
        """Return the fields of the record that are only written to files."""
        observed, timeline = self._observed, self.timeline
        known = {**observed.custom, **observed.started_with, **attributes}
        return {
            "details": details_of(known),
            "marks_ns": {
                mark.value: instant - timeline.start_ns for mark, instant in timeline.marks.items()
            },
        }

    def _attributes(self) -> dict[str, AttributeValue]:
        """Return the attributes of the span that are set at its end."""
        observed, timeline, summary = self._observed, self.timeline, self._summary
        attributes: dict[str, AttributeValue] = {
            **(observed.started_with if observed.renamed else {}),
            **latency_attributes(timeline, self._outcome, summary.reported),
            **token_attributes(summary.tokens),
            **summary.attributes,
            **self._transport_attributes(),
            **({} if self._error_type is None else {semconv.ERROR_TYPE: self._error_type}),
        }
        if observed.kind is Kind.CALL:
            sampled_attributes = observed.observation(
                observed.start_ns, timeline.done_ns, observed.server, Side.CLIENT
            )
            if sampled_attributes:
                known = {**observed.started_with, **attributes}
                attributes |= only_missing(sampled_attributes, known)
        return attributes

    def _transport_attributes(self) -> dict[str, AttributeValue]:
        observed = self._observed
        last = answering(observed.attempts)
        if last is None:
            return {}
        attributes: dict[str, AttributeValue] = {
            semconv.LATSPAN_ATTEMPT_COUNT: len(observed.attempts)
        }
        if last.reused is not None:
            attributes[semconv.LATSPAN_CONNECTION_REUSED] = last.reused
        if observed.kind is Kind.HTTP and last.status is not None:
            attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = last.status
        return attributes

    def _end_span(self, attributes: Mapping[str, AttributeValue]) -> None:
        observed, timeline = self._observed, self.timeline
        observed.span.end(
            FinishedSpan(
                end_epoch_ns=timeline.done_ns + observed.offset_ns,
                attributes=attributes,
                failed=self._outcome.failed,
                name=observed.name if observed.renamed else None,
                children=(
                    *attempt_spans(
                        observed.attempts,
                        method=observed.method,
                        epoch_offset_ns=observed.offset_ns,
                        done_ns=timeline.done_ns,
                    ),
                    *segment_spans(timeline.segments, timeline.start_ns + observed.offset_ns),
                ),
            )
        )

    def _emit_event(self, attributes: Mapping[str, AttributeValue]) -> None:
        observed = self._observed
        emit, api_format = observed.runtime.emit, observed.api_format
        # Only the instrumentation that records the call in the conventions' metrics emits its
        # event.
        if emit is None or api_format is None or not observed.convention_metrics:
            return
        if api_format.operation in INFERENCES:
            emit(
                semconv.EVENT_INFERENCE_DETAILS,
                self.timeline.done_ns + observed.offset_ns,
                details(
                    {**observed.started_with, **attributes}, self._summary.content, observed.runtime
                ),
                observed.span.context,
            )

    def _convention(self, attributes: Mapping[str, AttributeValue]) -> dict[str, str]:
        if not self._observed.convention_metrics:
            return {}
        return convention_labels({**self._observed.started_with, **attributes})
