"""
Order of the runs in time: whether a drift over the session may be the difference between the sides.

A machine becomes warmer, a cache fills, a neighbour starts to work. If all runs of one side come
first, such a drift is part of the difference between the sides, and no number of runs removes it:
with a drift of 8 %, 28 % of the comparisons of a system with itself claimed a change. Runs of both
sides in turn share the drift.

An improvement is never claimed if all runs of one side came first. A deterioration is claimed if it
is larger than a steady drift over the session can explain: both sides then have one slope over
time, and the difference that remains beyond it must be more than chance.

Source: analysis of covariance with time as the covariate; Cochran and Cox, Experimental Designs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latspan._model.text import percent
from latspan._study.compare._run import Run
from latspan._study.stats import student_tail

MIN_RUNS: Final = 2
"""Runs of each side from which the order is judged."""

MAX_EXPLAINED: Final = 0.5
"""Fraction of the difference that a trend over the session may explain."""


@dataclass(frozen=True, slots=True)
class OrderEffect:
    """
    What the order of the runs may explain.

    Args:
        reason: Why a drift may be the difference; empty if it cannot be.
        advice: What to do about it, as a sentence.
        beyond_drift: Probability of a difference as large as the one beyond a steady drift, if the
            second side is not slower; 0 if the order explains nothing.
    """

    reason: str = ""
    advice: str = ""
    beyond_drift: float = 0.0


def order_of(
    before: Sequence[Run], after: Sequence[Run], values: tuple[Sequence[float], Sequence[float]]
) -> OrderEffect:
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
        return OrderEffect()
    first, second = sorted(starts, key=min)
    effect = _mean(values[1]) - _mean(values[0])
    drift, p_value = _drift(starts, values)
    if max(first) < min(second):
        return OrderEffect(
            "not interleaved: all runs of one side were made before those of the other",
            "Make the runs of both sides in turn: latspan verify does.",
            p_value,
        )
    if effect and drift / effect >= MAX_EXPLAINED:
        share = min(1.0, drift / effect)
        return OrderEffect(
            f"a trend over the session explains {percent(share)} of the difference",
            "Make more runs of both sides in turn.",
            p_value,
        )
    return OrderEffect()


def _drift(
    starts: Sequence[Sequence[float]], values: Sequence[Sequence[float]]
) -> tuple[float, float]:
    """
    Return the part of the difference that a common slope over time explains.

    Also return the p-value of the rest: that the second side is not slower at equal times.
    """
    products = squares = total = 0.0
    for times, each in zip(starts, values, strict=True):
        middle, level = _mean(times), _mean(each)
        products += sum((t - middle) * (y - level) for t, y in zip(times, each, strict=True))
        squares += sum((t - middle) ** 2 for t in times)
        total += sum((y - level) ** 2 for y in each)
    distance = _mean(starts[1]) - _mean(starts[0])
    slope = products / squares if squares else 0.0
    freedom = sum(map(len, starts)) - 3
    rest = max(0.0, total - slope * products) / freedom
    parts = sum(1 / len(each) for each in starts)
    error = math.sqrt(rest * (parts + (distance**2 / squares if squares else 0.0)))
    beyond = _mean(values[1]) - _mean(values[0]) - slope * distance
    if not error:
        return slope * distance, 0.0 if beyond > 0 else 1.0
    return slope * distance, student_tail(beyond / error, freedom)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
