"""Explicit buckets hold what the histogram holds, each value always in the same one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export._conversion import explicit_counts
from latspan.histogram import Histogram

BOUNDS = (0.01, 0.02, 0.04, 5.12)
TOKENS = tuple(4**k for k in range(14))
durations = st.lists(st.integers(0, 10 * NS_PER_S) | st.sampled_from([10_000_000, 20_000_000]))


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


@given(durations)
def test_a_value_is_between_its_bounds(values: list[int]) -> None:
    """But for those up to 1/1024 above a bound, which may count as below it."""
    counts = explicit_counts(histogram_of(values), BOUNDS, per_bound=NS_PER_S)

    at_most = [sum(counts[: number + 1]) for number in range(len(BOUNDS))]
    assert sum(counts) == len(values)
    for bound, held in zip(BOUNDS, at_most, strict=True):
        surely = sum(value <= bound * NS_PER_S for value in values)
        perhaps = sum(value <= bound * NS_PER_S * (1 + 1 / 1024) for value in values)
        assert surely <= held <= perhaps


@given(durations, durations)
def test_no_count_of_a_cumulative_series_ever_falls(before: list[int], later: list[int]) -> None:
    """More values only add to buckets; a count that fell would read as a restart."""
    histogram = histogram_of(before)
    first = explicit_counts(histogram, BOUNDS, per_bound=NS_PER_S)
    histogram.record_many(later)
    second = explicit_counts(histogram, BOUNDS, per_bound=NS_PER_S)

    assert all(more >= held for held, more in zip(first, second, strict=True))


def test_what_equals_a_bound_is_not_above_it() -> None:
    """Answers of exactly 4096 tokens, a common limit, are in the bucket that ends there."""
    counts = explicit_counts(histogram_of([4096] * 100 + [5000]), TOKENS)

    assert (counts[6], counts[7]) == (100, 1)
