"""
What becomes of a call that has ended: a timeline, a span, an event and a record.

Runs on latspan's thread as a rule, when nothing more happens to the call. The facts come as one
value, :class:`ObservedCall`; how the call ended comes beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from latspan import semconv
from latspan._operations._content import INFERENCES, details, with_content
from latspan._operations._context import convention_labels
from latspan._operations._response_summary import ResponseSummary, summarize_response
from latspan._recording import RequestRecord
from latspan._runtime import Observation, Runtime, handle_internal_errors
from latspan._segments import Kind, Outcome, Side
from latspan._spans import (
    AttributeValue,
    FinishedSpan,
    OpenSpan,
    attempt_spans,
    latency_attributes,
    not_said_otherwise,
    segment_spans,
    token_attributes,
)
from latspan._timeline import Attempt, CallObservation, Reads, Timeline, answering, call_timeline
from latspan._tokens import TokenCounts, TokenSource
from latspan._wire import ApiFormat, ChunkKind

__all__ = ["Conclusion", "Ending", "ObservedCall"]


class ObservedCall(NamedTuple):
    """
    What was observed of a call, or of an HTTP exchange outside any.

    Args:
        runtime: What is switched on.
        kind: ``call`` or ``http``.
        name: The span's name.
        start_ns: When the client library was called, monotonic nanoseconds.
        offset_ns: What to add to a monotonic reading to get Unix time.
        server: Host and port it went to, ``None`` if unknown.
        dialect: How to read the answer; ``None`` if it is not read.
        choices: How many answers were asked for at once.
        series: What series are keyed by.
        started_with: The span's attributes at its start.
        renamed: Whether it became a call after its span had started, so that the span still needs
            its name and these attributes.
        convention_metrics: Whether its values belong in the metrics of the GenAI conventions.
        method: The HTTP method of its attempts.
        headers: The response headers.
        attempts: The tries on the transport.
        returned_ns: When the client library handed over the stream or the answer.
        close_started_ns: When the caller began to close the stream.
        reads: The reads of its stream; ``None`` if there is none, or it is not a model's.
        end_marked: Whether the stream's end mark was read.
        parts: What is kept of the answer beside its text.
        request: What was asked, where content is read.
        answer: What was answered, ``None`` if content is not read.
        span: Its span.
        observation: What else went on in the process meanwhile.
    """

    runtime: Runtime
    kind: Kind
    name: str
    start_ns: int
    offset_ns: int
    server: tuple[str, int] | None
    dialect: ApiFormat | None
    choices: int
    series: Mapping[str, str]
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
    answer: Sequence[Any] | None
    span: OpenSpan
    observation: Observation

    def said(self) -> ResponseSummary:
        """Return what its answer said, content aside."""
        if self.dialect is None:
            return ResponseSummary()
        streamed = self.reads is not None
        return summarize_response(self.dialect, self.parts, self.headers, streamed=streamed)

    def timeline(self, said: ResponseSummary, outcome: Outcome, done_ns: int) -> Timeline:
        """
        Return its timeline.

        Args:
            said: What its answer said.
            outcome: How it ended.
            done_ns: When, monotonic nanoseconds.
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
                reported=said.reported,
                output_tokens=self._streamed_tokens(said.tokens),
                tokens_estimated=said.tokens.source is TokenSource.ESTIMATED,
                choices=max(self.choices, said.choices),
                body_is_the_callers=self.kind is Kind.HTTP,
                expected=self.runtime.expected,
            )
        )

    def _streamed_tokens(self, tokens: TokenCounts) -> int | None:
        """Return how many tokens the stream showed; a provider may count hidden reasoning."""
        if tokens.output is None or not tokens.reasoning or self.reads is None:
            return tokens.output
        shown = ChunkKind.REASONING in self.reads.kinds
        return tokens.output if shown else tokens.output - tokens.reasoning

    def with_content(self, said: ResponseSummary) -> ResponseSummary:
        """Return what its answer said, with its content as far as somebody asked for that."""
        if self.answer is None or self.dialect is None or self.dialect.content is None:
            return said
        return with_content(
            said,
            self.dialect.content,
            request=self.request,
            answer=self.answer,
            runtime=self.runtime,
            model=self.series.get("model"),
            sampled=self.span.span_context.trace_flags.sampled,
        )


