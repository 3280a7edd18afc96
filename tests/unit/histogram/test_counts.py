"""Counts are the same in either form, by loop and by numpy."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of
from latspan.histogram._numpy import PAYS_FROM

numpy = pytest.importorskip("numpy")

VALUES = st.integers(0, 3_000) | st.integers(0, HIGHEST_NS) | st.integers(40_000_000, 60_000_000)
BATCHES = st.lists(st.lists(VALUES, max_size=400), max_size=12)


@pytest.fixture(params=["loops", "numpy"], scope="module")
def _arithmetic(request: pytest.FixtureRequest) -> Iterator[None]:
    """As in a process that has loaded numpy, and as in one that has not."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "loops":
            patch.delitem(sys.modules, "numpy")
        yield


@pytest.mark.usefixtures("_arithmetic")
@given(BATCHES)
def test_every_value_is_counted_in_its_bucket(batches: list[list[int]]) -> None:
    """However many come at a time, and whether they are few or many in all."""
    histogram = Histogram()
    for batch in batches:
        histogram.record_many(batch)
    values = [value for batch in batches for value in batch]

    assert sorted(Counter(map(index_of, values)).items()) == list(histogram)
    assert sum(values) == histogram.sum_ns


@pytest.mark.usefixtures("_arithmetic")
@given(BATCHES, BATCHES)
def test_merging_counts_what_both_counted(ours: list[list[int]], theirs: list[list[int]]) -> None:
    """Whichever form either of them has."""
    mine, other, whole = Histogram(), Histogram(), Histogram()
    for histogram, batches in ((mine, ours), (other, theirs), (whole, ours + theirs)):
        for batch in batches:
            histogram.record_many(batch)

    mine.merge(other)

    assert whole == mine


@pytest.mark.parametrize("count", [PAYS_FROM, 70_000])
def test_large_batches_have_an_exact_sum(count: int) -> None:
    """A sum of many days in nanoseconds is more than 64 bits hold."""
    histogram = Histogram()

    histogram.record_many([HIGHEST_NS] * count)

    assert (count, count * HIGHEST_NS) == (histogram.count, histogram.sum_ns)


def test_few_values_of_a_wide_range_take_little_memory() -> None:
    """A thousand values between 1 µs and a day: two bytes each, not a counter for every bucket."""
    histogram = Histogram()
    histogram.record_many([1_000 * 2 ** (number % 36) + number for number in range(1_000)])

    counts = histogram._counts  # pyright: ignore[reportPrivateUsage]

    assert sum(map(sys.getsizeof, (counts._hits, counts._counters))) < 2_400  # pyright: ignore[reportPrivateUsage]


def test_adding_up_many_takes_no_more_than_one_of_all() -> None:
    """Files of a fleet hold millions of values: they are not kept as a list of them."""
    part, whole = Histogram(), Histogram()
    part.record_many(range(1_000_000, 1_100_000, 100))
    for _ in range(200):
        whole.merge(part)

    counts = whole._counts  # pyright: ignore[reportPrivateUsage]

    assert sum(map(sys.getsizeof, (counts._hits, counts._counters))) < 100_000  # pyright: ignore[reportPrivateUsage]
    assert whole.count == 200_000
