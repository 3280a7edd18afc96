"""Percentiles are exact decimals, and their ranks ceilings."""

from __future__ import annotations

import pytest

from latspan.errors import ConfigError
from latspan.histogram import values_needed
from latspan.histogram._rank import rank_of


@pytest.mark.parametrize(
    ("percentile", "needed"),
    [(0, 1), (50, 2), (90, 10), (95, 20), (99, 100), (99.9, 1000), (99.99, 10_000), (100, 1)],
)
def test_a_percentile_needs_as_many_values_as_it_takes_to_have_one_above_it(
    percentile: float, needed: int
) -> None:
    """``ceil(100 / (100 - p))`` holds in decimals; the maximum needs one value."""
    assert needed == values_needed(percentile)


@pytest.mark.parametrize(
    ("percentile", "count", "rank"),
    [
        (99.9, 1000, 999),
        (99, 51, 51),
        (95, 20, 19),
        (50, 3, 2),
        (0, 7, 1),
        (100, 7, 7),
        (29, 100, 29),
    ],
)
def test_a_rank_is_a_ceiling_in_exact_decimals(percentile: float, count: int, rank: int) -> None:
    """Binary floating point would make 1000 of the first and 30 of the last."""
    assert rank == rank_of(percentile, count)


@pytest.mark.parametrize("percentile", [-0.1, 100.1, float("nan"), float("inf")])
def test_there_is_no_percentile_outside_of_0_to_100(percentile: float) -> None:
    """An impossible percentile is refused with the range in the hint."""
    with pytest.raises(ConfigError, match=r"hint: use a number in \[0, 100\]"):
        values_needed(percentile)
