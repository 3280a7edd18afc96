"""
Bands: the units near the goal's percentile, and the typical units.

Percentiles of segments do not add up: the requests with the slowest queue are not those with the
slowest decode. So the time at a percentile is explained by means over the units whose goal metric
lies in the band around it, the *tail band*. Means add up to the mean of the goal metric there. The
*typical band* is the middle fifth, p40 to p60.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._study.diagnose._table import RequestTable, tail_fraction
from latspan._study.stats import effective_size, tail_band_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

MIN_UNITS: Final = 20
"""Number of units below which nothing is attributed: a p95 needs 20 values."""


@dataclass(frozen=True, slots=True)
class Bands:
    """
    The units that have a value of the goal metric, and which of them are in a band.

    Args:
        table: Table of all units.
        usable: Rows of the units with a value in the table; shape ``(n,)``.
        values_ns: Goal metric of each; shape ``(n,)``.
        weights: Number of requests that each stands for; shape ``(n,)``.
        tail: Places of the units of the tail band among them.
        typical: Places of the units of the typical band among them.
        fraction: Fraction of the units that is in the tail band, by weight.
    """

    table: RequestTable
    usable: NDArray[np.int64]
    values_ns: NDArray[np.float64]
    weights: NDArray[np.float64]
    tail: NDArray[np.int64]
    typical: NDArray[np.int64]
    fraction: float

    def mean_ns(self, band: NDArray[np.int64]) -> float:
        """Return the mean of the goal metric in a band; 0 without a unit."""
        return float(self._weighed(self.values_ns[band], band))

    def segment_means_ns(self, band: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean time of each segment in a band, as above; shape ``(segments,)``."""
        return self._weighed(self.table.segments_ns[self.usable[band]].astype(np.float64), band)

    def draws(self, number: int, random: np.random.Generator) -> NDArray[np.float64]:
        """
        Return the mean time of each segment over the tail band of bootstrap draws.

        Args:
            number: Number of draws.
            random: Source of randomness.

        Returns:
            Nanoseconds; shape ``(number, segments)``.
        """
        return tail_band_draws(
            self.values_ns,
            self.weights,
            self.fraction,
            times=self.table.segments_ns,
            rows=self.usable,
            draws=number,
            random=random,
        )

    def _weighed(self, times: NDArray[np.float64], band: NDArray[np.int64]) -> Any:
        weights = self.weights[band]
        return weights @ times / (float(weights.sum()) or 1.0)


def bands_of(table: RequestTable, *, min_fraction: float = 0.0) -> Bands | None:
    """
    Return the units near the goal's percentile, and the typical ones.

    Failed units have no goal metric, and are in no band. Units that were given up are in the tail
    band if their lower bound is at least its lower end, and otherwise in no band. Each unit counts
    with its weight.

    Args:
        table: Units, in the order of their starts.
        min_fraction: Least fraction of the units that is in the tail band, for a comparison with a
            band of that fraction.

    Returns:
        The bands; ``None`` if fewer than 20 units have a value of the goal metric.
    """
    usable = np.flatnonzero(~np.isnan(table.value_ns))
    size = len(usable)
    if size < MIN_UNITS:
        return None
    values, weights = table.value_ns, table.weight
    if size < len(table):
        values, weights = values[usable], weights[usable]
    fraction = max(tail_fraction(table.goal, effective_size(weights)), 1 / size, min_fraction)
    order = np.argsort(values, kind="stable")
    position = np.cumsum(weights[order]) / weights.sum()
    return Bands(
        table=table,
        usable=usable,
        values_ns=values,
        weights=weights,
        tail=order[position > 1 - fraction + 1e-12],
        typical=order[(position > 0.4) & (position <= 0.6)],
        fraction=fraction,
    )
