"""
The arithmetic from HDR buckets to base-2 exponential ones, in seconds.

At scale ``s`` bucket ``i`` holds the values in ``(base**i, base**(i + 1)]`` with
``base = 2**(2**-s)``.

Source: OpenTelemetry metrics data model, "ExponentialHistogram".
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from latspan.errors import ConfigError
from latspan.histogram import Histogram, middle_value_of
from latspan.units import to_seconds

__all__ = [
    "DEFAULT_MAX_BUCKETS",
    "DEFAULT_SCALE",
    "ExponentialBuckets",
    "check_resolution",
    "exponential_buckets",
]

DEFAULT_SCALE: Final = 8
"""The finest scale that Prometheus keeps: a bucket is 0.27 % wide, its middle 0.135 % off."""

DEFAULT_MAX_BUCKETS: Final = 4096
"""At scale 8 enough for values that span a factor of 65,536, for example 1 ms to 65 s."""

_SCALES: Final = range(-10, 21)


@dataclass(frozen=True, slots=True)
class ExponentialBuckets:
    """
    Counts of values in seconds, in exponential buckets.

    Args:
        scale: Each scale less doubles the buckets' width, as a power.
        offset: The index of the first bucket.
        counts: One a bucket, from the first occupied to the last; empty where all values are 0.
        zero_count: How many values are 0.
    """

    scale: int
    offset: int
    counts: tuple[int, ...]
    zero_count: int


def check_resolution(scale: int, max_buckets: int) -> None:
    """
    Refuse a resolution that :func:`exponential_buckets` cannot give.

    Raises:
        ConfigError: ``scale`` is outside [-10, 20], or ``max_buckets`` less than 2.
    """
    if scale not in _SCALES:
        raise ConfigError(f"the scale {scale} does not exist", hint="it lies in [-10, 20]")
    if max_buckets < 2:
        # A value below 1 s and one above it share no bucket at any scale.
        raise ConfigError(f"{max_buckets} buckets are too few", hint="allow at least 2")


def exponential_buckets(
    histogram: Histogram, *, scale: int = DEFAULT_SCALE, max_buckets: int = DEFAULT_MAX_BUCKETS
) -> ExponentialBuckets:
    """
    Return the histogram's counts in exponential buckets.

    Args:
        histogram: Of nanoseconds.
        scale: In [-10, 20]; the finest that is wanted.
        max_buckets: At least 2. Where the occupied buckets and those between them are more, the
            scale is lowered until they are not.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of its range.
    """
    check_resolution(scale, max_buckets)
    zero_count = 0
    counts: Counter[int] = Counter()
    for hdr_index, count in histogram:
        if hdr_index == 0:
            zero_count = count
        else:
            # The outermost buckets' middles may lie beyond the exact extremes.
            middle_ns = min(max(middle_value_of(hdr_index), histogram.min_ns), histogram.max_ns)
            counts[_index_of(to_seconds(middle_ns), scale)] += count
    if not counts:
        return ExponentialBuckets(scale, 0, (), zero_count)
    down = _scales_too_fine(min(counts), max(counts), max_buckets)
    first, last = min(counts) >> down, max(counts) >> down
    dense = [0] * (last - first + 1)
    for index, count in counts.items():
        dense[(index >> down) - first] += count
    return ExponentialBuckets(scale - down, first, tuple(dense), zero_count)


def _index_of(value_s: float, scale: int) -> int:
    return math.ceil(math.ldexp(math.log2(value_s), scale)) - 1


def _scales_too_fine(first: int, last: int, max_buckets: int) -> int:
    """Return by how much to lower the scale; one less halves every index, rounding down."""
    down = 0
    while (last >> down) - (first >> down) >= max_buckets:
        down += 1
    return down
