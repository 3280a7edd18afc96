"""Arrival times of the chunks of a stream, derived from its reads, with their sources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count, repeat
from operator import sub
from typing import Final, NamedTuple

from latspan._metrics import MetricValue
from latspan._segments import Source
from latspan._timeline._constants import ESTIMATED, MEASURED, new_tuple
from latspan._timeline._marks import Reads
from latspan._timeline._read_intervals import ReadIntervals, intervals_between
from latspan._wire import ChunkKind

__all__ = ["Stream", "read_stream"]

_VISIBLE: Final = int(ChunkKind.VISIBLE)


class Stream(NamedTuple):
    """
    A stream as it was read. Chunks are identified by their position in it.

    Args:
        returns_ns: Instants at which the reads returned, in monotonic nanoseconds; the read of the
            end is last.
        late: Whether each read was reader-bound, or returned in a block of the event loop, so that
            its chunk may have arrived earlier; empty if none was.
        chunks: Number of reads that returned a chunk.
        tokens: Positions of the chunks that bear tokens, in order.
        arrivals_ns: Arrival of each of these chunks, in monotonic nanoseconds.
        gaps_ns: Gaps between the arrivals of these chunks, in nanoseconds.
        first_visible: Position of the first of these chunks that is not reasoning, if there is one.
        intervals: Intervals of the stream between its reads.
    """

    returns_ns: list[int]
    late: list[bool]
    chunks: int
    tokens: list[int]
    arrivals_ns: list[int]
    gaps_ns: list[int]
    first_visible: int | None
    intervals: ReadIntervals

    def source(self, *chunks: int) -> Source:
        """Return the source of a time that depends on the arrivals of these chunks."""
        late = self.late
        return ESTIMATED if late and any(late[chunk] for chunk in chunks) else MEASURED

    def arrival(self, chunk: int, since_ns: int) -> MetricValue:
        """Return the time from ``since_ns`` to the arrival of a chunk, with its source."""
        return MetricValue(self.returns_ns[chunk] - since_ns, self.source(chunk))

    def gaps(self) -> tuple[MetricValue, ...]:
        """Return the gaps between the arrivals of token-bearing chunks, each with its source."""
        if not self.late:
            # Not `map(MetricValue, …)`, which would call a function written in Python per gap.
            return tuple(map(new_tuple, repeat(MetricValue), zip(self.gaps_ns, repeat(MEASURED))))
        sources = map(self.source, self.tokens, self.tokens[1:])
        return tuple(map(MetricValue, self.gaps_ns, sources))


def read_stream(reads: Reads, handed_over_ns: int, hidden: Sequence[bool] = ()) -> Stream:
    """
    Return a stream's chunks and arrival times from its reads.

    Args:
        reads: Timestamps of the reads.
        handed_over_ns: Instant at which the caller received the stream, monotonic nanoseconds.
        hidden: Whether a block of the event loop may hide the arrival of the chunk of each read;
            empty if none does.
    """
    returns_ns, held = reads.returns(handed_over_ns)
    late = held or list(hidden)
    if held and hidden:
        late = [either or other for either, other in zip(held, hidden, strict=True)]
    kinds = reads.kinds
    tokens = list(compress(count(), kinds))
    first_visible = kinds.index(_VISIBLE) if _VISIBLE in kinds else None
    first = last = len(returns_ns) - 1
    if tokens:
        first, last = tokens[0], tokens[-1]
    arrivals_ns = list(compress(returns_ns, kinds))
    seen = last if first_visible is None else first_visible
    return Stream(
        returns_ns=returns_ns,
        late=late,
        chunks=len(kinds),
        tokens=tokens,
        arrivals_ns=arrivals_ns,
        gaps_ns=list(map(sub, arrivals_ns[1:], arrivals_ns)),
        first_visible=first_visible,
        intervals=intervals_between(handed_over_ns, returns_ns, held, ends=(first, seen, last)),
    )
