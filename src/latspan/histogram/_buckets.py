"""
The arithmetic of HDR buckets: which bucket a value falls into, and what a bucket stands for.

A bucket's width is at most 1/1024 of any value in it: three significant digits. Below 2048 every
integer has a bucket of its own, 0 included. Nothing here knows counts.

Source: HdrHistogram, ``countsArrayIndex`` for a lowest discernible value of 1 and three digits.
"""

from __future__ import annotations

from array import array
from functools import cache
from typing import Final

from latspan._units import NS_PER_S

__all__ = [
    "HALF_MAGNITUDE",
    "HIGHEST_NS",
    "SUB_BUCKETS",
    "highest_value_of",
    "index_of",
    "lowest_value_of",
    "lowest_values",
    "middle_value_of",
]

HIGHEST_NS: Final = 24 * 3600 * NS_PER_S
"""The highest value that is told apart: 24 hours."""

SUB_BUCKETS: Final = 2048
"""Buckets of width 1; every doubling of the value after them has half as many."""

HALF_MAGNITUDE: Final = 10
"""The power of two that half of the sub-buckets are."""


def index_of(value_ns: int) -> int:
    """
    Return the index of the bucket that holds ``value_ns``.

    Args:
        value_ns: At least 0.

    Returns:
        At least 0, and growing with the value.

    Source: HdrHistogram, ``AbstractHistogram.countsArrayIndex``.
    """
    shift = max(value_ns.bit_length() - HALF_MAGNITUDE - 1, 0)
    return (shift << HALF_MAGNITUDE) + (value_ns >> shift)


def lowest_value_of(index: int) -> int:
    """Return the lowest value that falls into the bucket, in nanoseconds."""
    shift = _shift_of(index)
    return (index - (shift << HALF_MAGNITUDE)) << shift


def highest_value_of(index: int) -> int:
    """Return the highest value that falls into the bucket, in nanoseconds."""
    return lowest_value_of(index) + (1 << _shift_of(index)) - 1


def middle_value_of(index: int) -> int:
    """
    Return the value in the middle of the bucket, in nanoseconds rounded up.

    Source: HdrHistogram, ``AbstractHistogram.medianEquivalentValue``.
    """
    return lowest_value_of(index) + ((1 << _shift_of(index)) >> 1)


@cache
def lowest_values() -> array[int]:
    """Return the lowest value of every bucket."""
    # For whoever needs those of many buckets: to look one up takes a tenth of calculating it.
    return array("Q", map(lowest_value_of, range(index_of(HIGHEST_NS) + 1)))


def _shift_of(index: int) -> int:
    """Return the power of two that the bucket is wide."""
    return max((index >> HALF_MAGNITUDE) - 1, 0)
