"""
Arithmetic of HDR buckets: the index of a value or of many, and the values of a bucket.

From 1024 on, a bucket's width is at most 1/1024 of any value in it: three significant digits. Below
2048 every integer has its own bucket, 0 included. This module does not handle counts.

Source: HdrHistogram, ``countsArrayIndex`` for a lowest discernible value of 1 and three digits.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from latspan._base.nanoseconds import NS_PER_S

HIGHEST_NS: Final = 24 * 3600 * NS_PER_S
"""Highest value that is recorded without clamping: 24 hours."""

SUB_BUCKETS: Final = 2048
"""Number of buckets of width 1; each further doubling of the value has half as many buckets."""

HALF_MAGNITUDE: Final = 10
"""Base-2 logarithm of half the number of sub-buckets."""

_MANTISSA_BITS: Final = 52
_BIAS: Final = 1023


def index_of(value_ns: int) -> int:
    """
    Return the index of the bucket that holds ``value_ns``.

    Args:
        value_ns: At least 0.

    Returns:
        At least 0; it increases with the value.

    Source: HdrHistogram, ``AbstractHistogram.countsArrayIndex``.
    """
    shift = max(value_ns.bit_length() - HALF_MAGNITUDE - 1, 0)
    return (shift << HALF_MAGNITUDE) + (value_ns >> shift)


def indices_of(values: Sequence[int], lowest_ns: int) -> Sequence[int]:
    """
    Return the bucket index of each value, in order.

    Args:
        values: At least 0 each.
        lowest_ns: The smallest of them.
    """
    if lowest_ns < SUB_BUCKETS:
        return [index_of(value) for value in values]
    # `index_of` is inlined, because the calls would take longer than everything else.
    half, whole = HALF_MAGNITUDE, HALF_MAGNITUDE + 1
    return [((shift := value.bit_length() - whole) << half) + (value >> shift) for value in values]


def vector_of_indices(numpy: Any, values: Any, lowest_ns: int) -> Any:
    """
    Return the bucket indices as a numpy array, taken from the bits of the values as doubles.

    A double represents every integer up to 2**53. From 1024 on, its exponent and the first ten bits
    of its mantissa equal the bucket's index plus a constant.

    Args:
        numpy: The module ``numpy``.
        values: Array of integers, each at least 0 and at most 2**53.
        lowest_ns: The smallest of them.
    """
    indices = values.astype(numpy.float64).view(numpy.int64)
    indices >>= _MANTISSA_BITS - HALF_MAGNITUDE
    indices -= (_BIAS + HALF_MAGNITUDE - 1) << HALF_MAGNITUDE
    return (
        numpy.where(values < SUB_BUCKETS, values, indices) if lowest_ns < SUB_BUCKETS else indices
    )


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
    # For callers that need the values of many buckets: a lookup takes a tenth of the calculation.
    return array("Q", map(lowest_value_of, range(index_of(HIGHEST_NS) + 1)))


def _shift_of(index: int) -> int:
    """Return the base-2 logarithm of the bucket's width."""
    return max((index >> HALF_MAGNITUDE) - 1, 0)
