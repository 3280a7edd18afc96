"""Robust straight lines through the units of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_POINTS: Final = 10
"""Number of points below which no line is fitted."""

CORRELATED: Final = 0.3
"""Rank correlation from which one value follows another."""

_MAX_POINTS: Final = 2_000


class FittedLine(NamedTuple):
    """
    A straight line through points.

    Args:
        intercept: Value at 0.
        slope: Increase per unit.
        correlation: Rank correlation of the points, in [-1, 1].
    """

    intercept: float
    slope: float
    correlation: float

    def at(self, position: float) -> float:
        """Return the value of the line."""
        return self.intercept + self.slope * position


def fitted(x: NDArray[np.float64], y: NDArray[np.float64]) -> FittedLine | None:
    """
    Return a robust line: the slope is the median of the slopes of pairs.

    A least-squares line would follow the few units that waited in a queue.

    Source: Theil (1950), Sen (1968), with random pairs for many points.
    """
    known = np.flatnonzero(~np.isnan(x) & ~np.isnan(y))
    if len(known) < MIN_POINTS or np.ptp(x[known]) == 0:
        return None
    random = np.random.default_rng(0)
    if len(known) > _MAX_POINTS:
        known = random.choice(known, _MAX_POINTS, replace=False)
    a, b = x[known], y[known]
    first = random.integers(0, len(a), 20_000)
    second = random.integers(0, len(a), 20_000)
    differ = a[first] != a[second]
    slopes = (b[first] - b[second])[differ] / (a[first] - a[second])[differ]
    slope = float(np.median(slopes))
    return FittedLine(float(np.median(b - slope * a)), slope, correlation(a, b))


def beyond(x: NDArray[np.float64], y: NDArray[np.float64], given: NDArray[np.float64]) -> float:
    """
    Return how far one value follows another one beyond what a third one explains, in [-1, 1].

    It is 0 if fewer than ten units have all three.

    Source: partial rank correlation, for example Kendall, Biometrika 32 (1942).
    """
    known = np.isfinite(x) & np.isfinite(y) & np.isfinite(given)
    if known.sum() < MIN_POINTS:
        return 0.0
    x, y, given = x[known], y[known], given[known]
    both, left, right = correlation(x, y), correlation(x, given), correlation(y, given)
    unexplained = (1 - left**2) * (1 - right**2)
    return float((both - left * right) / np.sqrt(unexplained)) if unexplained > 1e-9 else 0.0


def correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Spearman's correlation of two finite columns; 0 if one of them is constant."""
    first, second = _ranks(a), _ranks(b)
    spread = first.std() * second.std()
    if not spread:
        return 0.0
    return float(((first - first.mean()) * (second - second.mean())).mean() / spread)


def linear(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return Pearson's correlation of the finite pairs of two columns; 0 if one is constant."""
    known = np.isfinite(a) & np.isfinite(b)
    first, second = a[known], b[known]
    if len(first) < MIN_POINTS or not first.std() * second.std():
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def explained_parts(
    x: tuple[NDArray[np.float64], ...], y: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """
    Return which part of one column each of the others explains, by a least-squares plane.

    A part of a unit is NaN if its column is.
    """
    columns = np.column_stack([np.ones(len(y)), *x])
    known = np.isfinite(columns).all(axis=1) & np.isfinite(y)
    slopes = np.linalg.lstsq(columns[known], y[known], rcond=None)[0][1:]
    return [slope * column for slope, column in zip(slopes, x, strict=True)]


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]