class Ending(NamedTuple):
    """
    How a call will have ended if nothing more is read of it.

    Args:
        outcome: How.
        done_ns: When, monotonic nanoseconds.
        error_type: A status code or the name of an exception type.
        last_read: Before and after the read that gave no chunk, if there was one.
    """

    outcome: Outcome
    done_ns: int
    error_type: str | None
    last_read: tuple[int, int] | None


class Conclusion:
    """
    How a call ended, once its answer is read.

    Args:
        observed: The call.
        outcome: How it ended for its caller; the answer may say otherwise.
        done_ns: When, monotonic nanoseconds.
        error_type: A status code or the name of an exception type.
    """

    __slots__ = ("_error_type", "_observed", "_outcome", "_said", "timeline")

    def __init__(
        self, observed: ObservedCall, outcome: Outcome, done_ns: int, error_type: str | None
    ) -> None:
        streamed = observed.reads is not None
        said = observed.said()
        if outcome is Outcome.COMPLETED and said.error_type is not None:
            outcome, error_type = Outcome.ERROR, said.error_type
        elif outcome is Outcome.COMPLETED and streamed and not (said.ended or observed.end_marked):
            outcome, error_type = Outcome.TRUNCATED, semconv.ERROR_TYPE_OTHER
        left = {Outcome.COMPLETED, Outcome.CLOSED_EARLY, Outcome.ABANDONED}
        said = observed.with_content(said.concluded(cut=not streamed or outcome not in left))
        self._observed = observed
        self._outcome, self._error_type, self._said = outcome, error_type, said
        self.timeline = observed.timeline(said, outcome, done_ns)
        """Its segments and metrics."""

    def publish(self) -> None:
        """Finish the span, emit the event, and record the values."""
        observed, timeline, said = self._observed, self.timeline, self._said
        attributes = self._attributes()
        self._finish_span(attributes)
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
                tokens=said.tokens,
                attributes=observed.series,
                trace_id=identity.trace_id,
                span_id=identity.span_id,
                sampled=observed.span.kept,
                convention=self._convention(attributes),
                output_chunk_gaps_ns=() if observed.reads is None else observed.reads.gaps_ns(),
            ),
            observed.span,
        )

    def _attributes(self) -> dict[str, AttributeValue]:
        """Return the span's attributes beside those it was started with."""
        observed, timeline, said = self._observed, self.timeline, self._said
        attributes: dict[str, AttributeValue] = {
            **(observed.started_with if observed.renamed else {}),
            **latency_attributes(timeline, self._outcome, said.reported),
            **token_attributes(said.tokens),
            **said.attributes,
            **self._transport_attributes(),
            **({} if self._error_type is None else {semconv.ERROR_TYPE: self._error_type}),
        }
        if observed.kind is Kind.CALL:
            around = observed.observation(
                observed.start_ns, timeline.done_ns, observed.server, Side.CLIENT
            )
            if around:
                known = {**observed.started_with, **attributes}
                attributes |= not_said_otherwise(around, known)
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

    def _finish_span(self, attributes: Mapping[str, AttributeValue]) -> None:
        observed, timeline = self._observed, self.timeline
        observed.span.finish(
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
        emit, dialect = observed.runtime.emit, observed.dialect
        # Whoever counts the call in the conventions' metrics emits its event as well.
        if emit is None or dialect is None or not observed.convention_metrics:
            return
        if dialect.operation in INFERENCES:
            emit(
                semconv.EVENT_INFERENCE_DETAILS,
                self.timeline.done_ns + observed.offset_ns,
                details(
                    {**observed.started_with, **attributes}, self._said.content, observed.runtime
                ),
                observed.span.context,
            )

    def _convention(self, attributes: Mapping[str, AttributeValue]) -> dict[str, str]:
        if not self._observed.convention_metrics:
            return {}
        return convention_labels({**self._observed.started_with, **attributes})
