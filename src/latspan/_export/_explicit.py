"""Conversion of HDR buckets to explicit buckets, whose boundaries a convention recommends."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from typing import Final

from latspan._slices import give_way
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of, lowest_value_of
from latspan.histogram._groups import BucketGroups
from latspan.histogram._histogram import counts_of

__all__ = ["explicit_counts"]

_HDR_BUCKETS: Final = index_of(HIGHEST_NS) + 1
_AT_ONCE: Final = 256
"""Number of HDR buckets whose explicit bucket is looked up between two pauses."""


def explicit_counts(
    histogram: Histogram,
    bounds: tuple[float, ...],
    *,
    per_bound: float = 1,
    earlier: Sequence[int] = (),
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
        earlier: Counts to which these are added; none unless given.

    Returns:
        The counts, one more than there are bounds.

    Source: OpenTelemetry metrics data model, "Histogram".
    """
    counts = counts_of(histogram)
    held = earlier or bytes(len(bounds) + 1)
    added = [*counts.grouped(_groups_of(bounds, per_bound), held, 0)]
    added[bisect_left(bounds, 0)] += counts.zeros
    return tuple(added)


@cache
def _groups_of(bounds: tuple[float, ...], per_bound: float) -> BucketGroups:
    table = bytearray()
    for index in range(_HDR_BUCKETS):
        table.append(bisect_left(bounds, lowest_value_of(index) / per_bound))
        if not index % _AT_ONCE:
            give_way()
    return BucketGroups(bytes(table))
