"""Batches of values, checked for integers and range, with their exact sum and extremes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from operator import index
from typing import Any, Final, NamedTuple

from latspan.errors import InvalidValueError
from latspan.histogram._buckets import HIGHEST_NS
from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

_MAX_BATCH: Final = 1 << 16
"""Maximum number of values per batch, so that a sum of values of 24 hours fits into 64 bits."""


class Batch(NamedTuple):
    """
    Values that can be counted without further checks.

    Args:
        values: Integers in [0, 24 h], in any order.
        sum_ns: The exact sum of the values.
        lowest_ns: The smallest value; not meaningful if there are no values.
        highest_ns: The largest value; not meaningful if there are no values.
        rejected: Number of negative values, which are not in ``values``.
        clamped: Number of values above 24 hours, which were replaced by 24 hours.
        numpy: The numpy module if ``values`` is a numpy array; ``None`` for a list.
    """

    values: Any
    sum_ns: int
    lowest_ns: int
    highest_ns: int
    rejected: int = 0
    clamped: int = 0
    numpy: Any = None


def batches_of(values: Sequence[int]) -> list[Batch]:
    """
    Return the values as batches, in order.

    Args:
        values: At least one.

    Raises:
        InvalidValueError: A value is not an integer.
    """
    if len(values) <= _MAX_BATCH:
        return [_batch(values)]
    return [
        _batch(values[begin : begin + _MAX_BATCH]) for begin in range(0, len(values), _MAX_BATCH)
    ]


def _batch(values: Sequence[int]) -> Batch:
    numpy = loaded_numpy() if len(values) >= PAYS_FROM else None
    if numpy is not None:
        try:
            held = numpy.asarray(values)
        except ValueError:
            # Sequences of unequal length, for example.
            return _sorted_out(values)
        if held.dtype.kind == "i" and held.ndim == 1:
            # Faster than the methods `min`, `max` and `sum`, which do extra work around the same
            # reductions.
            lowest_ns = int(numpy.minimum.reduce(held))
            highest_ns = int(numpy.maximum.reduce(held))
            if lowest_ns >= 0 and highest_ns <= HIGHEST_NS:
                sum_ns = int(numpy.add.reduce(held))
                return Batch(held, sum_ns, lowest_ns, highest_ns, numpy=numpy)
        return _sorted_out(values)
    if isinstance(values, array):
        # An array creates a new integer object on each access; the list creates them once.
        values = values.tolist()
    try:
        sum_ns = sum(values)
        # The sum is an integer only if all values are integers.
        if type(sum_ns) is int:
            lowest_ns, highest_ns = min(values), max(values)
            if lowest_ns >= 0 and highest_ns <= HIGHEST_NS:
                return Batch(values, sum_ns, lowest_ns, highest_ns)
    except TypeError:
        pass
    return _sorted_out(values)


def _sorted_out(values: Sequence[object]) -> Batch:
    """Return a batch after checking each value, with negative and too large values handled."""
    integers = [_integer(value) for value in values]
    held = [min(value, HIGHEST_NS) for value in integers if value >= 0]
    return Batch(
        held,
        sum(held),
        min(held, default=HIGHEST_NS),
        max(held, default=0),
        rejected=len(integers) - len(held),
        clamped=sum(value > HIGHEST_NS for value in integers),
    )


def _integer(value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise InvalidValueError(
            f"a histogram holds integers, not {value!r}",
            hint="times are whole nanoseconds: round(seconds * 1e9)",
        ) from None
