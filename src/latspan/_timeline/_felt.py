"""How smoothly a stream arrived: its gaps, its stalls, and what they are to who reads along."""

from __future__ import annotations

from collections.abc import Sequence

from latspan._timeline._stream import Stream
from latspan.metrics import (
    Expectations,
    MetricValue,
    buffer_needed,
    fluidity,
    stall_ratio,
    stalls,
    tokens_before,
)
from latspan.segments import Source

__all__ = ["felt_speed"]


def felt_speed(
    stream: Stream,
    gaps: Sequence[MetricValue],
    *,
    start_ns: int,
    tokens: int | None,
    expected: Expectations,
) -> dict[str, MetricValue]:
    """
    Return what is defined of a stream's gaps, stalls, fluidity and buffer, by metric name.

    Args:
        stream: As it was read.
        gaps: Its chunk gaps.
        start_ns: When the call began, monotonic nanoseconds.
        tokens: How many its chunks hold together; ``None`` where nobody said, or where they are
            those of several answers.
        expected: What it is held against.
    """
    arrivals = stream.token_arrivals
    if not arrivals:
        return {}
    source = Source.weakest(arrival.source for arrival in arrivals)
    felt: dict[str, MetricValue] = {}
    if gaps:
        lengths_ns = [gap.value for gap in gaps]
        count, excess_ns = stalls(lengths_ns, expected.stall_ns)
        felt["chunk_gap_max"] = MetricValue(max(lengths_ns), source)
        felt["stall_count"] = MetricValue(count, source)
        felt["stall_duration"] = MetricValue(excess_ns, source)
        ratio = stall_ratio(excess_ns, arrivals[-1].instant_ns - arrivals[0].instant_ns)
        if ratio is not None:
            felt["stall_ratio"] = MetricValue(ratio, source)
    if tokens:
        if tokens != len(arrivals):
            # Which of them are in which chunk is a guess.
            source = source.weaker(Source.ESTIMATED)
        felt |= _on_schedule(stream, start_ns, tokens, source, expected)
    return felt


def _on_schedule(
    stream: Stream, start_ns: int, tokens: int, source: Source, expected: Expectations
) -> dict[str, MetricValue]:
    """Return what takes knowing when each token came."""
    arrivals = [arrival.instant_ns for arrival in stream.token_arrivals]
    before = tokens_before(len(arrivals), tokens)
    on_time = fluidity(
        arrivals, before, due_ns=start_ns + expected.first_token_ns, token_ns=expected.token_ns
    )
    values = {"fluidity": MetricValue(on_time, source)}
    begin = stream.unseen_chunks
    if begin < len(arrivals):
        needed_ns = buffer_needed(arrivals[begin:], before[begin:], reading_ns=expected.reading_ns)
        values["buffer_needed"] = MetricValue(needed_ns, source)
    return values
