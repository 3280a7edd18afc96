"""Bucket indices of many values, without a function call per value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from latspan.histogram._buckets import HALF_MAGNITUDE, SUB_BUCKETS, index_of

__all__ = ["indices_of", "vector_of_indices"]

_MANTISSA_BITS: Final = 52
_BIAS: Final = 1023


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

    A double represents every integer up to 2**53. Above 1024, its exponent and the first ten bits
    of its mantissa equal the bucket's index plus a constant.
    """
    indices = values.astype(numpy.float64).view(numpy.int64)
    indices >>= _MANTISSA_BITS - HALF_MAGNITUDE
    indices -= (_BIAS + HALF_MAGNITUDE - 1) << HALF_MAGNITUDE
    return (
        numpy.where(values < SUB_BUCKETS, values, indices) if lowest_ns < SUB_BUCKETS else indices
    )
