"""What is observed of one call while it runs: plain instants, judged later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, sub
from typing import Final

from latspan._segments import SegmentName
from latspan._units import NS_PER_MS

__all__ = ["READER_BOUND_NS", "Attempt", "Reads", "answering"]

READER_BOUND_NS: Final = NS_PER_MS
"""A read that waited less, after the caller held the stream longer, says nothing of arrival."""

_start_ns: Final = attrgetter("start_ns")


@dataclass(slots=True)
class Attempt:
    """
    One try of a call on the transport. Instants are monotonic nanoseconds, ``None`` if unseen.

    Args:
        start_ns: The transport was entered.
        phase: The segment in progress, so that a failure is counted where it happened.
        pool_acquired_ns: The pool gave a connection, or room for one.
        dns_done_ns: The name was resolved, where the client tells that apart.
        connected_ns: The connection stood, TLS apart.
        tls_done_ns: The TLS handshake was over.
        sent_ns: The last byte of the request was handed to the kernel.
        headers_ns: The response headers were in.
        body_end_ns: The last byte of the response body was in.
        end_ns: The transport was left: with headers, or with an error.
        reused: Whether the connection had served before; ``None`` if unknown.
        status: The HTTP status code.
        error_type: Why it failed: a status code or the name of an exception type.
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

    @property
    def sending_ns(self) -> int:
        """When the connection stood and sending began, as far as that was seen."""
        marks = (self.pool_acquired_ns, self.connected_ns, self.tls_done_ns)
        known = [instant for instant in marks if instant is not None]
        return max(known) if known else self.start_ns

    @property
    def failed(self) -> bool:
        """Whether it ended without an answer that the caller can use."""
        return self.error_type is not None


def answering(attempts: Sequence[Attempt]) -> Attempt | None:
    """
    Return the try that a call went on with, ``None`` if there is no try at all.

    An answer after which another try began was turned down. Of several that were not, because
    the tries were under way at the same time, the first that is no error was taken. If no
    answer was taken, it is the try that began last.
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
    The reads of one stream as they are stamped, two instants and a kind a chunk.

    Args:
        stamps: Of each read that gave a chunk, one behind the other: when it began, when it
            returned, both monotonic nanoseconds, and its chunk's :class:`~latspan._wire.ChunkKind`
            as a plain integer. In one list, because whatever interrupts then finds either all
            three or none.
        end: Before and after the read that gave no chunk: the stream's end, or its failure.
    """

    stamps: list[int] = field(default_factory=list[int])
    end: tuple[int, int] | None = None

    def add(self, before_ns: int, after_ns: int, kind: int) -> None:
        """Add a read that gave a chunk of that kind."""
        self.stamps += (before_ns, after_ns, kind)

    def copy(self) -> Reads:
        """Return the reads so far; later ones are not added to it."""
        return Reads(self.stamps.copy(), self.end)

    @property
    def kinds(self) -> list[int]:
        """The kind of each chunk."""
        return self.stamps[2::3]

    @property
    def last_return_ns(self) -> int | None:
        """When the last read returned, ``None`` before the first."""
        if self.end is not None:
            return self.end[1]
        return self.stamps[-2] if self.stamps else None

    def gaps_ns(self) -> tuple[int, ...]:
        """
        Return the time between the returns of each two successive reads that gave a chunk.

        Whose time that was is not asked: that is :meth:`returns`' question.
        """
        returned = self.stamps[1::3]
        return tuple(map(sub, returned[1:], returned))

    def returns(self, handed_over_ns: int) -> tuple[list[int], list[bool]]:
        """
        Return when each read returned and whether that was reader-bound, the end's read last.

        A server goes on producing while the caller works, so a read that returned at once tells
        when its chunk arrived only if the stream had just been waited for. After the caller held
        the stream the chunk may have been there for any part of that time, and so may those that
        are read at once behind it.

        Args:
            handed_over_ns: When the caller got the stream.

        Returns:
            The instants, and of each whether it was reader-bound; nothing of any where none was.
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
