"""
Arrivals of the events of a body, from the reads of their parts.

A read may return a byte, a line or several events. A read that had to wait shows when its data
arrived. A read that returned immediately only shows that its data had arrived before. So the reads
up to the one that completes an event are joined to one read, as long as the caller does not pause
between two of them. The joined read begins with the first of them. It returns with the last one
that took time, because an event arrives with its last part.

If the caller pauses, what is read afterwards may have arrived at any time in the pause. So the
reads before the pause are recorded as a read that returned no chunk, and another joined read
begins. There is one exception: if only the line end of an event is read after the pause, the event
had arrived with its last line. Callers that read by line pause there, to handle that line.

A read may complete several events. If reads return what has been received and wait for no more, the
events arrived together, for example because a proxy had collected them. So each event has an
arrival of its own, as each chunk of a client library's stream has, and the gaps between them are 0.
Other reads wait until they have a number of bytes, or the whole body. The events of such a read may
have arrived at any time in it, so they are recorded as one chunk.

A read that was cancelled counts like a read that returned no data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latspan._model.timeline import NO_CHUNK, READER_BOUND_NS, Reads
from latspan._model.wire import ChunkKind

_END_MARK: Final = int(ChunkKind.EMPTY)
"""Kind of a read that only completed the end mark of a stream."""

_IMMEDIATE_NS: Final = 50_000
"""
Limit for immediate reads, in nanoseconds. Data that the client library has already received is
returned within a few microseconds.
"""


class EventArrivals:
    """
    The reads of one body since the last event that they completed.

    Args:
        as_received: Whether a read returns what has been received, without waiting for more.
    """

    __slots__ = ("_as_received", "_joined", "_returned_ns")

    def __init__(self, *, as_received: bool = False) -> None:
        self._as_received = as_received
        self._joined: tuple[int, int] | None = None
        self._returned_ns = 0

    def note(
        self,
        before_ns: int,
        after_ns: int,
        reads: Reads | None,
        *,
        data: bytes = b"",
        inside: bool = False,
    ) -> None:
        """
        Note a read.

        Args:
            before_ns: Start of the read, monotonic nanoseconds.
            after_ns: Its return.
            reads: Reads of the stream; ``None`` if the body is not one.
            data: What it returned; empty if it was cancelled.
            inside: Whether an event was incomplete before it.
        """
        joined, returned_ns = self._joined, self._returned_ns
        self._returned_ns = after_ns
        if joined is None:
            self._joined = before_ns, after_ns
        elif before_ns - returned_ns < READER_BOUND_NS:
            if after_ns - before_ns >= _IMMEDIATE_NS:
                self._joined = joined[0], after_ns
        elif not (inside and data.isspace()):
            self.end(reads)
            self._joined = before_ns, after_ns

    def events(self, reads: Reads, kinds: Sequence[int]) -> None:
        """
        Record that the last read completed events.

        Args:
            reads: Reads of the stream.
            kinds: Kinds of the events, in order; empty if it only completed the end mark.
        """
        if len(kinds) > 1 and not self._as_received:
            kinds = (max(kinds),)
        joined, stamps = self._joined, reads.stamps
        if joined is not None:
            self._joined = None
            reads.add(*joined, kinds[0] if kinds else _END_MARK)
            kinds = kinds[1:]
        # A decoder may return the data of one read in several parts, so the read may have been
        # added before.
        if not kinds or not stamps:
            return
        if not self._as_received:
            stamps[-1] = max(stamps[-1], kinds[0])
            return
        arrival_ns = stamps[-2]
        for kind in kinds:
            reads.add(arrival_ns, arrival_ns, kind)

    def end(self, reads: Reads | None) -> None:
        """Record the reads since the last event as a read that returned no chunk."""
        if self._joined is not None and reads is not None:
            reads.add(*self._joined, NO_CHUNK)
        self._joined = None
