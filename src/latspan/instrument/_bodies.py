"""
The bodies of HTTP responses, followed to their end as the caller reads them.

How a response's class reads and closes is hooked; a :class:`BodyWatch` on the response hears of
each. Where a body turns out to be a model's stream of events, its tokens are marked too, and the
HTTP exchange becomes a call.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from latspan import _runtime
from latspan._request import LiveCall
from latspan._timeline import Attempt, Reads
from latspan.instrument._outcomes import error_type_of, outcome_of, outcome_of_status
from latspan.instrument._recognition import dialects_of, recognised
from latspan.segments import Kind, Outcome
from latspan.wire import EventReader

__all__ = [
    "BODIES_ARE_FOLLOWED",
    "BodyWatch",
    "aiterate_body",
    "body_watch",
    "claim_body",
    "follows_bodies",
    "iterate_body",
    "watch_body",
]

BODIES_ARE_FOLLOWED: Final = "_latspan_follows_bodies"
"""The attribute of a response's class that says so."""

_T = TypeVar("_T", bound=bytes)

_WATCH: Final = "_latspan_body"
"""The attribute of a response that holds who follows its body."""

_LONGEST_ANSWER: Final = 1 << 20
"""Bytes of an answer in one piece above which nobody reads its usage."""


class BodyWatch:
    """
    What a call or an exchange hears of the body of its response.

    Args:
        call: The call or exchange.
        attempt: Its try that this is the response to.
        request_body: What was sent, if it is at hand: the model asked for stands in it.
        decoded: Whether reads bring the body without its content coding.
    """

    __slots__ = (
        "_attempt",
        "_entered",
        "_interrupted",
        "_last_return_ns",
        "_reader",
        "_reading",
        "_request_body",
        "_whole",
        "call",
        "silent",
    )

    def __init__(
        self, call: LiveCall, attempt: Attempt, request_body: bytes | None, *, decoded: bool = False
    ) -> None:
        self.call = call
        self._attempt = attempt
        self._request_body = request_body
        self._entered = self._reading = False
        self._last_return_ns: int | None = None
        self._interrupted: tuple[int, int, Outcome, str] | None = None
        self._reader: EventReader | None = None
        self.silent = False
        """Whether somebody else follows this body, as the stream of a client library's."""
        if call.reads is not None or _is_event_stream(call.headers, decoded=decoded):
            self._reader = EventReader(dialects_of(call), self._keep)
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
        """Hear that a read begins, and return when, monotonic nanoseconds."""
        # The library closes the response itself when a read meets the end, or fails.
        self._reading = True
        return self.call.now()

    def read(self, before_ns: int, data: bytes) -> None:
        """Hear that the read begun at ``before_ns`` gave ``data``, and stamp it."""
        self._reading = False
        self._interrupted = None
        call = self.call
        after_ns = self._last_return_ns = call.now()
        if self._whole is not None:
            self._whole.add(data)
        reader, reads = self._reader, call.reads
        if reader is None or reads is None or call.finished:
            return
        kind = 0
        with _runtime.guarded("the events of a body"):
            kind = reader.feed(data)
            if call.dialect is None and reader.dialect is not None:
                recognised(call, reader.dialect, self._request_body)
                self._request_body = None
            elif reader.foreign:
                self._reader = call.reads = None
        reads.add(before_ns, after_ns, kind)

    def _keep(self, event: bytes) -> None:
        call, reader = self.call, self._reader
        dialect = None if reader is None else reader.dialect
        is_opening = None if dialect is None else dialect.opening
        if is_opening is not None and call.opening is None and is_opening(event):
            call.opening = event
        call.tail.add(event)
        if call.gathered is not None:
            call.gathered.append(event)

    def entered(self) -> None:
        """Hear that the caller entered the response with ``with``, so that an exit will come."""
        self._entered = True

    def ended(self, before_ns: int) -> None:
        """Hear that the read begun at ``before_ns`` found the end of the body."""
        if self.call.finished:
            return
        after_ns = self._stamp_end(before_ns)
        self._attempt.body_end_ns = after_ns
        if self._whole is not None:
            self.call.answer = self._whole.body
        self._finish(Outcome.COMPLETED, after_ns)

    def failed(self, before_ns: int, error: BaseException) -> None:
        """Hear that the read begun at ``before_ns`` raised."""
        if not self.call.finished:
            after_ns = self._stamp_end(before_ns)
            self._let_go()
            self.call.finish(outcome_of(error), done_ns=after_ns, error_type=error_type_of(error))

    def interrupted(self, before_ns: int, error: BaseException) -> None:
        """Hear that the read begun at ``before_ns`` was cancelled, and another may go on."""
        # Not the exception: it holds the frames that it came through, and they the response.
        outcome, error_type = outcome_of(error), error_type_of(error)
        self._interrupted = before_ns, self.call.now(), outcome, error_type

    def _stamp_end(self, before_ns: int) -> int:
        self._reading = False
        after_ns = self.call.now()
        if self.call.reads is not None:
            self.call.reads.end = (before_ns, after_ns)
        return after_ns

    def _finish(self, outcome: Outcome, done_ns: int | None, *, finalizing: bool = False) -> None:
        """End the call as its status says, and as ``outcome`` where that says nothing."""
        call, attempt = self.call, self._attempt
        if outcome is not Outcome.COMPLETED:
            if self._interrupted is not None:
                self._cancel(*self._interrupted, finalizing=finalizing)
                return
            if self._reader is not None and self._reader.ended(call.tail.chunks()):
                # Who stops reading at the end mark has the whole answer.
                outcome = Outcome.COMPLETED
        if self._reader is not None and self._reader.done:
            call.end_marked = True
        self._let_go()
        by_status = outcome_of_status(attempt.status, call.headers)
        call.finish(
            outcome if by_status is Outcome.COMPLETED else by_status,
            done_ns=done_ns,
            error_type=attempt.error_type,
            finalizing=finalizing,
        )

    def _let_go(self) -> None:
        """Drop what only the end needed: the response may be held on to for long."""
        self._request_body = self._whole = self._reader = None

    def _cancel(
        self,
        before_ns: int,
        after_ns: int,
        outcome: Outcome,
        error_type: str,
        *,
        finalizing: bool,
    ) -> None:
        """End the call with the read that was interrupted: no other came after it."""
        if self.call.reads is not None:
            self.call.reads.end = before_ns, after_ns
        self._let_go()
        self.call.finish(outcome, done_ns=after_ns, error_type=error_type, finalizing=finalizing)

    def left(self) -> None:
        """Hear that the caller stopped iterating; inside ``with`` the exit is still to come."""
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

    def iterator_dropped(self) -> None:
        """Hear the same from the finaliser of an iterator."""
        if not self._entered:
            self.dropped()

    def dropped(self) -> None:
        """Hear from its finaliser that nobody can read the response any more."""
        with _runtime.guarded("the finalisation of a response"):
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


