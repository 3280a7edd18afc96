"""The incomplete beta function and Student's t, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from latspan._study.stats import at_least
from latspan._study.stats._beta import beta_distribution, student_quantile, student_tail

X = np.array([0.0, 1e-6, 0.05, 0.3, 0.5, 0.8, 0.999, 1.0])


@pytest.mark.parametrize("b", [0.06, 0.5, 1.0, 7.5, 400.0])
def test_with_one_parameter_of_one_it_is_a_power(b: float) -> None:
    """I_x(1, b) = 1 - (1 - x)^b, and I_x(a, 1) = x^a."""
    assert beta_distribution(X, 1, b) == pytest.approx(1 - (1 - X) ** b, abs=1e-11)
    assert beta_distribution(X, b, 1) == pytest.approx(X**b, abs=1e-11)


@pytest.mark.parametrize(
    ("trials", "successes"), [(10, 3), (59, 59), (1000, 950), (100_000, 95_000)]
)
def test_it_is_the_tail_of_a_binomial_distribution(trials: int, successes: int) -> None:
    """I_p(k, n - k + 1) is the probability of at least k successes of n."""
    for probability in (0.2, successes / trials * 0.99, min(successes / trials * 1.01, 0.999)):
        found = beta_distribution(np.array([probability]), successes, trials - successes + 1)
        assert found[0] == pytest.approx(at_least(successes, trials, probability), abs=1e-9)


def test_it_rises_from_zero_to_one() -> None:
    """It is a distribution function, also where its shortcut for large parameters begins."""
    for a, b in ((0.5, 0.5), (60.0, 60.0), (9501.0, 501.0)):
        values = beta_distribution(np.linspace(0, 1, 5001), a, b)
        assert (values[0], values[-1]) == (0, 1)
        assert (np.diff(values) >= -1e-11).all()


@pytest.mark.parametrize("t", [-3.0, -0.2, 0.0, 1.0, 12.7])
def test_students_t_has_closed_forms_for_one_and_two_degrees_of_freedom(t: float) -> None:
    """One is the Cauchy distribution."""
    assert student_tail(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi, abs=1e-10)
    assert student_tail(t, 2) == pytest.approx(0.5 - t / 2 / math.sqrt(2 + t * t), abs=1e-10)


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [(0.975, 1, 12.7062), (0.975, 4, 2.7764), (0.95, 8, 1.8595), (0.025, 8, -2.3060),
     (0.8, 8, 0.8889), (0.975, 1e6, 1.95997)],
)  # fmt: skip
def test_quantiles_of_students_t_are_those_of_the_tables(
    probability: float, freedom: float, value: float
) -> None:
    """As printed in statistics textbooks."""
    assert student_quantile(probability, freedom) == pytest.approx(value, abs=1e-4)
    assert student_tail(value, freedom) == pytest.approx(1 - probability, abs=1e-4)
