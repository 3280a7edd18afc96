"""One call in flight, or one HTTP exchange outside any call."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan import semconv
from latspan._request._content import INFERENCES, details, with_content
from latspan._request._context import (
    Entered,
    convention_labels,
    series_attributes,
    span_attributes,
)
from latspan._request._enclosing import current_unit, enclosing_works
from latspan._request._own_requests import OwnRequests
from latspan._request._said import Said, read_answer
from latspan._request._tail import Tail
from latspan._runtime import Runtime, guarded, nobody_observes
from latspan._spans import (
    AttributeValue,
    FinishedSpan,
    NoSink,
    SpanSink,
    attempt_spans,
    latency_attributes,
    not_said_otherwise,
    segment_spans,
    token_attributes,
)
from latspan._text import text_of
from latspan._timeline import (
    Attempt,
    CallObservation,
    Interval,
    Reads,
    Timeline,
    answering,
    call_timeline,
)
from latspan.recording import RequestRecord
from latspan.segments import Kind, Mark, Outcome, Side, Source
from latspan.tokens import TokenCounts, TokenSource
from latspan.wire import ChunkKind, Dialect, copied

__all__ = ["LiveCall", "abandon_open_calls", "active_call", "settle_left_calls"]

_call: ContextVar[LiveCall | None] = ContextVar("latspan_call", default=None)

# Strong references: a call that nobody finishes must still be there at shutdown.
_open_calls: dict[int, LiveCall] = {}
_serial = itertools.count()


def _forget_the_parents() -> None:
    """Leave what is open in the parent to the parent."""
    for call in _open_calls.values():
        call.finished = True
    _open_calls.clear()


os.register_at_fork(after_in_child=_forget_the_parents)


def active_call() -> LiveCall | None:
    """
    Return the call that a client library is making in this context, if any.

    A task that was begun inside a call carries it in its context, long after its end. A call
    that has returned is over for transports, though its stream may still be read.
    """
    call = _call.get()
    if call is None or call.finished or call.returned_ns is not None:
        return None
    return call


def abandon_open_calls() -> None:
    """End every call that is still open as ``abandoned``: the process is going down."""
    settle_left_calls()
    for call in list(_open_calls.values()):
        call.finish(Outcome.ABANDONED)


def settle_left_calls(left_for_ns: int = 0) -> None:
    """
    End the calls whose stream the caller has stopped reading; what is read later is not recorded.

    Args:
        left_for_ns: Only those whose last read returned at least so many nanoseconds ago.
    """
    for call in list(_open_calls.values()):
        call.settle(left_for_ns)


class _End(NamedTuple):
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


class LiveCall:
    """
    One call in flight, or one HTTP exchange outside any call.

    Args:
        runtime: What is switched on.
        around: The context that it begins in.
        kind: ``call`` or ``http``.
        name: The span's name.
        attributes: The span's attributes at its start, which a sampler may read.
        series: What series are keyed by, beside what the surrounding code has said.
        server: Host and port it goes to, ``None`` if unknown.
        client: The client library's client: what it builds is sent for this call.
        dialect: How to read the answer; ``None`` where it is nobody's business.
        streamed: Whether the answer comes in chunks.
        choices: How many answers were asked for at once.
        convention_metrics: Whether its values belong in the metrics of the GenAI conventions.
        sink: Where its span goes; the runtime's, if not given.
        awaits_span: Whether its span is to be one that is opened inside it.
    """

    __slots__ = (
        "_awaits_span",
        "_close_started_ns",
        "_convention_metrics",
        "_ending",
        "_entered",
        "_handle",
        "_inline",
        "_left",
        "_observation",
        "_offset_ns",
        "_renamed",
        "_runtime",
        "_start_ns",
        "_started_with",
        "_timeline",
        "attempts",
        "choices",
        "dialect",
        "end_marked",
        "finished",
        "gathered",
        "headers",
        "kind",
        "method",
        "name",
        "now",
        "outcome",
        "own_requests",
        "propagates",
        "reads",
        "request",
        "returned_ns",
        "series",
        "server",
        "span",
        "spanned",
        "tail",
    )

    def __init__(
        self,
        runtime: Runtime,
        around: Context,
        *,
        kind: Kind,
        name: str,
        attributes: Mapping[str, AttributeValue],
        series: Mapping[str, str],
        server: tuple[str, int] | None = None,
        client: object = None,
        dialect: Dialect | None = None,
        streamed: bool = False,
        choices: int = 1,
        convention_metrics: bool = False,
        sink: SpanSink | None = None,
        awaits_span: bool = False,
    ) -> None:
        self._runtime = runtime
        self.now = runtime.clock.monotonic_ns
        """The clock's monotonic reading, bound once: it is called twice a chunk."""
        self._start_ns = self.now()
        self.finished = False
        """Whether it has ended; one that a fork has of its parent counts as ended there."""
        self._ending: list[tuple[Outcome, int, str | None]] = []
        self.outcome: Outcome | None = None
        """How it ended, before its answer was read for what that says."""
        self._observation = runtime.observe()
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self.kind = kind
        self.name = text_of(name)
        self.server = server
        self.dialect = dialect
        self.choices = choices
        self.series = series_attributes(runtime, series)
        self.attempts: list[Attempt] = []
        # The default of the field, at a third of its price: `list[int]()` is no `list()`.
        self.reads = Reads([]) if streamed else None
        self.tail = Tail(choices)
        self.end_marked = False
        self._renamed = False
        self.request: Any = None
        self.gathered: list[Any] | None = [] if runtime.reads_content else None
        self.headers: Mapping[str, str] = {}
        self.method = "HTTP"
        self.own_requests = OwnRequests(server, client)
        self._entered: Entered[LiveCall | None] | None = None
        self.propagates = runtime.propagate
        """Whether ``traceparent`` is to be added to what is sent."""
        self.returned_ns: int | None = None
        self._close_started_ns: int | None = None
        self._left: _End | None = None
        self._timeline: Timeline | None = None
        self._convention_metrics = convention_metrics
        self._started_with = {**attributes, **span_attributes(kind, self.series)}
        if kind is Kind.CALL and current_unit.get() is not None:
            self._join_enclosing_work()
        self._awaits_span = awaits_span
        if sink is None:
            sink = NoSink() if awaits_span else runtime.sink()
        self._open_span(sink, around)
        self._handle = next(_serial)
        _open_calls[self._handle] = self

    def _join_enclosing_work(self) -> None:
        for work in enclosing_works():
            work.holds_call(self.interval)

    def _open_span(self, sink: SpanSink, around: Context) -> None:
        self._inline = sink.inline
        self.span = sink.open(
            self.name,
            kind=SpanKind.CLIENT,
            start_epoch_ns=self._start_ns + self._offset_ns,
            attributes=self._started_with,
            around=around,
        )
        self.spanned = self.span.span_context[-1]
        """Whether it has a span: the property `is_valid` without its call."""

    def becomes_call(
        self,
        dialect: Dialect,
        *,
        name: str,
        attributes: Mapping[str, AttributeValue],
        series: Mapping[str, str],
    ) -> None:
        """
        Go on as a call: what an HTTP exchange brings turned out to be a model's answer.

        Args:
            dialect: How to read the answer.
            name: The span's name from now on.
            attributes: Further attributes of the span.
            series: What series are keyed by, beside what the surrounding code has said.
        """
        self.kind, self.dialect, self.name = Kind.CALL, dialect, text_of(name)
        self.series = series_attributes(self._runtime, series)
        self._started_with = {
            **self._started_with,
            **attributes,
            **span_attributes(self.kind, self.series),
        }
        if self.spanned:
            self._renamed = True
        else:
            # Beneath what was current at the beginning.
            self._open_span(self._runtime.sink(), self.span.context)
        self._convention_metrics = True
        self._join_enclosing_work()

    def adopt(self, sink: SpanSink) -> None:
        """
        Take the span that ``sink`` opens, if there is none so far.

        Args:
            sink: Makes another instrumentation's span the call's, opened inside the call.
        """
        if not self.spanned:
            self._open_span(sink, self.span.context)

    @property
    def start_ns(self) -> int:
        """When the client library was called, monotonic nanoseconds."""
        return self._start_ns

    def active(self) -> Entered[LiveCall | None]:
        """Inside ``with`` be the call that transports find, and its span the current one."""
        self._entered = Entered(_call, self, self.span.context)
        return self._entered

    def is_entered_here(self) -> bool:
        """Return whether this is the context in which it became active, not one that inherited."""
        return self._entered is not None and self._entered.is_here()

    def open_attempt(self) -> Attempt:
        """Begin a try on the transport, now."""
        attempt = Attempt(self.now())
        self.attempts.append(attempt)
        return attempt

    @property
    def answering(self) -> Attempt | None:
        """The try that brought the answer, or else the last one."""
        return answering(self.attempts)

    def returned(self) -> None:
        """Note that the client library has handed over the stream or the answer."""
        self.returned_ns = self.now()
        self.own_requests.let_go()

    def answered(self, answer: Any) -> None:
        """
        Take down a whole answer, before the application gets it and may change it.

        Args:
            answer: The client library's object, or the bytes of the body.
        """
        dialect = self.dialect
        if dialect is None:
            return
        self.take_down(dialect, answer)
        if self.gathered is not None and dialect.content is not None:
            with guarded("the text of an answer"):
                whole = isinstance(answer, bytes)
                self.gathered.extend((answer,) if whole else dialect.content.fragments(answer))

    def take_down(self, dialect: Dialect, answer: Any) -> None:
        """
        Keep the fields of a chunk or an answer beside its text, as they are now.

        Args:
            dialect: How to read it.
            answer: The client library's object, or bytes, which are read when the call has ended.
        """
        with guarded("the fields of an answer"):
            part = answer if isinstance(answer, bytes) else dialect.body_of(answer)
            if isinstance(answer, Mapping):
                # What an SDK gives as its own mapping the application may change as well.
                part = copied(part)
            if part:
                self.tail.add(part)

    def leave(
        self,
        outcome: Outcome,
        *,
        done_ns: int,
        error_type: str | None = None,
        last_read: tuple[int, int] | None = None,
    ) -> None:
        """
        Note that the caller has stopped reading; that is the end, unless it reads on.

        Args:
            outcome: How it will have ended.
            done_ns: When, monotonic nanoseconds.
            error_type: A status code or the name of an exception type.
            last_read: Before and after the read that gave no chunk, if there was one.
        """
        self._left = _End(outcome, done_ns, error_type, last_read)

    def resume(self) -> None:
        """Note that the caller reads on after all."""
        self._left = None

    @property
    def left(self) -> bool:
        """Whether the caller has stopped reading, and has read nothing since."""
        return self._left is not None

    def settle(self, left_for_ns: int = 0, *, finalizing: bool = False) -> None:
        """
        End it if its caller stopped reading.

        Args:
            left_for_ns: Only if its last read returned at least so many nanoseconds ago.
            finalizing: As for :meth:`finish`.
        """
        left = self._left
        if left is None or self.finished or self.now() - left.done_ns < left_for_ns:
            return
        if self.reads is not None and self.reads.end is None:
            self.reads.end = left.last_read
        self.finish(
            left.outcome,
            done_ns=left.done_ns,
            error_type=left.error_type,
            finalizing=finalizing,
        )

    def closing(self) -> None:
        """Note that the caller begins to close the stream."""
        if self.finished:
            # Left by a finaliser before, it may wait for latspan's thread. Here is no finaliser.
            if self._inline and self._ending:
                self._conclude_later(inline=True)
        elif self._close_started_ns is None:
            self._close_started_ns = self.now()

    @property
    def is_closing(self) -> bool:
        """Whether the caller is closing the stream, which will be the end."""
        return self._close_started_ns is not None and not self.finished

    def finish(
        self,
        outcome: Outcome,
        *,
        done_ns: int | None = None,
        error_type: str | None = None,
        finalizing: bool = False,
    ) -> None:
        """
        End it, once; later calls change nothing.

        Args:
            outcome: How it ended.
            done_ns: When, monotonic nanoseconds; now, if not given.
            error_type: A status code or the name of an exception type.
            finalizing: A finaliser says so. The collector may run it inside any lock, that of an
                application's span processor too, so spans are finished on latspan's thread.
        """
        # Popping is atomic: of several threads and a finaliser exactly one gets through.
        if _open_calls.pop(self._handle, None) is None:
            return
        self.finished = True
        self._left = None
        self.outcome = outcome
        self.own_requests.let_go()
        ended_ns = self.now() if done_ns is None else done_ns
        if self._awaits_span:
            # Whoever was to open one inside did not come to it.
            self.adopt(self._runtime.sink())
        if self.reads is not None and self.reads.end is None:
            # Who goes on reading after a `break` goes on appending; that is no part of this call.
            self.reads = self.reads.copy()
            self.tail = self.tail.copy()
            if self.gathered is not None:
                self.gathered = self.gathered.copy()
        self._ending.append((outcome, ended_ns, error_type))
        self._conclude_later(inline=self._inline and not finalizing)

    def _conclude_later(self, *, inline: bool) -> None:
        # Content is read and events are emitted on latspan's thread, whatever waits for the span:
        # an application's exporter of logs may send at once.
        inline = inline and not self._runtime.concludes_apart
        self._runtime.conclude("the end of a call", self._conclude_once, inline=inline)

    def _conclude_once(self) -> None:
        # Popping is atomic: the caller's thread and latspan's may both come to it.
        try:
            ending = self._ending.pop()
        except IndexError:
            return
        self._conclude(*ending)

    def interval(self, until_ns: int) -> Interval:
        """Return it as the unit of work around it sees it, which ended at ``until_ns``."""
        timeline, left = self._timeline, self._left
        if timeline is None and left is not None:
            # Left inside it, and it may be read on outside: as it is so far.
            timeline = self._timeline_of(self._said(), left.outcome, left.done_ns)
        if timeline is None:
            return Interval(self.name, self._start_ns, until_ns)
        visible = timeline.metrics.get("time_to_first_visible_token")
        return Interval(
            name=self.name,
            start_ns=timeline.start_ns,
            done_ns=timeline.done_ns,
            segments=timeline.segments,
            first_visible_ns=timeline.marks.get(Mark.FIRST_VISIBLE),
            first_visible_source=Source.MEASURED if visible is None else visible.source,
        )

    def _said(self) -> Said:
        if self.dialect is None:
            return Said()
        streamed = self.reads is not None
        return read_answer(self.dialect, self.tail.parts(), self.headers, streamed=streamed)

    def _with_content(self, said: Said) -> Said:
        if self.gathered is None or self.dialect is None or self.dialect.content is None:
            return said
        return with_content(
            said,
            self.dialect.content,
            request=self.request,
            answer=self.gathered,
            runtime=self._runtime,
            model=self.series.get("model"),
            sampled=self.span.span_context.trace_flags.sampled,
        )

    def _conclude(self, outcome: Outcome, done_ns: int, error_type: str | None) -> None:
        if self.dialect is None:
            # A stream of events that is no model's: its reads say nothing.
            self.reads = None
        said = self._said()
        if outcome is Outcome.COMPLETED and said.error_type is not None:
            outcome, error_type = Outcome.ERROR, said.error_type
        elif (
            outcome is Outcome.COMPLETED
            and self.reads is not None
            and not (said.ended or self.end_marked)
        ):
            outcome, error_type = Outcome.TRUNCATED, semconv.ERROR_TYPE_OTHER
        left = {Outcome.COMPLETED, Outcome.CLOSED_EARLY, Outcome.ABANDONED}
        said = self._with_content(said.concluded(cut=self.reads is None or outcome not in left))
        timeline = self._timeline = self._timeline_of(said, outcome, done_ns)
        ended_with: dict[str, AttributeValue] = {
            **self._renamed_attributes(),
            **latency_attributes(timeline, outcome, said.reported),
            **token_attributes(said.tokens),
            **said.attributes,
            **self._transport_attributes(),
            **({} if error_type is None else {semconv.ERROR_TYPE: error_type}),
        }
        if self.kind is Kind.CALL:
            around = self._observation(self._start_ns, timeline.done_ns, self.server, Side.CLIENT)
            if around:
                ended_with |= not_said_otherwise(around, {**self._started_with, **ended_with})
        self._finish_span(timeline, outcome, ended_with)
        with guarded("the event of a call"):
            self._emit_event(timeline.done_ns, ended_with, said)
        identity = self.span.span_context
        self._runtime.record(
            RequestRecord(
                name=self.name,
                kind=self.kind,
                outcome=outcome,
                start_epoch_ns=self._start_ns + self._offset_ns,
                duration_ns=timeline.duration_ns,
                segments=timeline.segments,
                metrics=timeline.metrics,
                chunk_gaps=timeline.chunk_gaps,
                tokens=said.tokens,
                attributes=self.series,
                trace_id=identity.trace_id,
                span_id=identity.span_id,
                sampled=self.span.kept,
                convention=self._convention(ended_with),
                output_chunk_gaps_ns=() if self.reads is None else self.reads.gaps_ns(),
            ),
            self.span,
        )
        # A unit of work around it may hold on to the call; it needs the timeline alone.
        self.tail.clear()
        self.reads = self.request = self.gathered = None
        self.headers = {}
        self._started_with = {}
        # As long as somebody holds it, its loop is watched.
        self._observation = nobody_observes()

    def _emit_event(
        self, done_ns: int, ended_with: Mapping[str, AttributeValue], said: Said
    ) -> None:
        # Whoever counts the call in the conventions' metrics emits its event as well.
        if self._runtime.emit is None or self.dialect is None or not self._convention_metrics:
            return
        if self.dialect.operation in INFERENCES:
            self._runtime.emit(
                semconv.EVENT_INFERENCE_DETAILS,
                done_ns + self._offset_ns,
                details({**self._started_with, **ended_with}, said.content, self._runtime),
                self.span.context,
            )

    def _timeline_of(self, said: Said, outcome: Outcome, done_ns: int) -> Timeline:
        return call_timeline(
            CallObservation(
                start_ns=self._start_ns,
                done_ns=done_ns,
                outcome=outcome,
                attempts=self.attempts,
                returned_ns=self.returned_ns,
                reads=self.reads,
                close_started_ns=self._close_started_ns,
                reported=said.reported,
                output_tokens=self._streamed_tokens(said.tokens),
                tokens_estimated=said.tokens.source is TokenSource.ESTIMATED,
                choices=max(self.choices, said.choices),
                body_is_the_callers=self.kind is Kind.HTTP,
                expected=self._runtime.expected,
            )
        )

    def _renamed_attributes(self) -> Mapping[str, AttributeValue]:
        """Return what the span was not begun with because nobody knew what it would be."""
        return self._started_with if self._renamed else {}

    def _convention(self, ended_with: Mapping[str, AttributeValue]) -> dict[str, str]:
        if not self._convention_metrics:
            return {}
        return convention_labels({**self._started_with, **ended_with})

    def _streamed_tokens(self, tokens: TokenCounts) -> int | None:
        """Return how many tokens the stream showed; a provider may count hidden reasoning."""
        if tokens.output is None or not tokens.reasoning or self.reads is None:
            return tokens.output
        shown = ChunkKind.REASONING in self.reads.kinds
        return tokens.output if shown else tokens.output - tokens.reasoning

    def _finish_span(
        self, timeline: Timeline, outcome: Outcome, attributes: Mapping[str, AttributeValue]
    ) -> None:
        self.span.finish(
            FinishedSpan(
                end_epoch_ns=timeline.done_ns + self._offset_ns,
                attributes=attributes,
                failed=outcome.failed,
                name=self.name if self._renamed else None,
                children=(
                    *attempt_spans(
                        self.attempts,
                        method=self.method,
                        epoch_offset_ns=self._offset_ns,
                        done_ns=timeline.done_ns,
                    ),
                    *segment_spans(timeline.segments, timeline.start_ns + self._offset_ns),
                ),
            )
        )

    def _transport_attributes(self) -> dict[str, AttributeValue]:
        last = self.answering
        if last is None:
            return {}
        attributes: dict[str, AttributeValue] = {semconv.LATSPAN_ATTEMPT_COUNT: len(self.attempts)}
        if last.reused is not None:
            attributes[semconv.LATSPAN_CONNECTION_REUSED] = last.reused
        if self.kind is Kind.HTTP and last.status is not None:
            attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = last.status
        return attributes
