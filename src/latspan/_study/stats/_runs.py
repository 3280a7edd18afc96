"""
Tests of a change from several measurements per side: the runs are the unit, not the requests.

Two runs of the same system differ for outside reasons: another neighbour, another cache, another
clock rate. Only several runs per side show how much. Each run gives one number, for example the
logarithm of its p95, and Student's t test in Welch's form compares the means. Its false alarms are
3 to 5 % whatever the runs differ by.

Source: Welch (1947), The generalization of Student's problem when several different population
variances are involved; Holm (1979), A simple sequentially rejective multiple test procedure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from latspan._study.stats._beta import student_quantile, student_tail

_MAX_PERMUTED: Final = 6
"""Runs per side up to which every division of the runs is tried: 924."""
_MAX_NEEDED: Final = 100
_POWER: Final = 0.8


@dataclass(frozen=True, slots=True)
class RunTest:
    """
    Comparison of the means of two groups of runs.

    Args:
        difference: Mean of the second group minus mean of the first.
        error: Standard error of the difference.
        freedom: Degrees of freedom.
        spread: Standard deviation of single runs, of both groups together.
    """

    difference: float
    error: float
    freedom: float
    spread: float

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the difference."""
        if not self.error:
            return self.difference, self.difference
        half = student_quantile((1 + confidence) / 2, self.freedom) * self.error
        return self.difference - half, self.difference + half

    def above(self, limit: float) -> float:
        """Return the p-value of the hypothesis that the difference is at most a limit."""
        return self._tail(self.difference - limit)

    def below(self, limit: float) -> float:
        """Return the p-value of the hypothesis that the difference is at least a limit."""
        return self._tail(limit - self.difference)

    def _tail(self, distance: float) -> float:
        if not self.error:
            return 0.0 if distance > 0 else 1.0
        return student_tail(distance / self.error, self.freedom)


def compare_runs(before: Sequence[float], after: Sequence[float]) -> RunTest | None:
    """
    Return the comparison of two groups of runs.

    If one group has a single run, its variation is taken from the other one.

    Args:
        before: One number per run, for example the logarithm of its p95.
        after: The same of the second group.

    Returns:
        ``None`` if there are fewer than three runs, or a group has none, or a number is not finite.
    """
    sizes = len(before), len(after)
    if min(sizes) < 1 or sum(sizes) < 3 or not all(map(math.isfinite, (*before, *after))):
        return None
    means = [sum(group) / len(group) for group in (before, after)]
    squares = [
        sum((value - mean) ** 2 for value in group)
        for group, mean in zip((before, after), means, strict=True)
    ]
    pooled = sum(squares) / (sum(sizes) - 2)
    spread = math.sqrt(pooled)
    difference = means[1] - means[0]
    if min(sizes) == 1:
        error = math.sqrt(pooled * (1 / sizes[0] + 1 / sizes[1]))
        return RunTest(difference, error, sum(sizes) - 2, spread)
    parts = [square / (size - 1) / size for square, size in zip(squares, sizes, strict=True)]
    variance = sum(parts)
    if not variance:
        return RunTest(difference, 0.0, sum(sizes) - 2, 0.0)
    freedom = variance**2 / sum(
        part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True)
    )
    return RunTest(difference, math.sqrt(variance), freedom, spread)


def permutation(before: Sequence[float], after: Sequence[float]) -> float | None:
    """
    Return the exact two-sided p-value of the difference of the means, without an assumption.

    Every division of the runs into two groups of these sizes is tried. With three runs per side the
    smallest possible p-value is 0.1, and with four it is 0.029.

    Returns:
        ``None`` if a group is empty or has more than six runs.
    """
    sizes = len(before), len(after)
    if min(sizes) < 1 or max(sizes) > _MAX_PERMUTED:
        return None
    every = [*before, *after]
    total = sum(every)

    def distance(group: Sequence[float]) -> float:
        return abs(sum(group) / sizes[0] - (total - sum(group)) / sizes[1])

    observed = distance(before)
    divisions = [distance(group) for group in combinations(every, sizes[0])]
    # The observed division is one of them, up to rounding.
    return sum(each >= observed * (1 - 1e-9) for each in divisions) / len(divisions)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """
    Return the p-values adjusted for their number, so that all errors together have one rate.

    Args:
        p_values: P-values of a family of tests, in any order.
    """
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return tuple(adjusted)


def runs_needed(spread: float, distance: float, *, level: float = 0.05) -> int | None:
    """
    Return the number of runs per side with which a distance is found in 80 % of the cases.

    Args:
        spread: Standard deviation of single runs.
        distance: Distance to find, for example the logarithm of the margin.
        level: Probability of an error on the side that is tested, in (0, 0.5).

    Returns:
        At least 2; ``None`` if more than 100 would be needed.
    """
    if distance <= 0:
        return None
    for runs in range(2, _MAX_NEEDED + 1):
        freedom = 2 * runs - 2
        needed = student_quantile(1 - level, freedom) + student_quantile(_POWER, freedom)
        if needed * spread * math.sqrt(2 / runs) <= distance:
            return runs
    return None
