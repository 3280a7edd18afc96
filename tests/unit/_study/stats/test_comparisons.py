"""Tests of a change: their false alarms, what they find, and exact small cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from latspan._study.stats import (
    WeightedSample,
    _bootstrap,
    bootstrap_ratio,
    compare_runs,
    holm,
    permutation,
    runs_needed,
)
from latspan._study.stats._bootstrap import _expanded  # pyright: ignore[reportPrivateUsage]

Values = NDArray[np.float64]


def latencies(random: np.random.Generator, count: int, factor: float = 1.0) -> Values:
    """Return lognormal latencies, one in twenty of which is three times as slow."""
    values = random.lognormal(0, 0.5, count)
    values[random.random(count) < 0.05] *= 3
    return factor * values


def similar(random: np.random.Generator, count: int) -> Values:
    """Return latencies of which neighbours are correlated by 0.8, as behind a queue."""
    noise = random.normal(0, math.sqrt(1 - 0.8**2), count)
    level = np.empty(count)
    level[0] = random.normal()
    for index in range(1, count):
        level[index] = 0.8 * level[index - 1] + noise[index]
    return np.exp(0.5 * level)


@pytest.mark.repetitive
@pytest.mark.parametrize("percentile", [50, 95])
def test_a_bootstrap_of_blocks_holds_its_error_with_correlated_requests(percentile: float) -> None:
    """At most 10 % of 120 pairs without a change, where single draws would find 30 to 45 %."""
    random = np.random.default_rng(7)
    alarms = 0
    for _ in range(120):
        found = bootstrap_ratio(
            WeightedSample.of(similar(random, 1000)),
            WeightedSample.of(similar(random, 1000)),
            percentile,
        )
        assert found is not None
        alarms += not found.low <= 1 <= found.high
    assert alarms / 120 <= 0.1


@pytest.mark.parametrize("percentile", [50, 95, 99])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_large_measurement_has_the_interval_of_drawn_blocks(
    percentile: float, is_weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fractions are drawn instead of its requests; an end varies by a tenth."""
    random = np.random.default_rng(11)

    def sample() -> WeightedSample:
        values = similar(random, 20_000)
        if not is_weighted:
            return WeightedSample.of(values)
        weights = np.where(random.random(len(values)) < 0.5, 1.0, 4.0)
        return WeightedSample.of(values, weights=weights, failed_weights=np.empty(0))

    before, after = sample(), sample()
    large = bootstrap_ratio(before, after, percentile)
    monkeypatch.setattr(_bootstrap, "_LARGE", math.inf)
    drawn = bootstrap_ratio(before, after, percentile)

    assert large is not None
    assert drawn is not None
    assert large.ratio == drawn.ratio
    width = math.log(drawn.high / drawn.low)
    assert math.log(large.high / large.low) == pytest.approx(width, rel=0.2)
    assert math.log(large.low / drawn.low) == pytest.approx(0, abs=0.2 * width)


def test_a_slow_tail_is_found_at_its_percentile() -> None:
    """The worst 5 % of 1,000 become twice as slow; the median stays."""
    random = np.random.default_rng(8)
    found = {50: 0, 99: 0}
    for _ in range(40):
        before, after = latencies(random, 1000), latencies(random, 1000)
        after[after > np.quantile(after, 0.95)] *= 2
        for percentile in found:
            ratio = bootstrap_ratio(WeightedSample.of(before), WeightedSample.of(after), percentile)
            assert ratio is not None
            found[percentile] += ratio.low > 1
    assert found[99] >= 36
    assert found[50] <= 5


def test_a_histogram_gives_nearly_the_interval_of_its_values() -> None:
    """Both are intervals of independent requests; their ends differ by a few percent."""
    random = np.random.default_rng(9)
    before, after = (
        WeightedSample.of(latencies(random, 1000)),
        WeightedSample.of(latencies(random, 1000)),
    )
    single = bootstrap_ratio(before, after, 95)
    counts = bootstrap_ratio(
        WeightedSample(before.values, before.counts), WeightedSample(after.values, after.counts), 95
    )
    assert single is not None
    assert counts is not None
    assert counts == pytest.approx(single, rel=0.06)


