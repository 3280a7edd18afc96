"""Harrell-Davis quantiles of values and of histograms."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from latspan._study.stats import WeightedSample, bootstrap_ratio, needed_to_compare
from latspan.histogram import Histogram
from latspan.histogram._buckets import middle_value_of

RANDOM = np.random.default_rng(1)
VALUES = RANDOM.lognormal(19, 0.5, 2000).round()


def test_it_is_a_weighted_mean_of_the_order_statistics() -> None:
    """With two values, both have the same weight in the median: the beta density is symmetric."""
    assert WeightedSample.of(np.array([4.0, 2.0])).quantile(50) == pytest.approx(3.0)
    assert WeightedSample.of(np.full(50, 7.0)).quantile(99) == pytest.approx(7.0)


@pytest.mark.parametrize("percentile", [50, 90, 95, 99])
def test_it_is_near_the_true_percentile(percentile: float) -> None:
    """2,000 lognormal values, within 6 %."""
    z = {50.0: 0.0, 90.0: 1.28155, 95.0: 1.64485, 99.0: 2.32635}[percentile]
    assert WeightedSample.of(VALUES).quantile(percentile) == pytest.approx(
        math.exp(19 + 0.5 * z), rel=0.06
    )


@pytest.mark.parametrize("percentile", [50, 95, 99])
def test_a_histogram_gives_the_same_up_to_the_width_of_its_buckets(percentile: float) -> None:
    """Three significant digits are at most 0.1 %."""
    histogram = Histogram()
    histogram.record_many([int(value) for value in VALUES])
    counts = WeightedSample.of_counts((middle_value_of(index), count) for index, count in histogram)
    single = WeightedSample.of(VALUES)
    assert counts.count == single.count == 2000
    assert counts.quantile(percentile) == pytest.approx(single.quantile(percentile), rel=1e-3)


def test_a_very_large_histogram_needs_no_table_of_weights() -> None:
    """Ten million values in three buckets."""
    sample = WeightedSample.of_counts([(1.0, 5_000_000), (2.0, 4_900_000), (9.0, 100_000)])
    assert sample.quantile(95) == pytest.approx(2.0)
    assert sample.quantile(99.5) == pytest.approx(9.0)


def test_failed_requests_are_slower_than_every_other_one() -> None:
    """A percentile that falls on them is infinite; below, they push it up."""
    values = np.arange(1.0, 97.0)
    assert WeightedSample.of(values, failed=4).quantile(99) == math.inf
    assert (
        WeightedSample.of(values).quantile(95)
        < WeightedSample.of(values, failed=4).quantile(95)
        <= 96
    )
    assert WeightedSample.of(values, failed=4).above(90) == 10


def test_without_a_value_there_is_no_quantile() -> None:
    """It is not zero."""
    assert math.isnan(WeightedSample.of(np.empty(0)).quantile(50))


@pytest.mark.parametrize(("percentile", "needed"), [(50, 100), (95, 100), (99, 200), (99.9, 2000)])
def test_a_comparison_needs_values_beyond_the_percentile(percentile: float, needed: int) -> None:
    """At least two on each side."""
    assert needed_to_compare(percentile) == needed


def test_a_ratio_of_values_that_are_mostly_0_has_an_interval() -> None:
    """In a draw, both percentiles may be 0: then they are equal."""
    before, after = (WeightedSample.of(np.array([0.0, 0.0, value])) for value in (4.0, 8.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bootstrap_ratio(before, after, 95)
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert 0 <= found.low <= 1 <= found.high