def _is_event_stream(headers: Any, *, decoded: bool) -> bool:
    kind = str(headers.get("content-type") or "")
    if not kind.startswith("text/event-stream"):
        return False
    return decoded or headers.get("content-encoding") in {None, "", "identity"}


def watch_body(
    call: LiveCall,
    attempt: Attempt,
    response: object,
    request_body: bytes | None = None,
    *,
    decoded: bool = False,
) -> BodyWatch:
    """
    Follow the body of ``response`` to its end, which is the call's.

    Args:
        call: The call or exchange; its response headers are known.
        attempt: Its try that this is the response to.
        response: The client library's own object; it is not changed, and is not kept alive.
        request_body: What was sent, if it is at hand.
        decoded: Whether reads bring the body without its content coding.
    """
    watching = BodyWatch(call, attempt, request_body, decoded=decoded)
    setattr(response, _WATCH, watching)
    # At exit `shutdown` ends what is open; a finaliser then would be later and know less.
    weakref.finalize(response, watching.dropped).atexit = False
    return watching


def follows_bodies(response: object) -> bool:
    """Return whether the class of ``response`` is hooked: its watch will hear of it."""
    return getattr(type(response), BODIES_ARE_FOLLOWED, False) is True


def body_watch(response: object) -> BodyWatch | None:
    """Return who follows the body of ``response``, if anybody does."""
    watching: BodyWatch | None = getattr(response, _WATCH, None)
    return None if watching is None or watching.silent else watching


def claim_body(response: object) -> LiveCall | None:
    """
    Take over the following of a body: a client library reads it as a stream of its own.

    Returns:
        The call whose body it is, ``None`` where nobody follows it.
    """
    watching = body_watch(response)
    if watching is None or watching.call.kind is not Kind.CALL or watching.begun:
        return None
    watching.silent = True
    return watching.call


def iterate_body(source: Generator[_T], watching: BodyWatch) -> Generator[_T]:
    """
    Yield what ``source`` yields, stamped. Exceptions pass through as they are.

    Args:
        source: The client library's own iteration over the body.
        watching: Who follows it.
    """
    before = watching.reading()
    try:
        for data in source:
            watching.read(before, data)
            yield data
            before = watching.reading()
        watching.ended(before)
    except GeneratorExit:
        watching.left()
        with watching.closing_itself():
            source.close()
        raise
    except BaseException as error:
        watching.failed(before, error)
        raise


def aiterate_body(source: AsyncGenerator[_T], watching: BodyWatch) -> AsyncGenerator[_T]:
    """Yield the same asynchronously, and hear a ``break`` at once; see ``aiterate``."""
    generator = _aiterate_body(source, watching)
    weakref.finalize(generator, watching.iterator_dropped).atexit = False
    return generator


async def _aiterate_body(source: AsyncGenerator[_T], watching: BodyWatch) -> AsyncGenerator[_T]:
    before = watching.reading()
    try:
        async for data in source:
            watching.read(before, data)
            yield data
            before = watching.reading()
        watching.ended(before)
    except GeneratorExit:
        watching.left()
        with watching.closing_itself():
            await source.aclose()
        raise
    except BaseException as error:
        watching.failed(before, error)
        raise
