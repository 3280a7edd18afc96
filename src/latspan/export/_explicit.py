"""The arithmetic from HDR buckets to explicit ones: those that a convention advises."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from latspan.histogram import Histogram, middle_value_of

__all__ = ["explicit_counts"]


def explicit_counts(
    histogram: Histogram, bounds: Sequence[float], *, per_bound: float = 1
) -> tuple[int, ...]:
    """
    Return how many values fall into each explicit bucket.

    An HDR bucket that a boundary cuts counts on the side of its middle: a value within 1/2048 of
    a boundary may be on the wrong side of it.

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
        # The outermost buckets' middles may lie beyond the exact extremes.
        middle = min(max(middle_value_of(index), histogram.min_ns), histogram.max_ns)
        counts[bisect_left(bounds, middle / per_bound)] += count
    return tuple(counts)
