"""
The bodies of HTTP responses, followed to their end as the caller reads them.

How a response's class reads and closes is hooked; a :class:`BodyTracker` on the response is called
at each. If a body turns out to be a model's stream of events, its tokens are marked too, and the
HTTP exchange becomes a call.

A read may bring a byte, a line or several events. One instant is kept for each read that completes
an event: when the last read that had to wait for a part of it returned. As with the streams of an
SDK (see ``_streams.py``), leaving an iteration notes an end, and reading on revives the call.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from latspan import _runtime
from latspan._instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan._instrument._promotion import dialects_of, recognised
from latspan._operations import ModelCall
from latspan._segments import Kind, Outcome
from latspan._timeline import READER_BOUND_NS, Attempt, Reads
from latspan._wire import EventReader

__all__ = [
    "BODIES_ARE_FOLLOWED",
    "BodyTracker",
    "body_tracker",
    "claim_body",
    "follows_bodies",
    "track_body",
]

BODIES_ARE_FOLLOWED: Final = "_latspan_follows_bodies"
"""The attribute of a response's class that says so."""

_WATCH: Final = "_latspan_body"
"""The attribute of a response that holds who follows its body."""

_LONGEST_ANSWER: Final = 1 << 20
"""Bytes of an answer in one piece above which nobody reads its usage."""


