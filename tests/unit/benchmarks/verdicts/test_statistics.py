"""The limits of proportions are those of Clopper and Pearson."""

from __future__ import annotations

import pytest

from verdicts._statistics import lower_limit, upper_limit


@pytest.mark.parametrize(
    ("count", "size", "limit"),
    [
        (0, 59, 1 - 0.05 ** (1 / 59)),
        (0, 400, 1 - 0.05 ** (1 / 400)),
        (9, 10, 0.95 ** (1 / 10)),
        (10, 10, 1.0),
    ],
)
def test_the_upper_limit_is_exact(count: int, size: int, limit: float) -> None:
    """With no success, or one failure, the limit has a closed form."""
    assert upper_limit(count, size) == pytest.approx(limit, abs=1e-9)


def test_a_limit_of_many_trials_is_near_the_normal_one() -> None:
    """With 10,000 trials, the limit is near that of the normal approximation."""
    assert upper_limit(500, 10_000) == pytest.approx(0.05 + 1.645 * 0.00218, abs=2e-4)


def test_the_lower_limit_mirrors_the_upper_one() -> None:
    """The lower limit of successes is the complement of the upper limit of failures."""
    assert lower_limit(195, 200) == pytest.approx(1 - upper_limit(5, 200))
    assert lower_limit(0, 0) == 0
