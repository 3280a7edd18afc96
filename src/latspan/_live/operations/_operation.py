"""
Open operation: the common base of a model call and of an HTTP exchange outside any call.

**States.** An operation is open from its construction until :meth:`Operation.end`. While it is
open, its caller may stop reading and read on, any number of times: ``leave`` stores a tentative
end, ``resume`` drops it, and ``end_if_left`` makes it final. ``returned`` records that the client
library's method has returned; from then on no request on a transport is an attempt of the
operation. The end happens once: of the threads, tasks and finalisers that call ``end``, only the
one that removes the operation from ``open_operations`` continues. After that, ``finished`` is true,
and nothing that is read later may change what is recorded.

**Threads.** ``end`` may run on any thread, also in a finaliser, which the garbage collector may run
while any lock is held. So ``end`` only stores outcome, instant and reads. ``_record_end`` then
builds the timeline, ends the span and records the values: on the caller's thread if the span must
end inline, otherwise on the worker thread. It takes the end out of the list ``_ending``; removing
an item is atomic, so it runs once even if both threads start it.

**Hot path.** Per chunk of a stream, the tracker calls ``now`` twice and appends to ``reads``. Both
are plain attributes for that reason. For a chunk that holds only text, nothing may take a lock,
copy the chunk or call a property.

**Forks.** In a forked child, the operations of the parent count as finished: the parent records
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._base.text import text_of
from latspan._live.operations._context import (
    Entered,
    custom_attributes,
    series_attributes,
    span_attributes,
)
from latspan._live.operations._enclosing import NO_SCOPE, current_scope, enclosing_scopes
from latspan._live.operations._open_operations import (
    TentativeEnd,
    current_operation,
    open_operations,
)
from latspan._live.operations._own_requests import OwnRequests
from latspan._live.operations._response_parts import ResponseParts
from latspan._live.otel.spans import AttributeValue, NoSink, SpanSink
from latspan._live.process.event_loop import LoopWatch
from latspan._live.process.runtime import Runtime
from latspan._model.segments import Kind, Outcome
from latspan._model.timeline import Attempt, answering
from latspan._model.wire import INFERENCES, ApiFormat

if TYPE_CHECKING:
    from latspan._live.operations._call_end import ObservedCall
    from latspan._model.timeline import Timeline


class Operation(ResponseParts):
    """
    An open call of a model or HTTP exchange: its span, its attempts, its stream and its end.

    Args:
        runtime: The active runtime.
        parent_context: OpenTelemetry context in which the call starts.
        name: Name of the span.
        attributes: Attributes of the span at its start, which a sampler may read.
        series: Its series attributes, in addition to those of the surrounding code.
        server: Host and port of the server, ``None`` if unknown.
        client: Client object of the client library, ``None`` unless the integration registers the
            requests that this client builds. Registered requests are recognized as attempts.
        api_format: API format of the response; ``None`` if the response is not read.
        streamed: Whether the response is a stream of chunks.
        choices: Number of choices requested.
        convention_metrics: Whether it is recorded in the metrics of the GenAI conventions.
        sink: Destination of the span; the runtime's sink if not given.
        awaits_span: Whether another instrumentation opens the span inside the operation.
        hides_span: Whether the span that was current before stays current inside the operation.
    """

    __slots__ = (
        "_awaits_span",
        "_close_started_ns",
        "_convention_metrics",
        "_custom",
        "_done_other_ns",
        "_ending",
        "_entered",
        "_hidden_in",
        "_inline",
        "_loop",
        "_observation",
        "_offset_ns",
        "_parent",
        "_prepare_other_ns",
        "_renamed",
        "_runtime",
        "_start_other_ns",
        "_started_with",
        "_timeline",
        "attempts",
        "finished",
        "headers",
        "left",
        "method",
        "name",
        "now",
        "outcome",
        "own_requests",
        "propagates",
        "returned_ns",
        "series",
        "server",
        "span",
        "spanned",
        "start_ns",
    )

    kind: ClassVar[Kind]

    def __init__(
        self,
        runtime: Runtime,
        parent_context: Context,
        *,
        name: str,
        attributes: Mapping[str, AttributeValue],
        series: Mapping[str, str],
        server: tuple[str, int] | None = None,
        client: object = None,
        api_format: ApiFormat | None = None,
        streamed: bool = False,
        choices: int = 1,
        convention_metrics: bool = False,
        sink: SpanSink | None = None,
        awaits_span: bool = False,
        hides_span: bool = False,
    ) -> None:
        super().__init__(
            api_format, streamed=streamed, choices=choices, reads_content=runtime.reads_content
        )
        self._runtime = runtime
        self.now = runtime.clock.monotonic_ns
        """The clock's method ``monotonic_ns``, bound once because it is called twice per chunk."""
        self.start_ns = self.now()
        self.finished = False
        """Whether it has ended; always true for an operation of the parent in a forked child."""
        self._ending: list[tuple[Outcome, int, str | None]] = []
        self.outcome: Outcome | None = None
        """
        Outcome as the caller saw it, ``None`` until the end. The recorded outcome may differ,
        because ``finished_call`` also evaluates the response.
        """
        self._observation = None if runtime.observe is None else runtime.observe()
        self._loop: LoopWatch | None = None
        # Last known instants at which another task, or the timer that watches the event loop, ran
        # on the loop: before the start of the operation, before its first attempt, and before its
        # end.
        self._start_other_ns: int | None = None
        self._prepare_other_ns: int | None = None
        self._done_other_ns: int | None = None
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self.name = text_of(name)
        self.server = server
        self.series = series_attributes(runtime, series)
        self.attempts: list[Attempt] = []
        self.headers: Mapping[str, str] = {}
        self.method = "HTTP"
        self.own_requests = OwnRequests(server, client)
        self._entered: Entered[Operation | None] | None = None
        self.propagates = runtime.propagate
        """Whether ``traceparent`` is added to its requests."""
        self.returned_ns: int | None = None
        self._close_started_ns: int | None = None
        self.left: TentativeEnd | None = None
        """Its end if the caller, who has stopped reading, does not resume."""
        self._timeline: Timeline | None = None
        self._convention_metrics = convention_metrics
        # Whether name and attributes have changed since the span started.
        self._renamed = False
        self._custom = custom_attributes()
        self._started_with = {**attributes, **span_attributes(self.kind, self.series)}
        self._parent = NO_SCOPE
        if current_scope.get() is not None:
            self._join_enclosing_scopes()
        self._awaits_span = awaits_span
        self._hidden_in = parent_context if hides_span else None
        """Context that is current inside the operation, if its span is not."""
        self._open_span(sink or (NoSink() if awaits_span else runtime.sink()), parent_context)
        open_operations[self] = True

    @property
    def runtime(self) -> Runtime:
        """Runtime that was active at the start."""
        return self._runtime

    def _join_enclosing_scopes(self) -> None:
        scopes = enclosing_scopes()
        if scopes:
            self._parent = scopes[0].ids

    def _open_span(self, sink: SpanSink, parent_context: Context) -> None:
        self._inline = sink.inline
        custom, attributes = self._custom, self._started_with
        self.span = sink.open(
            self.name,
            kind=SpanKind.CLIENT,
            start_epoch_ns=self.start_ns + self._offset_ns,
            # First the application's: a span with too many attributes loses the first ones.
            attributes={**custom, **attributes} if custom else attributes,
            parent_context=parent_context,
        )
        self.spanned = self.span.span_context[-1]
        """Whether it has a span: `is_valid`, read without the cost of the property."""

    def adopt(self, sink: SpanSink) -> None:
        """
        Use the span that ``sink`` opens, if there is no span yet.

        Args:
            sink: Sink that provides the span. Inside the operation, it is a sink that uses the span
                of another instrumentation. At the end of the operation, it is the runtime's sink,
                which opens a new span.
        """
        if not self.spanned:
            self._open_span(sink, self.span.context)

    def active(self) -> Entered[Operation | None]:
        """Return a context manager that makes the operation and its span current."""
        hidden_in = self._hidden_in
        self._entered = Entered(
            current_operation, self, self.span.context if hidden_in is None else hidden_in
        )
        return self._entered

    def is_entered_here(self) -> bool:
        """
        Return whether the call was entered in the current context itself.

        The result is false in a copy of the context in which the call was entered.
        """
        return self._entered is not None and self._entered.is_here()

    def watch_loop(self) -> None:
        """
        Watch the event loop of this thread for blocks until the call ends, if loops are watched.

        Integrations call this for asynchronous calls only. A synchronous call on the thread of a
        loop blocks that loop itself, and does not wait for it.
        """
        if self._loop is None:
            loop = self._loop = self._runtime.watch_loop()
            if loop is not None:
                self._start_other_ns = loop.report_step(self.start_ns)

    def open_attempt(self, method: str) -> Attempt:
        """Start an attempt now: the transport begins to send an HTTP request with this method."""
        self.method = method
        attempt = Attempt(self.now())
        if self._loop is not None and not self.attempts:
            self._prepare_other_ns = self._loop.report_step(attempt.start_ns)
        self.attempts.append(attempt)
        return attempt

    @property
    def answering(self) -> Attempt | None:
        """The attempt whose response the caller received, or the last attempt if there is none."""
        return answering(self.attempts)

    def response_received(self, headers: Mapping[str, str], request_body: bytes | None) -> None:
        """
        Record that the caller received the response headers.

        Args:
            headers: The response headers, in a mapping that ignores case.
            request_body: Body of the request, ``None`` if it is not available. It is kept if
                content is captured and the integration of the client library has kept none.
        """
        self.headers = headers
        if self.gathered is not None and self.request is None:
            self.request = request_body

    def returned(self) -> None:
        """Record that the client library has returned the stream or the response."""
        self.returned_ns = self.now()
        # The entered context refers to the call. Without this, each call would be a reference cycle
        # that only Python's garbage collector can free.
        self._entered = None
        self.own_requests.let_go()

    def end_with_response(self, response: Any) -> None:
        """
        End the call, whose client library has returned a complete response.

        Args:
            response: As for :meth:`keep_response`; ``None`` if its content is unknown.
        """
        self.keep_response(response)
        self.streamed, self.reads = False, None
        self.end(Outcome.COMPLETED, done_ns=self.returned_ns)

    def leave(
        self,
        outcome: Outcome,
        *,
        done_ns: int,
        error_type: str | None = None,
        last_read: tuple[int, int] | None = None,
    ) -> None:
        """
        Record that the caller has stopped reading, which ends the call unless reading resumes.

        Args:
            outcome: Outcome of the call if reading does not resume.
            done_ns: End of the call, monotonic nanoseconds.
            error_type: Status code or name of an exception type.
            last_read: Start and end of the read that returned no chunk, if there was one.
        """
        self.left = TentativeEnd(outcome, done_ns, error_type, last_read)

    def resume(self) -> None:
        """Record that the caller has resumed reading."""
        self.left = None

    def end_if_left(self, left_for_ns: int = 0, *, finalizing: bool = False) -> None:
        """
        End the call if its caller has stopped reading.

        Args:
            left_for_ns: Minimum time since the last read returned, in nanoseconds.
            finalizing: As for :meth:`end`.
        """
        left = self.left
        if left is None or self.finished or self.now() - left.done_ns < left_for_ns:
            return
        reads = self.reads
        if reads is not None and reads.end is None:
            reads.end = left.last_read
        self.end(
            left.outcome,
            done_ns=left.done_ns,
            error_type=left.error_type,
            finalizing=finalizing,
        )

    def abandon(self) -> None:
        """
        End the call, which is still open, as ``abandoned``.

        A call whose caller has stopped reading ends with the outcome of that moment. If the caller
        waits for a chunk, it has waited up to now.
        """
        self.end_if_left()
        now_ns, reads = self.now(), self.reads
        began_ns = None if reads is None or reads.began is None else reads.began()
        if reads is not None and reads.end is None and began_ns is not None:
            # The iterator goes on with the original.
            self.reads = reads.copy()
            self.reads.end = began_ns, now_ns
        self.end(Outcome.ABANDONED, done_ns=now_ns)

    def closing(self) -> None:
        """Record that the caller has started to close the stream."""
        if self.finished:
            # A finalizer may have ended the call and left the rest to the worker thread. This
            # method does not run in a finalizer, so the caller's thread can do it now.
            if self._inline and self._ending:
                self._submit_end(finalizing=False)
        elif self._close_started_ns is None:
            self._close_started_ns = self.now()

    @property
    def is_closing(self) -> bool:
        """Whether the caller is closing the stream, which will end the call."""
        return self._close_started_ns is not None and not self.finished

    def end(
        self,
        outcome: Outcome,
        *,
        done_ns: int | None = None,
        error_type: str | None = None,
        finalizing: bool = False,
    ) -> None:
        """
        End the operation; only the first invocation has an effect.

        Args:
            outcome: Outcome of the call.
            done_ns: End of the call, monotonic nanoseconds; now if not given.
            error_type: Status code or name of an exception type.
            finalizing: Whether a finalizer ends the call. The garbage collector may run it while
                any lock is held, also the lock of an application's span processor, so spans are
                then ended on the worker thread.
        """
        if not open_operations.pop(self, False):
            return
        self.finished = True
        self.left = None
        self.outcome = outcome
        if self.returned_ns is None:
            # The client library raised. If it returns, `returned` does the same.
            self._entered = None
            self.own_requests.let_go()
        ended_ns = self.now() if done_ns is None else done_ns
        if self._awaits_span:
            # Has an effect only if the other instrumentation opened no span inside.
            self.adopt(self._runtime.sink())
        if self.reads is not None and (self.reads.end is None or outcome is Outcome.ABANDONED):
            # The application may read on after this end, if a flush or a snapshot ended the
            # operation after a `break`, or latspan was shut down. The iterator then still appends
            # to the original lists; what it appends does not belong to this operation.
            self.reads = self.reads.copy()
            self.parts = self.parts.copy()
            if self.gathered is not None:
                self.gathered = self.gathered.copy()
        if self._loop is not None:
            self._done_other_ns = self._loop.report_step(ended_ns)
        self._ending.append((outcome, ended_ns, error_type))
        self._submit_end(finalizing=finalizing)

    def _submit_end(self, *, finalizing: bool) -> None:
        # Content is read and events are emitted on the worker thread even if the span would
        # otherwise end inline, because an application's log exporter may send synchronously.
        inline = self._inline and not finalizing
        if inline and self._runtime.ends_on_worker:
            api_format = self.api_format
            inline = api_format is None or (
                api_format.content is None and api_format.operation not in INFERENCES
            )
        self._runtime.run_at_end("the end of a call", self._record_end, inline=inline)

    def _observed(self) -> ObservedCall:
        from latspan._live.operations._call_end import ObservedCall

        return ObservedCall(
            runtime=self._runtime,
            kind=self.kind,
            name=self.name,
            start_ns=self.start_ns,
            offset_ns=self._offset_ns,
            server=self.server,
            api_format=self.api_format,
            choices=self.choices,
            series=self.series,
            custom=self._custom,
            started_with=self._started_with,
            renamed=self._renamed,
            convention_metrics=self._convention_metrics,
            method=self.method,
            headers=self.headers,
            attempts=self.attempts,
            returned_ns=self.returned_ns,
            close_started_ns=self._close_started_ns,
            # Without an API format the stream is not a model's, and its reads have no meaning.
            reads=None if self.api_format is None else self.reads,
            end_marked=self.end_marked,
            parts=tuple(self.parts),
            request=self.request,
            response=self.gathered,
            span=self.span,
            observation=self._observation,
            loop=self._loop,
            prepare_other_ns=self._prepare_other_ns,
            parent=self._parent,
        )

    def _record_end(self) -> None:
        from latspan._live.operations._call_end import finished_call, publish

        # Removing an item is atomic: the caller's thread and the worker thread may both run this.
        try:
            ending = self._ending.pop()
        except IndexError:
            return
        observed = self._observed()
        finished = finished_call(observed, *ending)
        self._timeline = finished.timeline
        publish(observed, finished)
        if self._loop is not None:
            self._loop.end()
        # An enclosing request or stage may hold the call; it needs only the timeline.
        self.free()

    def free(self) -> None:
        """Drop everything that only the end needs."""
        # Not `clear`: the call that takes over from an exchange has the same list.
        self.parts = []
        self.reads = self.request = self.gathered = None
        self.headers = {}
        self._started_with = {}
        # With `monitor_host`, the observation has a separate watch of the event loop. This watch
        # ends when the observation is freed.
        self._observation = self._loop = None