class BodyTracker:
    """
    What a call or an exchange learns of the body of its response.

    Args:
        call: The call or exchange.
        attempt: Its try that this is the response to.
        request_body: What was sent, if it is at hand: the model asked for stands in it.
        decoded: Whether reads bring the body without its content coding.
    """

    __slots__ = (
        "_arrival",
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
        "call",
        "coded",
        "decoding",
        "silent",
    )

    def __init__(
        self,
        call: ModelCall,
        attempt: Attempt,
        request_body: bytes | None,
        *,
        decoded: bool = False,
    ) -> None:
        self.call = call
        self._attempt = attempt
        self._request_body = request_body
        self._entered = self._reading = self._reading_before = False
        self._last_return_ns: int | None = None
        self._arrival: tuple[int, int] | None = None
        self._interrupted: tuple[int, int, Outcome, str] | None = None
        self._end_ns: int | None = None
        self._readers: set[object] = set()
        self._events: EventReader | None = None
        self._kept = False
        self._decoded = False
        self.coded = not decoded and _is_coded(call.headers)
        """Whether reads bring the body in its content coding, and :meth:`decoded` the rest."""
        self.decoding = False
        """Whether the body is being decoded: then :meth:`flushed` comes after its last read."""
        self.silent = False
        """Whether the body is followed elsewhere, as the stream of a client library's."""
        if call.reads is not None or _is_event_stream(call.headers):
            self._events = EventReader(dialects_of(call), self._keep)
            call.reads = call.reads or Reads()
        self._whole = None if call.dialect is None or call.reads is not None else _Whole()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # A response may be pickled or copied; who follows it does not travel with it.
        return type(None), ()

    @property
    def begun(self) -> bool:
        """Whether anything was read of the body."""
        return self._last_return_ns is not None

    @property
    def in_read(self) -> bool:
        """Whether a read has begun and not returned: what it does in turn is no read of its own."""
        return self._reading

    def reading(self) -> int:
        """Note that a read begins, and return when, monotonic nanoseconds."""
        # The library closes the response itself when a read meets the end, or fails.
        self._reading = True
        return self.call.now()

    def begins(self, iterator: object) -> None:
        """Note that an iterator reads on, perhaps after another one was left."""
        self._readers.add(iterator)
        self._reading_before = self._reading

    def read(self, before_ns: int, data: bytes) -> None:
        """Stamp the read that was begun at ``before_ns`` and gave ``data``."""
        self._reading = False
        self._interrupted = None
        call = self.call
        after_ns = self._last_return_ns = call.now()
        if call.finished:
            return
        call.resume()
        arrival = self._arrival
        # A read that had to wait is known to bring what has just arrived; no other one is.
        if (
            arrival is None
            or after_ns - before_ns >= READER_BOUND_NS
            or arrival[1] - arrival[0] < READER_BOUND_NS
        ):
            self._arrival = before_ns, after_ns
        if not self.coded:
            self._feed(data)
        elif self._whole is not None and not self._decoded:
            self._whole.add(data)

    def decoded(self, data: bytes) -> None:
        """Take what the client library's decoder has made of the last read."""
        if self.call.finished or not data:
            return
        if self._whole is not None and not self._decoded:
            # In place of what came in its content coding.
            self._whole = _Whole()
        self._decoded = True
        self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Read the events that ``data`` completes, if the body is a stream of events."""
        if self._whole is not None:
            self._whole.add(data)
        call, events, reads = self.call, self._events, self.call.reads
        if events is None or reads is None:
            return
        kind = 0
        self._kept, over = False, events.done
        with _runtime.handle_internal_errors("the events of a body"):
            kind = events.feed(data)
            if call.dialect is None and events.dialect is not None:
                recognised(call, events.dialect, self._request_body)
                self._request_body = None
            elif events.foreign:
                self._events = call.reads = None
        if not self._kept and events.done is over:
            return
        if self._arrival is not None:
            reads.add(*self._arrival, kind)
            self._arrival = None
        elif reads.stamps:
            # The next part of what one read brought.
            reads.stamps[-1] = max(reads.stamps[-1], kind)

    def _keep(self, event: bytes) -> None:
        self._kept = True
        call = self.call
        call.tail.add(event)
        if call.gathered is not None:
            call.gathered.append(event)

    def entered(self) -> None:
        """Hear that the caller entered the response with ``with``, so that an exit will come."""
        self._entered = True

    def ended(self, before_ns: int) -> None:
        """Note that the read begun at ``before_ns`` found the end of the body."""
        if self.call.finished:
            return
        if self.call.left:
            # Leaving it closed it in some libraries, and nothing was left to read on.
            self._reading = False
            self._let_go()
            self.call.settle()
            return
        self._end_ns = self._attempt.body_end_ns = self._stamp_end(before_ns)
        if not self.decoding:
            self._finish(Outcome.COMPLETED, self._end_ns)

    def flushed(self) -> None:
        """Note that the decoder holds nothing back: now a body that has ended is whole."""
        if self._end_ns is not None and not self.call.finished:
            self._finish(Outcome.COMPLETED, self._end_ns)

    def failed(self, before_ns: int, error: BaseException, iterator: object = None) -> None:
        """
        Note that a read raised; that is no end if it was refused beside another reader.

        Args:
            before_ns: When it began, monotonic nanoseconds.
            error: What it raised.
            iterator: Whose first read it was, ``None`` for any other.
        """
        if self.call.finished:
            return
        self._readers.discard(iterator)
        # A library's word for a misuse is one, and never what it says of the network.
        if iterator is not None and self._readers and isinstance(error, RuntimeError):
            self._reading = self._reading_before
            return
        after_ns = self._stamp_end(before_ns)
        self._let_go()
        self.call.finish(outcome_of(error), done_ns=after_ns, error_type=error_type_of(error))

    def interrupted(self, before_ns: int, error: BaseException) -> None:
        """Note that the read begun at ``before_ns`` was cancelled, and another may go on."""
        # Not the exception: it holds the frames that it came through, and they the response.
        outcome, error_type = outcome_of(error), error_type_of(error)
        self._interrupted = before_ns, self.call.now(), outcome, error_type

    def _stamp_end(self, before_ns: int) -> int:
        self._reading = False
        after_ns = self.call.now()
        if self.call.reads is not None and self._end_ns is None:
            self.call.reads.end = (before_ns, after_ns)
        return after_ns

    def _finish(self, outcome: Outcome, done_ns: int | None, *, finalizing: bool = False) -> None:
        """End the call as its status says, and as ``outcome`` where that says nothing."""
        if self._end_ns is not None:
            # Also if it is closed before its decoder is flushed.
            outcome, done_ns = Outcome.COMPLETED, self._end_ns
            if self._whole is not None and self._whole.body:
                self.call.answered(self._whole.body)
        if outcome is not Outcome.COMPLETED and self._interrupted is not None:
            # No other read came after it.
            self._note_early_end()
            self._let_go()
            self.call.settle(finalizing=finalizing)
            return
        outcome, error_type = self._judged(outcome)
        if self.coded and not self._decoded:
            # Whatever its events are, they were not seen.
            self.call.reads = None
        self._let_go()
        self.call.finish(outcome, done_ns=done_ns, error_type=error_type, finalizing=finalizing)

    def _judged(self, outcome: Outcome) -> tuple[Outcome, str | None]:
        """Return ``outcome`` and its error type, or what the status or the end mark makes of it."""
        call, attempt, events = self.call, self._attempt, self._events
        if events is not None:
            if outcome is not Outcome.COMPLETED and events.ended(call.tail.parts()):
                # A caller that stops reading at the end mark has the whole answer.
                outcome = Outcome.COMPLETED
            if events.done:
                call.end_marked = True
        by_status = outcome_of_status(attempt.status, call.headers)
        return outcome if by_status is Outcome.COMPLETED else by_status, attempt.error_type

    def _note_early_end(self) -> None:
        """Note on the call how it ends if nothing more is read."""
        if self._interrupted is not None:
            before_ns, after_ns, outcome, error_type = self._interrupted
            self.call.leave(
                outcome, done_ns=after_ns, error_type=error_type, last_read=(before_ns, after_ns)
            )
        elif self._last_return_ns is not None:
            outcome, error_type = self._judged(Outcome.CLOSED_EARLY)
            self.call.leave(outcome, done_ns=self._last_return_ns, error_type=error_type)

    def _let_go(self) -> None:
        """Drop what only the end needed: the response may be held on to for long."""
        self._request_body = self._whole = self._events = None

    def left(self, iterator: object) -> None:
        """
        Note that the caller stopped iterating; inside ``with`` the exit is still to come.

        Args:
            iterator: Whichever it was. One that was never read leaves nothing, and neither does
                one beside which another is open, or that came to the end.
        """
        if iterator not in self._readers:
            return
        self._readers.discard(iterator)
        if self._readers:
            return
        self._reading = False
        if not self._entered and self._end_ns is None and not self.call.finished:
            with _runtime.handle_internal_errors("the end of an iteration"):
                self._note_early_end()

    def released(self) -> None:
        """Note that the connection is given back; inside ``with`` the exit is still to come."""
        self._reading = False
        if not self._entered and not self.call.finished:
            self._finish(Outcome.CLOSED_EARLY, self._last_return_ns)

    @contextmanager
    def closing_itself(self) -> Generator[None]:
        """Take no close inside for the caller's: an iteration that is left closes its response."""
        self._reading = True
        try:
            yield
        finally:
            self._reading = False

    def dropped(self) -> None:
        """Hear from its finaliser that nobody can read the response any more."""
        with _runtime.handle_internal_errors("the finalisation of a response"):
            if self.silent or self.call.finished:
                return
            unread = self._last_return_ns is None
            # What nobody read or closed was over, for its caller, with the headers.
            self._finish(
                Outcome.ABANDONED if unread else Outcome.CLOSED_EARLY,
                self._attempt.end_ns if unread else self._last_return_ns,
                finalizing=True,
            )

    def discarded(self) -> None:
        """Hear that what was left of the body was read and thrown away."""
        self._reading = False
        self.closed()

    def closing(self) -> None:
        """Hear that the response begins to be closed."""
        if not self.silent and not self._reading:
            self.call.closing()

    def closed(self) -> None:
        """Hear that the response is closed; no end if a read is just meeting it."""
        if not self.silent and not self._reading and not self.call.finished:
            self._finish(Outcome.CLOSED_EARLY, None)


