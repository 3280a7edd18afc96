"""Conversion of HDR buckets to explicit buckets, whose boundaries a convention recommends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from latspan.histogram import Histogram
from latspan.histogram._buckets import lowest_value_of

__all__ = ["explicit_counts"]


def explicit_counts(
    histogram: Histogram, bounds: Sequence[float], *, per_bound: float = 1
) -> tuple[int, ...]:
    """
    Return the number of values in each explicit bucket.

    An HDR bucket that contains a boundary is counted on the side of its lowest value: a value
    equal to a boundary never counts as above it, and a value up to 1/1024 above a boundary may
    count as below it. The bucket of a value never depends on other values, so a count of a
    cumulative series never decreases.

    Args:
        histogram: Histogram of nanoseconds or of plain numbers.
        bounds: Ascending; bucket ``i`` holds the values in ``(bounds[i - 1], bounds[i]]``.
        per_bound: Number of histogram units per unit of the bounds: 1e9 for bounds in seconds.

    Returns:
        The counts, one more than there are bounds.

    Source: OpenTelemetry metrics data model, "Histogram".
    """
    counts = [0] * (len(bounds) + 1)
    for index, count in histogram:
        counts[bisect_left(bounds, lowest_value_of(index) / per_bound)] += count
    return tuple(counts)
