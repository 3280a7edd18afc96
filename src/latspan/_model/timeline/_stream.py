"""
Stream of a call as it was read: arrivals of its chunks, intervals between its reads, felt speed.

An arrival has a source, because a chunk that was available before its read may have arrived at any
earlier time. Felt speed is the effect of gaps and stalls on a person who reads along. A *buffered*
stream was held back by a proxy or gateway until it was complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, count, groupby, repeat
from operator import itemgetter, sub
from typing import Final, NamedTuple

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.metrics import (
    CHUNK_GAP_MAX,
    Expectations,
    MetricValue,
    buffer_needed,
    fluidity,
    stalls,
    tokens_before,
)
from latspan._model.segments import Source
from latspan._model.timeline._constants import ESTIMATED, MEASURED, new_tuple
from latspan._model.timeline._marks import Reads
from latspan._model.wire import ChunkKind

_VISIBLE: Final = int(ChunkKind.VISIBLE)
_held: Final = itemgetter(1)

_BUFFERED_CHUNKS: Final = 8
"""
Least number of token-bearing chunks of a buffered stream. A server may write several tokens at
once, so fewer chunks prove little.
"""
_BURST_DIVISOR: Final = 10
"""
A stream counts as buffered if its tokens arrive at least this many times faster than generated.
"""
_BUFFERED_NS: Final = 100 * NS_PER_MS
"""
Minimum difference between the reported generation and the burst: twice the delay with which a busy
machine was observed to record the first token.
"""

ReadInterval = tuple[int, bool]
"""
An interval that ends when the caller receives the stream or a read returns: its end in monotonic
nanoseconds, and whether it was held.

