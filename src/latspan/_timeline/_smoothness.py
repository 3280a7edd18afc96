"""Felt speed of a stream: gaps, stalls, and their effect on a person who reads along."""

from __future__ import annotations

from latspan._metrics import (
    Expectations,
    MetricValue,
    buffer_needed,
    fluidity,
    stall_ratio,
    stalls,
    tokens_before,
)
from latspan._timeline._constants import ESTIMATED
from latspan._timeline._stream import Stream

__all__ = ["smoothness_metrics"]


def smoothness_metrics(
    stream: Stream, *, start_ns: int, tokens: int | None, expected: Expectations
) -> dict[str, MetricValue]:
    """
    Return the gap, stall, fluidity and buffer metrics that are defined for a stream, by name.

    Args:
        stream: The stream as it was read.
        start_ns: Start of the call, monotonic nanoseconds.
        tokens: Number of tokens in all chunks; ``None`` if it is unknown, or if the stream has
            several choices.
        expected: Expectations that the stream is compared with.
    """
    arrivals_ns = stream.arrivals_ns
    if not arrivals_ns:
        return {}
    source = stream.source(*stream.tokens)
    metrics: dict[str, MetricValue] = {}
    gaps_ns = stream.gaps_ns
    if gaps_ns:
        count, excess_ns = stalls(gaps_ns, expected.stall_ns)
        metrics["chunk_gap_max"] = MetricValue(max(gaps_ns), source)
        metrics["stall_count"] = MetricValue(count, source)
        metrics["stall_duration"] = MetricValue(excess_ns, source)
        ratio = stall_ratio(excess_ns, arrivals_ns[-1] - arrivals_ns[0])
        if ratio is not None:
            metrics["stall_ratio"] = MetricValue(ratio, source)
    if tokens is not None and tokens > 0:
        if tokens != len(arrivals_ns):
            # The distribution of the tokens over the chunks is an estimate.
            source = ESTIMATED
        before = tokens_before(len(arrivals_ns), tokens)
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