class _Whole:
    """A body in one piece, as far as it is worth keeping: its end says what it cost."""

    __slots__ = ("_parts", "_room")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._room = _LONGEST_ANSWER

    def add(self, data: bytes) -> None:
        """Add what a read gave."""
        self._room -= len(data)
        if self._room >= 0:
            self._parts.append(data)
        else:
            self._parts.clear()

    @property
    def body(self) -> bytes:
        """All of it, or nothing where it was too long."""
        return b"".join(self._parts)


def _is_event_stream(headers: Any) -> bool:
    return str(headers.get("content-type") or "").strip().lower().startswith("text/event-stream")


def _is_coded(headers: Any) -> bool:
    return str(headers.get("content-encoding") or "").strip().lower() not in {"", "identity"}


def track_body(
    call: ModelCall,
    attempt: Attempt,
    response: object,
    request_body: bytes | None = None,
    *,
    decoded: bool = False,
) -> BodyTracker:
    """
    Follow the body of ``response`` to its end, which is the call's.

    Args:
        call: The call or exchange; its response headers are known.
        attempt: Its try that this is the response to.
        response: The client library's own object; it is not changed, and is not kept alive.
        request_body: What was sent, if it is at hand.
        decoded: Whether reads bring the body without its content coding.
    """
    watching = BodyTracker(call, attempt, request_body, decoded=decoded)
    setattr(response, _WATCH, watching)
    # At exit `shutdown` ends what is open; a finaliser then would be later and know less.
    weakref.finalize(response, watching.dropped).atexit = False
    return watching


def follows_bodies(response: object) -> bool:
    """Return whether the class of ``response`` is hooked: its watch will hear of it."""
    return getattr(type(response), BODIES_ARE_FOLLOWED, False) is True


def body_tracker(response: object) -> BodyTracker | None:
    """Return who follows the body of ``response``, if anybody does."""
    watching: BodyTracker | None = getattr(response, _WATCH, None)
    return None if watching is None or watching.silent else watching


def claim_body(response: object) -> ModelCall | None:
    """
    Take over the following of a body: a client library reads it as a stream of its own.

    Returns:
        The call whose body it is, ``None`` where nobody follows it.
    """
    watching = body_tracker(response)
    if watching is None or watching.call.kind is not Kind.CALL or watching.begun:
        return None
    watching.silent = True
    return watching.call
