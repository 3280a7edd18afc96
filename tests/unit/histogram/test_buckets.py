"""The bucket arithmetic is that of HdrHistogram."""

from __future__ import annotations

from typing import Protocol

from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from latspan.histogram._buckets import (
    HIGHEST_NS,
    highest_value_of,
    index_of,
    lowest_value_of,
    middle_value_of,
)


class Reference(Protocol):
    """What is asked of the reference implementation, which has no types."""

    def get_lowest_equivalent_value(self, value: int) -> int:
        """Return the lowest value of the bucket."""
        ...

    def get_highest_equivalent_value(self, value: int) -> int:
        """Return the highest value of the bucket."""
        ...

    def get_value_from_index(self, index: int) -> int:
        """Return the lowest value of the bucket of that index."""
        ...


HDR: Reference = HdrHistogram(1, HIGHEST_NS, 3)

values = st.integers(0, HIGHEST_NS) | st.integers(0, 47).map(
    lambda power: min(2**power, HIGHEST_NS)
)


@given(values)
def test_a_bucket_is_what_hdrhistogram_calls_equivalent_values(value: int) -> None:
    """Lowest, highest and first value of a bucket agree with the reference implementation."""
    index = index_of(value)

    assert HDR.get_lowest_equivalent_value(value) == lowest_value_of(index)
    assert HDR.get_highest_equivalent_value(value) == highest_value_of(index)
    assert HDR.get_value_from_index(index) == lowest_value_of(index)


@given(values)
def test_a_value_lies_in_its_bucket(value: int) -> None:
    """Every value is within the bounds of the bucket it is counted in, and so is the middle."""
    index = index_of(value)

    assert lowest_value_of(index) <= value <= highest_value_of(index)
    assert lowest_value_of(index) <= middle_value_of(index) <= highest_value_of(index)


@given(st.integers(0, index_of(HIGHEST_NS) - 1))
def test_buckets_leave_no_gap(index: int) -> None:
    """Each bucket begins right after the one before it."""
    assert highest_value_of(index) + 1 == lowest_value_of(index + 1)


@given(values)
def test_a_bucket_is_three_digits_wide(value: int) -> None:
    """No bucket is wider than 1/1024 of a value in it."""
    index = index_of(value)

    assert highest_value_of(index) - lowest_value_of(index) <= value / 1024


def test_zero_has_a_bucket_of_its_own() -> None:
    """Nothing but 0 shares the bucket of 0."""
    assert (lowest_value_of(0), middle_value_of(0), highest_value_of(0)) == (0, 0, 0)
    assert index_of(1) == 1
