"""One call in flight, or one HTTP exchange outside any call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._operations._conclusion import Conclusion, Ending, ObservedCall
from latspan._operations._context import Entered, series_attributes, span_attributes
from latspan._operations._enclosing import current_unit, enclosing_works
from latspan._operations._last_chunks import LastChunks
from latspan._operations._open_calls import current_call, is_first_to_end, opened
from latspan._operations._own_requests import OwnRequests
from latspan._runtime import Runtime, handle_internal_errors, log_internal_error, nobody_observes
from latspan._segments import Kind, Mark, Outcome, Source
from latspan._spans import AttributeValue, NoSink, SpanSink
from latspan._text import text_of
from latspan._timeline import Attempt, Interval, Reads, Timeline, answering
from latspan._wire import ApiFormat, copied

__all__ = ["ModelCall"]


class ModelCall:
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
        dialect: ApiFormat | None = None,
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
        self.tail = LastChunks(choices)
        self.end_marked = False
        self._renamed = False
        self.request: Any = None
        self.gathered: list[Any] | None = [] if runtime.reads_content else None
        self.headers: Mapping[str, str] = {}
        self.method = "HTTP"
        self.own_requests = OwnRequests(server, client)
        self._entered: Entered[ModelCall | None] | None = None
        self.propagates = runtime.propagate
        """Whether ``traceparent`` is to be added to what is sent."""
        self.returned_ns: int | None = None
        self._close_started_ns: int | None = None
        self._left: Ending | None = None
        self._timeline: Timeline | None = None
        self._convention_metrics = convention_metrics
        self._started_with = {**attributes, **span_attributes(kind, self.series)}
        if kind is Kind.CALL and current_unit.get() is not None:
            self._join_enclosing_work()
        self._awaits_span = awaits_span
        if sink is None:
            sink = NoSink() if awaits_span else runtime.sink()
        self._open_span(sink, around)
        self._handle = opened(self)

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
        dialect: ApiFormat,
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

    def active(self) -> Entered[ModelCall | None]:
        """Inside ``with`` be the call that transports find, and its span the current one."""
        self._entered = Entered(current_call, self, self.span.context)
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
        self._let_go()

    def _let_go(self) -> None:
        # What was entered refers to the call: a cycle of each call, for Python's collector alone.
        self._entered = None
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
            with handle_internal_errors("the text of an answer"):
                whole = isinstance(answer, bytes)
                self.gathered.extend((answer,) if whole else dialect.content.fragments(answer))

    def take_down(self, dialect: ApiFormat, answer: Any) -> None:
        """
        Keep the fields of a chunk or an answer beside its text, as they are now.

        Args:
            dialect: How to read it.
            answer: The client library's object, or bytes, which are read when the call has ended.
        """
        # Not `with handle_internal_errors(…)`: that would be half the cost of several chunks.
        try:
            part = answer if isinstance(answer, bytes) else dialect.body_of(answer)
            if not isinstance(answer, bytes) and not hasattr(answer, "model_dump"):
                # What an SDK gives as its own mapping the application may change as well.
                part = copied(part)
            if part:
                self.tail.add(part)
        except Exception as error:  # noqa: BLE001 - latspan's own
            log_internal_error(error, "the fields of an answer")

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
        self._left = Ending(outcome, done_ns, error_type, last_read)

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
        reads = self.reads
        if reads is not None and reads.end is None:
            reads.end = left.last_read
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
        if not is_first_to_end(self._handle):
            return
        self.finished = True
        self._left = None
        self.outcome = outcome
        self._let_go()
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
        self._runtime.conclude("the end of a call", self._conclude, inline=inline)

    def interval(self, until_ns: int) -> Interval:
        """Return it as the unit of work around it sees it, which ended at ``until_ns``."""
        timeline, left = self._timeline, self._left
        if timeline is None and left is not None:
            # Left inside it, and it may be read on outside: as it is so far.
            observed = self._observed()
            timeline = observed.timeline(observed.said(), left.outcome, left.done_ns)
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

    def _observed(self) -> ObservedCall:
        return ObservedCall(
            runtime=self._runtime,
            kind=self.kind,
            name=self.name,
            start_ns=self._start_ns,
            offset_ns=self._offset_ns,
            server=self.server,
            dialect=self.dialect,
            choices=self.choices,
            series=self.series,
            started_with=self._started_with,
            renamed=self._renamed,
            convention_metrics=self._convention_metrics,
            method=self.method,
            headers=self.headers,
            attempts=self.attempts,
            returned_ns=self.returned_ns,
            close_started_ns=self._close_started_ns,
            # A stream of events that is no model's: its reads say nothing.
            reads=None if self.dialect is None else self.reads,
            end_marked=self.end_marked,
            parts=self.tail.parts(),
            request=self.request,
            answer=self.gathered,
            span=self.span,
            observation=self._observation,
        )

    def _conclude(self) -> None:
        # Popping is atomic: the caller's thread and latspan's may both come to it.
        try:
            ending = self._ending.pop()
        except IndexError:
            return
        conclusion = Conclusion(self._observed(), *ending)
        self._timeline = conclusion.timeline
        conclusion.publish()
        # A unit of work around it may hold on to the call; it needs the timeline alone.
        self.tail.clear()
        self.reads = self.request = self.gathered = None
        self.headers = {}
        self._started_with = {}
        # As long as somebody holds it, its loop is watched.
        self._observation = nobody_observes()
