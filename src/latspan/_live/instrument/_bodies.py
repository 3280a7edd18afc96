"""
HTTP response bodies, tracked to their end while the caller reads them.

The read and close methods of a response's class are hooked; each of them calls the
:class:`BodyTracker` attached to the response. If a body turns out to be a model's event stream,
its tokens are marked too, and the HTTP exchange becomes a call.

A read may return a byte, a line or several events: ``_arrivals.py`` derives from the reads when
each event arrived. As with the streams of an SDK (see ``_streams.py``), leaving an iteration
records a provisional end, and reading on resumes the call.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from latspan._base.internal_errors import handle_internal_errors
from latspan._live.instrument._arrivals import EventArrivals
from latspan._live.instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._live.operations import HttpExchange, ModelCall, Operation
from latspan._model.segments import Outcome
from latspan._model.timeline import Attempt
from latspan._model.wire import ApiFormat, Framing, StreamReader, framing_of, open_reader

BODIES_ARE_FOLLOWED: Final = "_latspan_follows_bodies"
"""Attribute of a response class whose read methods are hooked."""

_TRACKER: Final = "_latspan_body"
"""Attribute of a response that holds the tracker of its body."""

_MAX_RESPONSE_BYTES: Final = 1 << 20
"""Maximum size in bytes of a response that is not streamed and whose usage is read."""


class BodyTracker:
    """
    Tracker of one response body on behalf of its call or exchange.

    Args:
        operation: The call or exchange.
        attempt: The attempt that this response answers.
        request_body: The request's body, if it is available: it names the requested model.
        decoded: Whether reads return the body without its content coding.
        as_received: Whether each read returns what has been received, without waiting for more, so
            that the events that one read completes arrived together.
    """

    __slots__ = (
        "_arrivals",
        "_attempt",
        "_decoded",
        "_end_ns",
        "_entered",
        "_events",
        "_interrupted",
        "_kept",
        "_last_return_ns",
        "_readers",
        "_reading",
        "_reading_before",
        "_request_body",
        "_whole",
        "coded",
        "decoding",
        "operation",
        "silent",
    )

    def __init__(
        self,
        operation: Operation,
        attempt: Attempt,
        request_body: bytes | None,
        *,
        decoded: bool = False,
        as_received: bool = False,
    ) -> None:
        self.operation = operation
        """The call or exchange; if the exchange has become a call, that call."""
        self._attempt = attempt
        self._request_body = request_body
        self._entered = self._reading = self._reading_before = False
        self._last_return_ns: int | None = None
        self._arrivals = EventArrivals(as_received=as_received)
        self._interrupted: tuple[int, int, Outcome, str] | None = None
        self._end_ns: int | None = None
        self._readers: set[object] = set()
        self._events: StreamReader | None = None
        self._kept = False
        self._decoded = False
        self.coded = not decoded and _is_coded(operation.headers)
        """
        Whether reads return the body in its content coding; :meth:`decoded` then receives it
        decoded.
        """
        self.decoding = False
        """Whether the body is being decoded: if so, :meth:`flushed` follows its last read."""
        self.silent = False
        """Whether the body is tracked elsewhere, as a client library's stream."""
        framing = framing_of(operation.headers.get("content-type"))
        if operation.reads is not None or framing is not None:
            framing = framing or Framing.EVENTS
            self._events = open_reader(framing, _formats_of(operation, framing), self._keep)
            operation.expect_stream()
        self._whole = (
            None if operation.api_format is None or operation.reads is not None else _Whole()
        )

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A response may be pickled or copied; its tracker is not copied with it.
        return type(None), ()

    @property
    def begun(self) -> bool:
        """Whether any of the body was read."""
        return self._last_return_ns is not None

    @property
    def in_read(self) -> bool:
        """Whether a read is in progress; the hooks do not record reads that are nested in it."""
        return self._reading

    def reading(self) -> int:
        """Record that a read begins, and return the instant in monotonic nanoseconds."""
        # While `_reading` is true, `closed` has no effect. So a close by the client library itself
        # during the read, at the end of the body or because the read failed, does not end the
        # operation.
        self._reading = True
        return self.operation.now()

    def begins(self, iterator: object) -> None:
        """Record that an iterator begins to read, possibly after the caller left another one."""
        self._readers.add(iterator)
        self._reading_before = self._reading

    def read(self, before_ns: int, data: bytes) -> None:
        """Record the read that began at ``before_ns`` and returned ``data``."""
        self._reading = False
        self._interrupted = None
        operation, events = self.operation, self._events
        after_ns = self._last_return_ns = operation.now()
        if operation.finished:
            return
        operation.resume()
        inside = events is not None and events.is_inside
        self._arrivals.note(before_ns, after_ns, operation.reads, data=data, inside=inside)
        if not self.coded:
            self._feed(data)
        elif self._whole is not None and not self._decoded:
            self._whole.add(data)

    def decoded(self, data: bytes) -> None:
        """Record ``data``, which the client library's decoder produced from the last read."""
        if self.operation.finished or not data:
            return
        if self._whole is not None and not self._decoded:
            # The decoded body replaces the encoded one collected so far.
            self._whole = _Whole()
        self._decoded = True
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Parse the events that ``data`` completes, if the body is an event stream."""
        if self._whole is not None:
            self._whole.add(data)
        operation, events, reads = self.operation, self._events, self.operation.reads
        if events is None or reads is None:
            return
        kinds: Sequence[int] = ()
        self._kept, over = False, events.done
        with handle_internal_errors("the events of a body"):
            kinds = events.feed(data)
            if isinstance(operation, HttpExchange) and events.api_format is not None:
                call = _promoted(operation, events.api_format, self._request_body)
                # Another thread that reads the same body may have promoted the exchange.
                if call is not None:
                    self.operation, self._request_body = call, None
            elif events.foreign:
                self._events = None
                operation.forget_reads()
        if not self._kept and events.done is over:
            return
        self._arrivals.events(reads, kinds)

    def _keep(self, event: bytes) -> None:
        self._kept = True
        operation = self.operation
        operation.keep_copy(None, event)
        if operation.gathered is not None:
            operation.gathered.append(event)

    def entered(self) -> None:
        """Record that the caller entered the response with ``with``, so an exit will follow."""
        self._entered = True

    def ended(self, before_ns: int) -> None:
        """Record that the read begun at ``before_ns`` found the end of the body."""
        if self.operation.finished:
            return
        if self.operation.left:
            # Some libraries close a body when the caller leaves it; this read found nothing more.
            self._reading = False
            self._let_go()
            self.operation.end_if_left()
            return
        self._end_ns = self._attempt.body_end_ns = self._stamp_end(before_ns)
        if not self.decoding:
            self._end(Outcome.COMPLETED, self._end_ns)

    def flushed(self) -> None:
        """Record that the decoder was flushed: a body that has ended is now complete."""
        if self._end_ns is not None and not self.operation.finished:
            self._end(Outcome.COMPLETED, self._end_ns)

    def failed(self, before_ns: int, error: BaseException, iterator: object = None) -> None:
        """
        Record that a read raised. A read that is refused because of another has no effect.

        Args:
            before_ns: Start of the read, monotonic nanoseconds.
            error: The exception that it raised.
            iterator: The iterator if this was its first read, ``None`` for any other read.
        """
        if self.operation.finished:
            return
        self._readers.discard(iterator)
        # Libraries raise a RuntimeError for misuse, and never for a network failure.
        if iterator is not None and self._readers and isinstance(error, RuntimeError):
            self._reading = self._reading_before
            return
        after_ns = self._stamp_end(before_ns)
        self._let_go()
        self.operation.end(outcome_of(error), done_ns=after_ns, error_type=error_type_of(error))

    def interrupted(self, before_ns: int, error: BaseException) -> None:
        """Record that the read begun at ``before_ns`` was cancelled; another read may follow."""
        # The exception is not stored: it references its frames, which reference the response.
        outcome, error_type = outcome_of(error), error_type_of(error)
        after_ns = self.operation.now()
        self._interrupted = before_ns, after_ns, outcome, error_type
        self._arrivals.note(before_ns, after_ns, self.operation.reads)

    def _stamp_end(self, before_ns: int) -> int:
        self._reading = False
        after_ns, reads = self.operation.now(), self.operation.reads
        if reads is not None and self._end_ns is None:
            self._arrivals.end(reads)
            reads.end = (before_ns, after_ns)
        return after_ns

    def _end(self, outcome: Outcome, done_ns: int | None, *, finalizing: bool = False) -> None:
        """
        End the call with ``outcome``, or with the outcome of its HTTP status if that is an error.
        """
        if self._end_ns is not None:
            # The body is complete, even if it is closed before its decoder is flushed.
            outcome, done_ns = Outcome.COMPLETED, self._end_ns
            if self._whole is not None and self._whole.body:
                self.operation.keep_response(self._whole.body)
        if outcome is not Outcome.COMPLETED and self._interrupted is not None:
            # The cancelled read was the last one.
            self._note_early_end()
            self._let_go()
            self.operation.end_if_left(finalizing=finalizing)
            return
        outcome, error_type = self._judged(outcome)
        if self.coded and not self._decoded:
            # No decoded data was received, so the events of the body are unknown.
            self.operation.forget_reads()
        self._let_go()
        self.operation.end(outcome, done_ns=done_ns, error_type=error_type, finalizing=finalizing)

    def _judged(self, outcome: Outcome) -> tuple[Outcome, str | None]:
        """Return outcome and error type, which also depend on the end mark and HTTP status."""
        operation, attempt, events = self.operation, self._attempt, self._events
        if events is not None:
            with handle_internal_errors("the last events of a body"):
                if outcome is Outcome.COMPLETED:
                    events.flush()
                elif events.ended(operation.parts):
                    # A caller that stops reading at the end mark has the complete response.
                    outcome = Outcome.COMPLETED
            if events.done:
                operation.end_marked = True
        by_status = outcome_of_status(attempt.status, operation.headers)
        return outcome if by_status is Outcome.COMPLETED else by_status, attempt.error_type

    def _note_early_end(self) -> None:
        """Record a provisional end of the call, which becomes final if nothing more is read."""
        if self._interrupted is not None:
            before_ns, after_ns, outcome, error_type = self._interrupted
            self.operation.leave(
                outcome, done_ns=after_ns, error_type=error_type, last_read=(before_ns, after_ns)
            )
        elif self._last_return_ns is not None:
            outcome, error_type = self._judged(Outcome.CLOSED_EARLY)
            self.operation.leave(outcome, done_ns=self._last_return_ns, error_type=error_type)

    def _let_go(self) -> None:
        """
        Drop data that is not needed after the end, because the application may keep the response.
        """
        self._request_body = self._whole = self._events = None

    def left(self, iterator: object) -> None:
        """
        Record that the caller stopped iterating; inside ``with`` the exit still follows.

        Args:
            iterator: The iterator. The method has no effect if the iterator was never read, reached
                the end, or is not the last open one.
        """
        if iterator not in self._readers:
            return
        self._readers.discard(iterator)
        if self._readers:
            return
        self._reading = False
        if not self._entered and self._end_ns is None and not self.operation.finished:
            with handle_internal_errors("the end of an iteration"):
                self._note_early_end()

    def released(self) -> None:
        """Record that the connection was released; inside ``with`` the exit still follows."""
        self._reading = False
        if not self._entered and not self.operation.finished:
            self._end(Outcome.CLOSED_EARLY, self._last_return_ns)

    @contextmanager
    def closing_itself(self) -> Generator[None]:
        """
        Ignore closes of the response inside the block.

        When the caller leaves an iteration, the client library's iterator closes the response.
        """
        self._reading = True
        try:
            yield
        finally:
            self._reading = False

    def dropped(self) -> None:
        """Record that the response was finalised, so no caller can read it any more."""
        with handle_internal_errors("the finalisation of a response"):
            if self.silent or self.operation.finished:
                return
            unread = self._last_return_ns is None
            # If the caller neither read nor closed the response, the call ended with its headers.
            self._end(
                Outcome.ABANDONED if unread else Outcome.CLOSED_EARLY,
                self._attempt.end_ns if unread else self._last_return_ns,
                finalizing=True,
            )

    def discarded(self) -> None:
        """Record that the rest of the body was read and discarded."""
        self._reading = False
        self.closed()

    def closing(self) -> None:
        """Record that closing the response begins."""
        if not self.silent and not self._reading:
            self.operation.closing()

    def closed(self) -> None:
        """End the call because the response is closed, unless a read is in progress."""
        if not self.silent and not self._reading and not self.operation.finished:
            self._end(Outcome.CLOSED_EARLY, None)


class _Whole:
    """A complete body of at most ``_MAX_RESPONSE_BYTES``; the usage is read from it at the end."""

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._room = _MAX_RESPONSE_BYTES

    def add(self, data: bytes) -> None:
        """Add the data of one read."""
        self._room -= len(data)
        if self._room >= 0:
            self._parts.append(data)
        else:
            self._parts.clear()

    @property
    def body(self) -> bytes:
        """The complete body, or empty if it was too long."""
        return b"".join(self._parts)


# The formats of all APIs take a few milliseconds to import. The loader thread imports them.


def _formats_of(operation: Operation, framing: Framing) -> Sequence[ApiFormat]:
    """Return the API formats that the response stream of a call or an exchange may have."""
    if operation.api_format is not None:
        return (operation.api_format,)
    from latspan._live.instrument._promotion import formats_of

    return formats_of(operation.method, framing)


def _promoted(
    exchange: HttpExchange, api_format: ApiFormat, request_body: bytes | None
) -> ModelCall | None:
    from latspan._live.instrument._promotion import promoted

    return promoted(exchange, api_format, request_body)


def _is_coded(headers: Any) -> bool:
    return str(headers.get("content-encoding") or "").strip().lower() not in {"", "identity"}


def track_body(
    operation: Operation,
    attempt: Attempt,
    response: object,
    request_body: bytes | None = None,
    *,
    decoded: bool = False,
) -> BodyTracker:
    """
    Track the body of ``response`` to its end, which is also the call's end.

    Args:
        operation: The call or exchange; its response headers are known.
        attempt: The attempt that this response answers.
        response: The client library's own object. Only an attribute that holds the tracker is set
            on it; the tracker does not keep it alive.
        request_body: The request's body, if it is available.
        decoded: Whether reads return the body without its content coding.
    """
    tracker = BodyTracker(operation, attempt, request_body, decoded=decoded)
    setattr(response, _TRACKER, tracker)
    # At exit, `shutdown` ends open calls; a finaliser would run later, with less information.
    weakref.finalize(response, tracker.dropped).atexit = False
    return tracker


def follows_bodies(response: object) -> bool:
    """Return whether the class of ``response`` is hooked, so that its tracker gets called."""
    return getattr(type(response), BODIES_ARE_FOLLOWED, False) is True


def body_tracker(response: object) -> BodyTracker | None:
    """Return the tracker of the body of ``response``, ``None`` if the body is not tracked here."""
    tracker: BodyTracker | None = getattr(response, _TRACKER, None)
    return None if tracker is None or tracker.silent else tracker


def claim_body(response: object) -> ModelCall | None:
    """
    Take over the tracking of a body that a client library reads as its own stream.

    Returns:
        The call that the body belongs to; ``None`` if the body is not tracked, was already read,
        or belongs to an exchange that is not a call.
    """
    tracker = body_tracker(response)
    if tracker is None or tracker.begun or not isinstance(tracker.operation, ModelCall):
        return None
    tracker.silent = True
    return tracker.operation
