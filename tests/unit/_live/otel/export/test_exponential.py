"""Exponential buckets hold what the histogram holds, at the resolution that was asked for."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export._exponential import ExponentialBuckets, exponential_buckets
from latspan.errors import ConfigError
from latspan.histogram import Histogram, values_needed
from latspan.histogram._buckets import HIGHEST_NS

durations = st.lists(st.integers(0, HIGHEST_NS) | st.integers(0, 5_000), min_size=1)


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def bounds_s(buckets: ExponentialBuckets, position: int) -> tuple[float, float]:
    """Return the bounds of a bucket in seconds, by its place among the counts."""
    width = 2.0**-buckets.scale
    index = buckets.offset + position
    return 2.0 ** (index * width), 2.0 ** ((index + 1) * width)


def quantile_s(buckets: ExponentialBuckets, percentile: float) -> float:
    """Return the middle of the bucket that holds the percentile, as a backend would."""
    total = buckets.zero_count + sum(buckets.counts)
    rank = math.ceil(total * percentile / 100) - buckets.zero_count
    for position, count in enumerate(buckets.counts):
        rank -= count
        if rank <= 0:
            return math.sqrt(math.prod(bounds_s(buckets, position)))
    raise AssertionError(percentile)


@pytest.mark.parametrize("percentile", [50, 90, 95, 99, 99.5])
@pytest.mark.parametrize("median_s", [0.000_02, 0.4, 700])
def test_percentiles_stay_within_three_per_mille(percentile: float, median_s: float) -> None:
    """What a backend reads from scale 8 differs from the snapshot's by 0.3 % at most."""
    source = random.Random(20_240_501)  # noqa: S311 - reproducible data, no secret
    assert values_needed(percentile) <= 10_000
    histogram = histogram_of(
        [round(source.lognormvariate(math.log(median_s), 0.5) * NS_PER_S) for _ in range(10_000)]
    )

    buckets = exponential_buckets(histogram)

    assert buckets.scale == 8
    assert quantile_s(buckets, percentile) == pytest.approx(
        histogram.value_at_percentile(percentile) / NS_PER_S, rel=0.003
    )


@given(durations, st.integers(-4, 12), st.integers(2, 300))
def test_no_count_is_lost(values: list[int], scale: int, max_buckets: int) -> None:
    """Whatever the scale, every value is in a bucket, and 0 in its own."""
    buckets = exponential_buckets(histogram_of(values), scale=scale, max_buckets=max_buckets)

    assert len(values) == buckets.zero_count + sum(buckets.counts)
    assert values.count(0) == buckets.zero_count
    assert len(buckets.counts) <= max_buckets
    assert buckets.scale <= scale


@given(st.lists(st.integers(1, HIGHEST_NS), min_size=1))
def test_the_first_and_last_bucket_hold_the_extremes(values: list[int]) -> None:
    """They are occupied, and the smallest and the largest value lie within their bounds."""
    buckets = exponential_buckets(histogram_of(values), max_buckets=20_000)
    first, last = bounds_s(buckets, 0), bounds_s(buckets, len(buckets.counts) - 1)

    # An HDR bucket, taken as its middle, may reach 1/2048 over a bound.
    assert first[0] * (1 - 1 / 1024) <= min(values) / NS_PER_S <= first[1] * (1 + 1 / 1024)
    assert last[0] * (1 - 1 / 1024) <= max(values) / NS_PER_S <= last[1] * (1 + 1 / 1024)
    assert buckets.counts[0] > 0
    assert buckets.counts[-1] > 0


@given(st.lists(st.integers(1, HIGHEST_NS), min_size=1), st.integers(-4, 12))
def test_the_exported_extremes_are_in_the_outermost_buckets(values: list[int], scale: int) -> None:
    """They are moved by a thousandth at most; receivers expect them there."""
    buckets = exponential_buckets(histogram_of(values), scale=scale, max_buckets=20_000)
    first, last = bounds_s(buckets, 0), bounds_s(buckets, len(buckets.counts) - 1)
    least, most = min(values) / NS_PER_S, max(values) / NS_PER_S

    exported = buckets.inside(least, last=False), buckets.inside(most, last=True)

    assert first[0] <= exported[0] <= first[1]
    assert last[0] <= exported[1] <= last[1]
    assert exported == pytest.approx((least, most), rel=1e-3)


def test_an_extreme_of_zero_is_in_no_bucket() -> None:
    """Zeros have a count of their own."""
    buckets = exponential_buckets(histogram_of([0, NS_PER_S]))

    assert buckets.inside(0.0, last=False) == 0
    assert exponential_buckets(histogram_of([0])).inside(0.0, last=True) == 0


@given(durations, st.integers(2, 300))
def test_a_lowered_scale_merges_pairs_of_buckets(values: list[int], max_buckets: int) -> None:
    """Fewer buckets are what the wanted scale's become when every two neighbours are added."""
    fine = exponential_buckets(histogram_of(values), max_buckets=50_000)
    coarse = exponential_buckets(histogram_of(values), max_buckets=max_buckets)

    down = fine.scale - coarse.scale
    expected: dict[int, int] = {}
    for position, count in enumerate(fine.counts):
        if count:
            index = (fine.offset + position) // 2**down
            expected[index] = expected.get(index, 0) + count

    assert expected == {
        coarse.offset + position: count for position, count in enumerate(coarse.counts) if count
    }


@given(durations, st.integers(2, 300))
def test_the_scale_is_lowered_no_further_than_needed(values: list[int], max_buckets: int) -> None:
    """One scale finer, the buckets would be too many."""
    coarse = exponential_buckets(histogram_of(values), max_buckets=max_buckets)

    if coarse.scale < 8:
        finer = exponential_buckets(
            histogram_of(values), scale=coarse.scale + 1, max_buckets=50_000
        )
        assert len(finer.counts) > max_buckets


@given(durations, durations, st.integers(-10, 10))
def test_no_count_of_a_cumulative_series_ever_falls(
    before: list[int], later: list[int], scale: int
) -> None:
    """More values only add to buckets; a count that fell would read as a restart."""
    histogram = histogram_of(before)
    first = by_index(exponential_buckets(histogram, scale=scale, max_buckets=1 << 20))
    histogram.record_many(later)
    second = by_index(exponential_buckets(histogram, scale=scale, max_buckets=1 << 20))

    assert all(second[index] >= count for index, count in first.items())


def by_index(buckets: ExponentialBuckets) -> Counter[int]:
    return Counter(dict(enumerate(buckets.counts, buckets.offset)))


def test_zeros_alone_need_no_bucket() -> None:
    """They have the zero bucket."""
    assert ExponentialBuckets(8, 0, (), 2) == exponential_buckets(histogram_of([0, 0]))


@pytest.mark.parametrize(("scale", "max_buckets"), [(21, 160), (-11, 160), (8, 1)])
def test_an_impossible_resolution_is_refused(scale: int, max_buckets: int) -> None:
    """The specification has no such scale, and one bucket cannot hold both sides of a second."""
    with pytest.raises(ConfigError):
        exponential_buckets(Histogram(), scale=scale, max_buckets=max_buckets)
