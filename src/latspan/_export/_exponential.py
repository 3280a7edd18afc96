"""
Conversion of HDR buckets to base-2 exponential buckets, in seconds or as ratios.

At scale ``s``, bucket ``i`` holds the values in ``(base**i, base**(i + 1)]`` with
``base = 2**(2**-s)``.

Source: OpenTelemetry metrics data model, "ExponentialHistogram".
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from functools import cache
from typing import Final

from latspan._units import to_seconds
from latspan.errors import ConfigError
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of, middle_value_of

__all__ = [
    "DEFAULT_MAX_BUCKETS",
    "DEFAULT_SCALE",
    "ExponentialBuckets",
    "check_resolution",
    "exponential_buckets",
]

DEFAULT_SCALE: Final = 8
"""
Finest scale that Prometheus keeps. A bucket is 0.27 % wide, so its middle is at most 0.135 % off.
"""

DEFAULT_MAX_BUCKETS: Final = 4096
"""Enough, at scale 8, for values that span a factor of 65,536, for example 1 ms to 65 s."""

_SCALES: Final = range(-10, 21)
_HDR_BUCKETS: Final = index_of(HIGHEST_NS) + 1


@dataclass(frozen=True, slots=True)
class ExponentialBuckets:
    """
    Counts of values in exponential buckets: seconds, or ratios.

    Args:
        scale: Resolution of the buckets; lowering it by 1 squares ``base``.
        offset: Index of the first bucket.
        counts: One count per bucket, from the first occupied bucket to the last; empty if all
            values are 0.
        zero_count: Number of values that are 0.
    """

    scale: int
    offset: int
    counts: tuple[int, ...]
    zero_count: int


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
    buckets = list(histogram)
    zero_count = buckets.pop(0)[1] if buckets and buckets[0][0] == 0 else 0
    if not buckets:
        return ExponentialBuckets(scale, 0, (), zero_count)
    # At a given scale the bucket of a value does not depend on other values, so that a count of a
    # cumulative series never decreases. As a consequence, the outermost buckets may lie slightly
    # outside the exact minimum and maximum.
    table = _table_of(scale)
    lowest, highest = table[buckets[0][0]], table[buckets[-1][0]]
    down = _scales_too_fine(lowest, highest, max_buckets)
    first, last = lowest >> down, highest >> down
    counts = [0] * (last - first + 1)
    for hdr_index, count in buckets:
        counts[(table[hdr_index] >> down) - first] += count
    return ExponentialBuckets(scale - down, first, tuple(counts), zero_count)


@cache
def _table_of(scale: int) -> array[int]:
    """Return the exponential bucket of each HDR bucket's middle; entry 0, for zero, is unused."""
    return array(
        "i",
        [0, *(_index_of(middle_value_of(index), scale) for index in range(1, _HDR_BUCKETS))],
    )


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
