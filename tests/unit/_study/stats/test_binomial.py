"""The binomial tails agree with the sum of exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._study.stats import at_least, at_most
from latspan._study.stats._binomial import fraction_above, fraction_below
from latspan.errors import ConfigError


def exact_at_most(successes: int, trials: int, probability: Fraction) -> Fraction:
    return sum(
        (
            comb(trials, each) * probability**each * (1 - probability) ** (trials - each)
            for each in range(min(successes, trials) + 1)
        ),
        Fraction(0),
    )


@given(st.data(), st.integers(1, 80), st.integers(1, 99))
def test_both_tails_are_those_of_exact_fractions(
    data: st.DataObject, trials: int, percent: int
) -> None:
    """Impossible numbers of successes included."""
    successes = data.draw(st.integers(-2, trials + 2))
    probability = Fraction(percent, 100)
    below = exact_at_most(successes, trials, probability)
    above = 1 - exact_at_most(successes - 1, trials, probability)

    assert at_most(successes, trials, float(probability)) == pytest.approx(
        float(below), rel=1e-11, abs=1e-13
    )
    assert at_least(successes, trials, float(probability)) == pytest.approx(
        float(above), rel=1e-11, abs=1e-13
    )


@pytest.mark.parametrize("trials", [10**4, 10**6, 10**8])
@pytest.mark.parametrize("probability", [0.001, 0.05, 0.5])
def test_the_tails_of_many_trials_add_up_to_one(trials: int, probability: float) -> None:
    """Where powers of the probability underflow, and the sum has many terms."""
    for successes in (0, 1, round(trials * probability * 0.99), round(trials * probability)):
        whole = at_most(successes, trials, probability)
        whole += at_least(successes + 1, trials, probability)

        assert whole == pytest.approx(1, abs=1e-6)


def test_no_success_has_a_closed_form() -> None:
    """``(1 - p) ** n``."""
    assert at_most(0, 1_000, 0.003) == pytest.approx(0.997**1_000, rel=1e-12)
    assert at_least(1_000, 1_000, 0.997) == pytest.approx(0.997**1_000, rel=1e-12)


def test_a_percentile_is_the_decimal_number_that_was_written() -> None:
    """In binary floating point 1 - 99.9 / 100 is not 0.001."""
    assert (fraction_below(99.9), fraction_above(99.9)) == (0.999, 0.001)
    with pytest.raises(ConfigError):
        fraction_below(100)
