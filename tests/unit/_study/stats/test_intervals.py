"""Intervals of percentiles and ratios."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._study.stats import (
    at_least,
    at_most,
    percentile_ranks,
    values_needed_for_interval,
    wilson_interval,
)
from latspan.errors import ConfigError

PERCENTILES = [1, 5, 50, 90, 95, 99, 99.9]


@pytest.mark.parametrize(("percentile", "needed"), [(50, 6), (95, 72), (99, 368)])
def test_an_interval_exists_from_a_known_number_of_values_on(
    percentile: float, needed: int
) -> None:
    """With fewer values no interval of 95 % exists, and none is made up."""
    assert values_needed_for_interval(percentile) == needed
    assert percentile_ranks(needed - 1, percentile) is None
    assert percentile_ranks(needed, percentile) is not None


def test_known_ranks_of_a_median() -> None:
    """The sign test's table: for 20 values the 6th and the 15th."""
    assert percentile_ranks(20, 50) == (6, 15)
    assert percentile_ranks(6, 50) == (1, 6)


@given(st.integers(0, 3_000), st.sampled_from(PERCENTILES), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_ranks_hold_their_level_and_are_the_tightest(
    count: int, percentile: float, confidence: float
) -> None:
    """Each side errs at most as often as allowed, and the next rank inwards errs more often."""
    ranks = percentile_ranks(count, percentile, confidence=confidence)
    side = (1 - confidence) / 2
    below = percentile / 100
    needed = values_needed_for_interval(percentile, confidence=confidence)

    assert (ranks is not None) == (count >= needed)
    if ranks is not None:
        low, high = ranks
        assert 1 <= low < high <= count
        assert at_most(low - 1, count, below) <= side < at_most(low, count, below)
        assert at_least(high, count, below) <= side < at_least(high - 1, count, below)


@pytest.mark.parametrize(
    ("successes", "trials", "expected"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    [
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_published_intervals_of_a_ratio(
    successes: int, trials: int, expected: tuple[float, float]
) -> None:
    """To the four decimals that were published."""
    interval = wilson_interval(successes, trials)

    assert interval is not None
    assert tuple(round(each, 4) for each in interval) == expected


@given(st.data(), st.integers(1, 10**6))
def test_an_interval_of_a_ratio_contains_it_and_is_symmetric(
    data: st.DataObject, trials: int
) -> None:
    """The interval of the failures mirrors that of the successes."""
    successes = data.draw(st.integers(0, trials))
    interval = wilson_interval(successes, trials)
    mirrored = wilson_interval(trials - successes, trials)

    assert interval is not None
    assert mirrored is not None
    assert 0 <= interval.low <= successes / trials <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirrored.high, abs=1e-12)


def test_no_trial_has_no_interval() -> None:
    """Nothing is known, so nothing is returned."""
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(2, 1, 0.95), (1, 2, 1.0)])
def test_impossible_numbers_are_refused(successes: int, trials: int, confidence: float) -> None:
    """An error, not an interval."""
    with pytest.raises(ConfigError):
        wilson_interval(successes, trials, confidence=confidence)
