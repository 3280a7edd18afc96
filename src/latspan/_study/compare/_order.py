"""
Order of the runs in time: whether a drift over the session may be the difference between the sides.

A machine becomes warmer, a cache fills, a neighbour starts to work. If all runs of one side come
first, such a drift is part of the difference between the sides, and no number of runs removes it:
with a drift of 8 %, 28 % of the comparisons of a system with itself claimed a change. Runs of both
sides in turn share the drift.

Source: analysis of covariance with time as the covariate; Cochran and Cox, Experimental Designs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latspan._study.compare._run import Run

__all__ = ["Order", "order_of"]

MIN_RUNS: Final = 3
"""Runs of each side from which the order is judged."""

MAX_EXPLAINED: Final = 0.5
"""Fraction of the difference that a trend over the session may explain."""


@dataclass(frozen=True, slots=True)
class Order:
    """
    What the order of the runs may explain.

    Args:
        reason: Why a drift may be the difference; empty if it cannot be.
        is_separated: Whether all runs of one side come before all of the other.
    """

    reason: str = ""
    is_separated: bool = False


def order_of(
    before: Sequence[Run], after: Sequence[Run], values: tuple[Sequence[float], Sequence[float]]
) -> Order:
    """
    Return what the order of the runs may explain.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        values: One number per run of each side, for example the logarithm of its p95.
    """
    starts = [[run.start_ns for run in side] for side in (before, after)]
    sizes = [len(side) for side in starts]
    if min(sizes) < MIN_RUNS or not all(map(all, starts)) or list(map(len, values)) != sizes:
        return Order()
    first, second = sorted(starts, key=min)
    if max(first) < min(second):
        return Order("all runs of one side were made before those of the other", is_separated=True)
    slope = _slope(starts, values)
    effect = _mean(values[1]) - _mean(values[0])
    drift = slope * (_mean(starts[1]) - _mean(starts[0]))
    if math.isfinite(drift) and effect and drift / effect >= MAX_EXPLAINED:
        return Order(f"a trend over the session explains {min(1.0, drift / effect):.0%} of it")
    return Order()


def _slope(starts: Sequence[Sequence[float]], values: Sequence[Sequence[float]]) -> float:
    """Return the common slope of both sides over time."""
    products = squares = 0.0
    for times, each in zip(starts, values, strict=True):
        middle, level = _mean(times), _mean(each)
        products += sum((t - middle) * (y - level) for t, y in zip(times, each, strict=True))
        squares += sum((t - middle) ** 2 for t in times)
    return products / squares if squares else math.nan


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
