"""The arithmetic from HDR buckets to explicit ones: those that a convention advises."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from latspan.histogram import Histogram, lowest_value_of

__all__ = ["explicit_counts"]


def explicit_counts(
    histogram: Histogram, bounds: Sequence[float], *, per_bound: float = 1
) -> tuple[int, ...]:
    """
    Return how many values fall into each explicit bucket.

    An HDR bucket that a boundary cuts counts on the side of its lowest value: what equals a
    boundary is never above it, and a value up to 1/1024 above one may count as below. A value's
    place never depends on the others, so no count of a cumulative series ever falls.

    Args:
        histogram: Of nanoseconds or of plain numbers.
        bounds: Rising; bucket ``i`` holds the values in ``(bounds[i - 1], bounds[i]]``.
        per_bound: How much of the histogram's unit is 1 of the bounds': 1e9 for seconds.

    Returns:
        One count more than there are bounds.

    Source: OpenTelemetry metrics data model, "Histogram".
    """
    counts = [0] * (len(bounds) + 1)
    for index, count in histogram:
        counts[bisect_left(bounds, lowest_value_of(index) / per_bound)] += count
    return tuple(counts)
