"""
Conversion of HDR buckets to base-2 exponential buckets, in seconds or as ratios.

At scale ``s``, bucket ``i`` holds the values in ``(base**i, base**(i + 1)]`` with
``base = 2**(2**-s)``.

Source: OpenTelemetry metrics data model, "ExponentialHistogram".
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

from latspan._base.nanoseconds import to_seconds
from latspan._base.slices import give_way
from latspan.errors import ConfigError
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of, middle_value_of
from latspan.histogram._groups import BucketGroups
from latspan.histogram._histogram import counts_of

DEFAULT_SCALE: Final = 8
"""
Finest scale that Prometheus keeps. A bucket is 0.27 % wide, so its middle is at most 0.135 % off.
"""

DEFAULT_MAX_BUCKETS: Final = 4096
"""Enough, at scale 8, for values that span a factor of 65,536, for example 1 ms to 65 s."""

_SCALES: Final = range(-10, 21)
_HDR_BUCKETS: Final = index_of(HIGHEST_NS) + 1
_AT_ONCE: Final = 256
"""Number of HDR buckets whose exponential bucket is calculated between two pauses."""


@dataclass(frozen=True, slots=True)
class ExponentialBuckets:
    """
    Counts of values in exponential buckets: seconds, or ratios.

    Args:
        scale: Resolution of the buckets; lowering it by 1 squares ``base``.
        offset: Index of the first bucket.
        counts: One count per bucket, from the first occupied bucket to the last; empty if all
            values are 0. They are ``bytes`` if every count fits into one, which takes the least
            time to encode.
        zero_count: Number of values that are 0.
    """

    scale: int
    offset: int
    counts: Sequence[int]
    zero_count: int

    def inside(self, value: float, *, last: bool) -> float:
        """
        Return the minimum or the maximum of the values, moved into the outermost bucket.

        The bucket of a value is that of the middle of its HDR bucket, so that the exact minimum or
        maximum may lie up to 0.1 % beside it. Receivers expect it inside.

        Args:
            value: The exact minimum or maximum, in seconds or as a ratio.
            last: Whether it is the maximum, which belongs to the last bucket.
        """
        if not self.counts or value <= 0:
            return value
        index = self.offset + (len(self.counts) - 1 if last else 0)
        lower, upper = (2.0 ** math.ldexp(each, -self.scale) for each in (index, index + 1))
        return min(max(value, lower), upper)


def check_resolution(scale: int, max_buckets: int) -> None:
    """
    Reject a resolution that :func:`exponential_buckets` does not support.

    Raises:
        ConfigError: ``scale`` is outside [-10, 20], or ``max_buckets`` is less than 2.
    """
    if scale not in _SCALES:
        raise ConfigError(f"{scale} is not a scale", hint="use an integer in [-10, 20]")
    if max_buckets < 2:
        # A value below 1 s and one above it do not share a bucket at any scale.
        raise ConfigError(f"{max_buckets} buckets are too few", hint="use at least 2")


def exponential_buckets(
    histogram: Histogram, *, scale: int = DEFAULT_SCALE, max_buckets: int = DEFAULT_MAX_BUCKETS
) -> ExponentialBuckets:
    """
    Return the histogram's counts in exponential buckets.

    Args:
        histogram: Histogram of nanoseconds, or of billionths of a ratio: both are scaled by 1e9.
        scale: Finest scale to use, in [-10, 20].
        max_buckets: Maximum number of buckets, at least 2. If there are more buckets from the
            first occupied one to the last, the scale is lowered until they fit.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of range.
    """
    check_resolution(scale, max_buckets)
    counts = counts_of(histogram)
    wanted, first, last = _range_of(histogram, scale, max_buckets)
    if last < first:
        return ExponentialBuckets(wanted, 0, (), counts.zeros)
    grouped = counts.grouped(_groups_of(wanted), bytes(last - first + 1), first)
    return ExponentialBuckets(wanted, first, grouped, counts.zeros)


class _Range(NamedTuple):
    """Exponential buckets from the first occupied one to the last, at a scale."""

    scale: int
    first: int
    last: int


def extended(
    buckets: ExponentialBuckets, total: Histogram, added: Histogram, *, scale: int, max_buckets: int
) -> ExponentialBuckets | None:
    """
    Return the exponential buckets of ``total``, of which only the values of ``added`` are new.

    Args:
        buckets: The exponential buckets of the other values, at least one of which is not 0.
        total: All values.
        added: The new values.
        scale: Finest scale to use.
        max_buckets: Maximum number of buckets.

    Returns:
        The buckets; ``None`` if their scale is lower than that of ``buckets``.
    """
    wanted, first, last = _range_of(total, scale, max_buckets)
    if wanted != buckets.scale or not buckets.counts:
        return None
    before = buckets.offset - first
    after = last - first + 1 - before - len(buckets.counts)
    counts = buckets.counts
    if isinstance(counts, bytes):
        counts = bytes(before) + counts + bytes(after)
    else:
        counts = [*bytes(before), *counts, *bytes(after)]
    new = counts_of(added)
    grouped = new.grouped(_groups_of(wanted), counts, first)
    return ExponentialBuckets(wanted, first, grouped, buckets.zero_count + new.zeros)


def _range_of(histogram: Histogram, scale: int, max_buckets: int) -> _Range:
    """Return the finest scale that fits, and the occupied range at it; it may be empty."""
    span = counts_of(histogram).positive_span()
    if span is None:
        return _Range(scale, 0, -1)
    # At a given scale the bucket of a value does not depend on other values, so that a count of a
    # cumulative series never decreases. As a consequence, the outermost buckets may lie slightly
    # outside the exact minimum and maximum.
    groups = _groups_of(scale)
    lowest, highest = groups[span[0]], groups[span[1]]
    down = _scales_too_fine(lowest, highest, max_buckets)
    return _Range(scale - down, lowest >> down, highest >> down)


@cache
def _groups_of(scale: int) -> BucketGroups:
    """Return the exponential bucket of each HDR bucket's middle."""
    table = array("i", [0])
    for index in range(1, _HDR_BUCKETS):
        table.append(_index_of(middle_value_of(index), scale))
        if not index % _AT_ONCE:
            give_way()
    return BucketGroups(table)


def _index_of(value_ns: int, scale: int) -> int:
    return math.ceil(math.ldexp(math.log2(to_seconds(value_ns)), scale)) - 1


def _scales_too_fine(first: int, last: int, max_buckets: int) -> int:
    """
    Return by how much to lower the scale.

    Lowering the scale by 1 halves every index, rounded down.
    """
    down = 0
    while (last >> down) - (first >> down) >= max_buckets:
        down += 1
    return down
