"""Observations of a call or stage while it is open: plain instants, interpreted at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, sub
from typing import Final

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.segments import SegmentName

READER_BOUND_NS: Final = NS_PER_MS
"""
Limit for reader-bound chunks. If the caller held the stream for longer than this, a read that waits
for less than this does not show when its chunk arrived.
"""

NO_CHUNK: Final = -1
"""Kind of a read that returned no complete chunk: a comment, or a part of an event."""

Block = tuple[int, int]
"""Begin and end of a block of the event loop, monotonic nanoseconds."""

_start_ns: Final = attrgetter("start_ns")


@dataclass(slots=True)
class Attempt:
    """
    One attempt of a call on the transport.

    Instants are monotonic nanoseconds, ``None`` if not observed.

    Args:
        start_ns: Instant at which the transport was entered.
        phase: Segment in progress; the time of a failed attempt is counted in it.
        pool_acquired_ns: The pool provided a connection, or room for one.
        dns_done_ns: The name was resolved, if the client reports that separately.
        connected_ns: The connection was established, TLS not included.
        tls_done_ns: The TLS handshake was over.
        sent_ns: The last byte of the request was handed to the kernel.
        headers_ns: The response headers were received.
        body_end_ns: The last byte of the response body was received.
        end_ns: The transport was left: with headers, or with an error.
        reused: Whether the connection had been used before; ``None`` if unknown.
        status: The HTTP status code.
        error_type: Cause of the failure: a status code or the name of an exception type.
        is_cancelled: Whether the failure is a cancellation, or an interrupt of the program.
    """

    start_ns: int
    phase: SegmentName = SegmentName.POOL_WAIT
    pool_acquired_ns: int | None = None
    dns_done_ns: int | None = None
    connected_ns: int | None = None
    tls_done_ns: int | None = None
    sent_ns: int | None = None
    headers_ns: int | None = None
    body_end_ns: int | None = None
    end_ns: int | None = None
    reused: bool | None = None
    status: int | None = None
    error_type: str | None = None
    is_cancelled: bool = False

    @property
    def sending_ns(self) -> int:
        """Instant at which sending could begin: the last known instant before ``sent_ns``."""
        latest_ns = self.pool_acquired_ns
        for instant_ns in (self.connected_ns, self.tls_done_ns):
            if latest_ns is None or (instant_ns is not None and instant_ns > latest_ns):
                latest_ns = instant_ns
        return self.start_ns if latest_ns is None else latest_ns

    @property
    def failed(self) -> bool:
        """Whether the attempt ended with an error or an error status."""
        return self.error_type is not None


def answering(attempts: Sequence[Attempt]) -> Attempt | None:
    """
    Return the attempt whose response the call used; ``None`` if there are no attempts.

    If another attempt began after a response, the client did not use that response. Parallel
    attempts may leave several responses: the first one that is not an error was used, or the first
    one if all are errors. If no response is left, the result is the attempt that began last.
    """
    if len(attempts) < 2:
        return attempts[0] if attempts else None
    last = max(attempts, key=_start_ns)
    answers = [
        (attempt.failed, attempt.headers_ns, at)
        for at, attempt in enumerate(attempts)
        if attempt.headers_ns is not None and attempt.headers_ns > last.start_ns
    ]
    return attempts[min(answers)[-1]] if answers else last


@dataclass(slots=True)
class Reads:
    """
    Timestamps of the reads of one stream: two instants and a kind per read.

    Args:
        stamps: Three values per read, in sequence: the instants at which it began and returned, in
            monotonic nanoseconds, and the :class:`~latspan._model.wire.ChunkKind` of its chunk as a
            plain integer, or :data:`NO_CHUNK`. They are in a single list and are added by one
            operation, so that an interrupt leaves either all three or none.
        end: Instants before and after the read that found the end of the stream, or failed.
        began: Returns the instant at which the read in progress began, ``None`` if the caller holds
            the stream; ``None`` if that is not known.
        arrivals: Instants at which the transport returned the last parts of the body, monotonic
            nanoseconds; ``None`` if they are not recorded.
    """

    stamps: list[int] = field(default_factory=list[int])
    end: tuple[int, int] | None = None
    began: Callable[[], int | None] | None = None
    arrivals: deque[int] | None = None

    def add(self, before_ns: int, after_ns: int, kind: int) -> None:
        """Add a read; its chunk has that kind."""
        self.stamps += (before_ns, after_ns, kind)

    def copy(self) -> Reads:
        """Return the reads so far; later ones are not added to it."""
        arrivals = None if self.arrivals is None else self.arrivals.copy()
        return Reads(self.stamps.copy(), self.end, arrivals=arrivals)

    def chunks(self) -> tuple[Sequence[int], list[int]]:
        """
        Return the positions of the reads that returned a chunk, and the kind of each read.

        The kind of a read without a chunk is that of an empty chunk.
        """
        kinds = self.stamps[2::3]
        positions = range(len(kinds))
        if NO_CHUNK not in kinds:
            return positions, kinds
        found = [at for at in positions if kinds[at] != NO_CHUNK]
        return found, [max(kind, 0) for kind in kinds]

    @property
    def kinds(self) -> list[int]:
        """Kind of the chunk of each read; that of an empty chunk if the read returned none."""
        return self.chunks()[1]

    @property
    def last_return_ns(self) -> int | None:
        """Instant at which the last read returned, ``None`` before the first."""
        if self.end is not None:
            return self.end[1]
        return self.stamps[-2] if self.stamps else None

    def gaps_ns(self) -> tuple[int, ...]:
        """
        Return the time between the returns of each two successive reads that returned a chunk.

        The caller's time is included; :meth:`returns` separates it.
        """
        returned = self.stamps[1::3]
        if NO_CHUNK in self.stamps[2::3]:
            returned = [returned[at] for at in self.chunks()[0]]
        return tuple(map(sub, returned[1:], returned))

    def library_work(self, since_ns: int) -> Iterator[tuple[int, int]]:
        """
        Yield the intervals in which the client library worked on parts of the body that it had.

        Such an interval is from the last arrival in a read to the return of the read. The OpenAI
        SDK builds the classes of an API when it reads the API's first stream, which takes seconds
        on a slow machine.

        Args:
            since_ns: Start of the reads to look at, monotonic nanoseconds.
        """
        if not self.arrivals:
            return
        ends = () if self.end is None else (self.end,)
        for before_ns, after_ns in (*zip(self.stamps[::3], self.stamps[1::3], strict=True), *ends):
            if before_ns >= since_ns:
                arrived = [at_ns for at_ns in self.arrivals if before_ns <= at_ns <= after_ns]
                if arrived and after_ns - arrived[-1] >= READER_BOUND_NS:
                    yield arrived[-1], after_ns

    def returns(self, handed_over_ns: int) -> tuple[list[int], list[bool]]:
        """
        Return when each read returned and whether it was reader-bound, the read of the end last.

        A server goes on sending while the caller works. So a read that returns immediately shows
        when its chunk arrived only if the caller was waiting just before. If the caller held the
        stream before the read, the chunk may have arrived at any time since then. The same applies
        to further chunks that are read immediately after it.

        Args:
            handed_over_ns: Instant at which the caller received the stream, monotonic nanoseconds.

        Returns:
            The instants, and a flag per read; the list of flags is empty if no read was
            reader-bound.
        """
        begun, returned = self.stamps[::3], self.stamps[1::3]
        if self.end is not None:
            begun.append(self.end[0])
            returned.append(self.end[1])
        held_ns = list(map(sub, begun, [handed_over_ns, *returned]))
        if not held_ns or max(held_ns) <= READER_BOUND_NS:
            return returned, []
        behind = False
        reader_bound: list[bool] = []
        for before, after, held in zip(begun, returned, held_ns, strict=True):
            at_once = after - before < READER_BOUND_NS
            behind = at_once and (behind or held > READER_BOUND_NS)
            reader_bound.append(behind)
        return returned, reader_bound if True in reader_bound else []
