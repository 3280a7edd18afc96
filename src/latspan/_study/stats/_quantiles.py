"""
Samples of latencies and their Harrell-Davis quantiles, from single values or from histograms.

A Harrell-Davis quantile is a weighted mean of all values; the weights are increments of a beta
distribution and fall on the values near the quantile. It varies less than a single order statistic,
and resampling it is valid for extreme percentiles, where resampling an order statistic is not. It
needs only the cumulative counts, so a histogram gives it as exactly as its buckets are narrow.

A failed request has no latency and is slower than every other one: it counts like the slowest
value, and a percentile that falls on failed requests is infinite.

Source: Harrell and Davis (1982), A new distribution-free quantile estimator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from latspan._study.stats._beta import beta_distribution
from latspan._study.stats._binomial import fraction_above, fraction_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Sample", "needed_to_compare", "resampled_quantiles"]

_LEAST: Final = 100
_BEYOND: Final = 2
_TABLE: Final = 100_000
"""Number of values up to which the weights are kept, because several draws share them."""


def needed_to_compare(percentile: float) -> int:
    """
    Return the least number of values of each side with which two percentiles can be compared.

    Below it, a bootstrap interval contains the true ratio too rarely: with 100 values per side, 14
    % of the intervals of a p99 miss it instead of 5 %.

    Args:
        percentile: In (0, 100).

    Returns:
        100 up to p98, 200 for p99, 2,000 for p99.9.
    """
    return max(_LEAST, math.ceil(_BEYOND / fraction_above(percentile) - 1e-9))


def _weights(reached: NDArray[np.int64], size: int, percentile: float) -> NDArray[np.float64]:
    """
    Return the weight of each value.

    Args:
        reached: Number of values up to each value, along the last axis.
        size: Number of all values.
        percentile: In (0, 100).
    """
    if size <= _TABLE:
        return np.diff(_table(size, percentile)[reached], prepend=0.0)
    return np.diff(_distribution(reached / size, size, percentile), prepend=0.0)


@lru_cache(maxsize=64)
def _table(size: int, percentile: float) -> NDArray[np.float64]:
    """Return the weight of the smallest 0, 1, ... ``size`` values together."""
    return _distribution(np.arange(size + 1) / size, size, percentile)


def _distribution(x: NDArray[np.float64], size: int, percentile: float) -> NDArray[np.float64]:
    fraction = fraction_below(percentile)
    return beta_distribution(x, (size + 1) * fraction, (size + 1) * (1 - fraction))


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Values of one quantity, each with the number of its occurrences.

    Args:
        values: Ascending and distinct; shape ``(n_values,)``.
        counts: Occurrences of each, at least 1; shape ``(n_values,)``.
        failed: Number of requests that failed.
        ordered: The single values in the order of their starts; ``None`` if only counts are known.
    """

    values: NDArray[np.float64]
    counts: NDArray[np.int64]
    failed: int = 0
    ordered: NDArray[np.float64] | None = None

    @classmethod
    def of(cls, ordered: NDArray[np.float64], failed: int = 0) -> Self:
        """Return the sample of single values in the order of their starts."""
        values, counts = np.unique(ordered, return_counts=True)
        return cls(values, counts.astype(np.int64), failed, ordered)

    @classmethod
    def of_counts(cls, counts: Iterable[tuple[float, int]], failed: int = 0) -> Self:
        """
        Return the sample of a histogram.

        Args:
            counts: Value and number of each bucket, ascending.
            failed: Number of failed requests.
        """
        pairs = list(counts)
        return cls(
            np.array([value for value, _ in pairs], dtype=np.float64),
            np.array([count for _, count in pairs], dtype=np.int64),
            failed,
        )

    @property
    def count(self) -> int:
        """Number of values, without the failed requests."""
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Mean of the values; NaN without a value."""
        return float(self.values @ self.counts) / self.count if len(self.values) else math.nan

    def above(self, limit: float) -> int:
        """Return the number of values above a limit, failed requests included."""
        return int(self.counts[self.values > limit].sum()) + self.failed

    def quantile(self, percentile: float) -> float:
        """
        Return a percentile; infinity if it falls on failed requests, NaN without a request.

        Args:
            percentile: In (0, 100).
        """
        size = self.count
        total = size + self.failed
        if not total:
            return math.nan
        if math.ceil(fraction_below(percentile) * total - 1e-9) > size:
            return math.inf
        reached: NDArray[np.int64] = np.cumsum(self.counts)
        weights = _weights(reached, total, percentile)
        # Failed requests, if any, count like the slowest value.
        weights[-1] += 1 - weights.sum()
        return float(weights @ self.values)

    def merged(self, other: Sample) -> Sample:
        """Return the values of both samples."""
        failed = self.failed + other.failed
        if self.ordered is not None and other.ordered is not None:
            return Sample.of(np.concatenate([self.ordered, other.ordered]), failed)
        both = np.concatenate([self.values, other.values])
        values, places = np.unique(both, return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, places, np.concatenate([self.counts, other.counts]))
        return Sample(values, counts, failed)


def resampled_quantiles(
    sample: Sample, drawn: NDArray[np.int64], percentile: float
) -> NDArray[np.float64]:
    """
    Return the percentile of each bootstrap draw.

    Args:
        sample: The sample without failed requests.
        drawn: Occurrences of each value in each draw; shape ``(n_draws, n_values)``.
        percentile: In (0, 100).
    """
    reached: NDArray[np.int64] = np.cumsum(drawn, axis=1)
    return _weights(reached, int(reached[0, -1]), percentile) @ sample.values