A held interval ends with one or more reads that each found their chunk already available. Before
these reads the caller worked on something else. Such an interval is the caller's time
(``consumer``).
"""


class ReadIntervals(NamedTuple):
    """
    Time intervals of a stream up to its last token, and after it.

    Args:
        pieces: Intervals from the instant at which the caller received the stream to the last
            token, or to the last read if there is no token.
        tail: Intervals from the last token to the last read.
        wait_ns: Nanoseconds from receiving the stream to the first token, without held intervals.
        reasoning_ns: The same, from there to the first visible token.
        decode_ns: The same, from there to the last token.
    """

    pieces: Sequence[ReadInterval]
    tail: Sequence[ReadInterval]
    wait_ns: int
    reasoning_ns: int
    decode_ns: int


class Stream(NamedTuple):
    """
    A stream as it was read. Chunks are identified by their position in it.

    Args:
        returns_ns: Instants at which the reads returned, in monotonic nanoseconds; the read of the
            end is last.
        late: One flag per read: true if its chunk may have arrived earlier, because the read was
            reader-bound (held, see :data:`ReadInterval`) or because a block of the event loop may
            hide the arrival. Empty if no flag is true.
        chunks: Positions of the reads that returned a chunk.
        tokens: Positions of the chunks that bear tokens, in order.
        arrivals_ns: Arrival of each of these chunks, in monotonic nanoseconds.
        gaps_ns: Gaps between the arrivals of these chunks, in nanoseconds.
        first_visible: Position of the first of these chunks that is not reasoning, if there is one.
        intervals: Intervals of the stream between its reads.
    """

    returns_ns: list[int]
    late: list[bool]
    chunks: Sequence[int]
    tokens: list[int]
    arrivals_ns: list[int]
    gaps_ns: list[int]
    first_visible: int | None
    intervals: ReadIntervals

    def source(self, *chunks: int) -> Source:
        """Return the source of a time that depends on the arrivals of these chunks."""
        late = self.late
        return ESTIMATED if late and any(late[chunk] for chunk in chunks) else MEASURED

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
    chunks, kinds = reads.chunks()
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
        chunks=chunks,
        tokens=tokens,
        arrivals_ns=arrivals_ns,
        gaps_ns=list(map(sub, arrivals_ns[1:], arrivals_ns)),
        first_visible=first_visible,
        intervals=_intervals(handed_over_ns, returns_ns, held, ends=(first, seen, last)),
    )


def _intervals(
    handed_over_ns: int,
    returns_ns: Sequence[int],
    reader_bound: Sequence[bool],
    *,
    ends: tuple[int, int, int],
) -> ReadIntervals:
    """
    Return the time intervals of a stream.

    Args:
        handed_over_ns: Instant at which the caller received the stream, monotonic nanoseconds.
        returns_ns: Instants at which the reads returned, in order.
        reader_bound: Whether each read was reader-bound; empty if none was.
        ends: Positions of the reads of the first token, the first visible token and the last token.
    """
    if not returns_ns:
        return ReadIntervals([(handed_over_ns, False)], [], 0, 0, 0)
    if reader_bound:
        return _held_up(handed_over_ns, list(zip(returns_ns, reader_bound, strict=True)), ends)
    first, seen, last = ends
    first_ns, seen_ns, last_ns = returns_ns[first], returns_ns[seen], returns_ns[last]
    return ReadIntervals(
        pieces=[(max(handed_over_ns, first_ns, seen_ns, last_ns), False)],
        tail=[(returns_ns[-1], False)],
        wait_ns=max(0, first_ns - handed_over_ns),
        reasoning_ns=max(0, seen_ns - first_ns),
        decode_ns=max(0, last_ns - seen_ns),
    )


def _held_up(
    handed_over_ns: int, returns: list[ReadInterval], ends: tuple[int, int, int]
) -> ReadIntervals:
    """Return the intervals of a stream that the caller held during some of them."""
    pieces: list[ReadInterval] = [(handed_over_ns, False)]
    flowing_ns: list[int] = []
    begin = 0
    for end in ends:
        taken_ns = 0
        for end_ns, held in _runs(returns[begin : end + 1]):
            if not held:
                taken_ns += max(0, end_ns - pieces[-1][0])
            pieces.append((end_ns, held))
        flowing_ns.append(taken_ns)
        begin = end + 1
    wait_ns, reasoning_ns, decode_ns = flowing_ns
    return ReadIntervals(pieces, _runs(returns[begin:]), wait_ns, reasoning_ns, decode_ns)


def _runs(returns: Sequence[ReadInterval]) -> list[ReadInterval]:
    """Return one interval per run of consecutive reads that are all held or all not held."""
    return [list(run)[-1] for _, run in groupby(returns, key=_held)]


def smoothness_metrics(
    stream: Stream,
    *,
    start_ns: int,
    tokens: int | None,
    tokens_estimated: bool,
    expected: Expectations,
) -> dict[str, MetricValue]:
    """
    Return the gap, stall, fluidity and buffer metrics that are defined for a stream, by name.

    Args:
        stream: The stream as it was read.
        start_ns: Start of the call, monotonic nanoseconds.
        tokens: Number of tokens in all chunks; ``None`` if it is unknown, or if the stream has
            several choices.
        tokens_estimated: Whether this number is an estimate.
        expected: Expectations that the stream is compared with.
    """
    arrivals_ns = stream.arrivals_ns
    if not arrivals_ns:
        return {}
    source = stream.source(*stream.tokens)
    metrics: dict[str, MetricValue] = {}
    gaps_ns = stream.gaps_ns
    if gaps_ns:
        count, excess_ns, ratio = stalls(gaps_ns, expected.stall_ns)
        metrics[CHUNK_GAP_MAX] = MetricValue(max(gaps_ns), source)
        metrics["stall_count"] = MetricValue(count, source)
        metrics["stall_duration"] = MetricValue(excess_ns, source)
        if ratio is not None:
            metrics["stall_ratio"] = MetricValue(ratio, source)
    if tokens is not None and tokens > 0:
        if tokens_estimated:
            source = ESTIMATED
        before: Sequence[int] = range(tokens + 1)
        if tokens != len(arrivals_ns):
            # The distribution of the tokens over the chunks is an estimate too.
            before, source = tokens_before(len(arrivals_ns), tokens), ESTIMATED
        on_time = fluidity(
            arrivals_ns,
            before,
            due_ns=start_ns + expected.first_token_ns,
            token_ns=expected.token_ns,
        )
        metrics["fluidity"] = MetricValue(on_time, source)
        if stream.first_visible is not None:
            # Nothing is shown before the first visible chunk.
            unseen = stream.tokens.index(stream.first_visible)
            needed_ns = buffer_needed(
                arrivals_ns[unseen:], before[unseen:], reading_ns=expected.reading_ns
            )
            metrics["buffer_needed"] = MetricValue(needed_ns, source)
    return metrics


def is_buffered(stream: Stream, generation_ns: int | None) -> bool:
    """
    Return whether the tokens arrived in a burst, although the server generated them slowly.

    Only the server's own report distinguishes this from a fast server. The read of the first token
    must have waited for it; otherwise the caller may have read the stream late.

    Args:
        stream: The stream as it was read.
        generation_ns: Generation time that the server reported, from a report that fits; ``None``
            if it did not report any.
    """
    arrivals_ns = stream.arrivals_ns
    if generation_ns is None or len(arrivals_ns) < _BUFFERED_CHUNKS:
        return False
    if stream.late and stream.late[stream.tokens[0]]:
        return False
    burst_ns = arrivals_ns[-1] - arrivals_ns[0]
    return burst_ns * _BURST_DIVISOR <= generation_ns and generation_ns - burst_ns >= _BUFFERED_NS


def with_late_arrivals(stream: Stream) -> Stream:
    """
    Return a buffered stream with all arrivals marked as reader-bound: they are upper bounds.
    """
    return stream._replace(late=[True] * len(stream.returns_ns))