def test_a_ratio_needs_values_above_zero() -> None:
    """A segment that does not occur before has no ratio."""
    nothing, zeros, some = (
        WeightedSample.of(np.array(each)) for each in ([], [0.0] * 9, [1.0] * 9)
    )
    assert bootstrap_ratio(nothing, some, 50) is None
    assert bootstrap_ratio(zeros, some, 50) is None


def runs(random: np.random.Generator, count: int, percentile: float, factor: float) -> list[float]:
    """Return the logarithm of a percentile of runs that differ by 5 % for outside reasons."""
    return [
        math.log(
            WeightedSample.of(
                latencies(random, 400, factor * math.exp(random.normal(0, 0.05)))
            ).quantile(percentile)
        )
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(("percentile", "found"), [(50, 0.9), (95, 0.65)])
def test_runs_hold_their_error_and_find_a_change(percentile: float, found: float) -> None:
    """Five runs per side: at most 8 % false alarms of 300, and +20 % is found."""
    random = np.random.default_rng(10)
    alarms = slower = 0
    for _ in range(300):
        base = runs(random, 5, percentile, 1)
        for factor in (1.0, 1.2):
            test = compare_runs(base, runs(random, 5, percentile, factor))
            assert test is not None
            low, high = test.interval()
            if factor == 1:
                alarms += not low <= 0 <= high
            else:
                slower += low > 0
    assert alarms / 300 <= 0.08
    assert slower / 300 >= found


def test_a_single_run_is_compared_with_the_variation_of_the_others() -> None:
    """The interval is that of a prediction: wider than that of two means."""
    base = [0.0, 0.1, -0.1, 0.05, -0.05]
    one = compare_runs(base, [0.3])
    five = compare_runs(base, [0.3 + value for value in base])
    assert one is not None
    assert five is not None
    assert one.freedom == 4
    assert one.interval()[0] < five.interval()[0]
    assert one.difference == pytest.approx(0.3)


def test_welch_is_the_textbooks() -> None:
    """Example with unequal variances, worked by hand."""
    test = compare_runs([1.0, 2.0, 3.0], [4.0, 8.0, 12.0, 16.0])
    assert test is not None
    assert test.difference == pytest.approx(8.0)
    assert test.error == pytest.approx(math.sqrt(1 / 3 + (80 / 3) / 4))
    assert test.freedom == pytest.approx(7**2 / ((1 / 3) ** 2 / 2 + (20 / 3) ** 2 / 3))
    assert test.above(0) + test.below(0) == pytest.approx(1)


def test_two_runs_show_no_variation() -> None:
    """One per side cannot be tested; nor can a percentile that is infinite."""
    assert compare_runs([1.0], [2.0]) is None
    assert compare_runs([1.0, math.inf], [2.0, 2.0]) is None


def test_equal_runs_differ_with_certainty_or_not_at_all() -> None:
    """A scripted system has no variation."""
    test = compare_runs([1.0, 1.0], [2.0, 2.0])
    assert test is not None
    assert test.interval() == (1.0, 1.0)
    assert (test.above(0), test.below(0)) == (0.0, 1.0)


def test_a_permutation_tries_every_division() -> None:
    """Total separation of three and three is one of ten divisions on each side."""
    assert permutation([1, 2, 3], [4, 5, 6]) == pytest.approx(0.1)
    assert permutation([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert permutation([1, 4], [2, 3]) == 1
    assert permutation([1] * 7, [2] * 7) is None


def test_holm_raises_the_smallest_most() -> None:
    """And never reverses the order."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx((0.03, 0.06, 0.06))
    assert holm([0.5, 0.6]) == (1.0, 1.0)
    assert holm([]) == ()


def test_more_noise_and_a_smaller_margin_need_more_runs() -> None:
    """With 5 % noise, three runs per side find a margin of 20 %."""
    needed = [runs_needed(0.05, math.log(margin)) for margin in (1.2, 1.1, 1.05)]
    assert needed[0] == 3
    assert needed[1] is not None
    assert needed[2] is not None
    assert needed[0] < needed[1] < needed[2]
    assert runs_needed(0.05, 0.0) is None
    assert runs_needed(1.0, 0.01) is None


def test_few_blocks_need_an_interval_further_outside() -> None:
    """With 8 blocks, 0.6 % of the draws are beyond each end; with many, the nominal 2.5 %."""
    assert _expanded(0.95, 8) == pytest.approx(0.0057, abs=0.0001)
    assert _expanded(0.95, 100_000) == pytest.approx(0.025, abs=0.0001)
