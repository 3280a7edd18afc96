"""
Samples of latencies and their Harrell-Davis quantiles, from single values or from histograms.

A Harrell-Davis quantile is a weighted mean of all values; the weights are increments of a beta
distribution and fall on the values near the quantile. It varies less than a single order statistic,
and resampling it is valid for extreme percentiles, where resampling an order statistic is not. It
needs only the cumulative counts, so a histogram gives it as exactly as its buckets are narrow.

A failed request has no latency and is slower than every other one: it counts like the slowest
value, and a percentile that falls on failed requests is infinite. A request that was given up has
a lower bound only: a sample then has two ends, one with each bound as the value and one with each
as a failure.

In a weighted sample the quantile is the value of its rank. A Harrell-Davis quantile of its
effective size would be smoothed over more of the tail than that of a complete sample, so that two
sides which are sampled differently would differ by the method alone. So if one sample of a
comparison is weighted, the ranks of all are compared.

Source: Harrell and Davis (1982), A new distribution-free quantile estimator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from latspan._study.stats._beta import beta_distribution
from latspan._study.stats._binomial import fraction_above, fraction_below
from latspan._study.stats._weighted import effective_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MIN_VALUES: Final = 100
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
    return max(_MIN_VALUES, math.ceil(_BEYOND / fraction_above(percentile) - 1e-9))


def _weights(reached: NDArray[np.float64], size: int, percentile: float) -> NDArray[np.float64]:
    """
    Return the weight of each value.

    Args:
        reached: Number of values up to each value, along the last axis.
        size: Number of all values.
        percentile: In (0, 100).
    """
    if size <= _TABLE:
        return np.diff(_table(size, percentile)[reached.astype(np.int64)], prepend=0.0)
    return np.diff(_distribution(reached / size, size, percentile), prepend=0.0)


@lru_cache(maxsize=64)
def _table(size: int, percentile: float) -> NDArray[np.float64]:
    """Return the weight of the smallest 0, 1, ... ``size`` values together."""
    return _distribution(np.arange(size + 1) / size, size, percentile)


def _distribution(x: NDArray[np.float64], size: int, percentile: float) -> NDArray[np.float64]:
    fraction = fraction_below(percentile)
    return beta_distribution(x, (size + 1) * fraction, (size + 1) * (1 - fraction))


@dataclass(frozen=True, slots=True)
class WeightedSample:
    """
    Values of one quantity, each with the number of its occurrences.

    Args:
        values: Ascending and distinct; shape ``(n_values,)``.
        counts: Occurrences or summed weight of each, more than 0; shape ``(n_values,)``.
        failed: Number, or summed weight, of the requests that failed.
        ordered: The single values in the order of their starts; ``None`` if only counts are known.
        weights: Weights of the single values; ``None`` if all are 1.
        effective: Effective number of requests of a weighted sample, failed ones included.
        upper: The sample with each value at its upper end; ``None`` if all values are known.
    """

    values: NDArray[np.floating[Any]]
    counts: NDArray[np.signedinteger[Any]] | NDArray[np.float64]
    failed: float = 0
    ordered: NDArray[np.floating[Any]] | None = None
    weights: NDArray[np.float64] | None = None
    effective: float | None = None
    upper: WeightedSample | None = None

    @classmethod
    def of(
        cls,
        ordered: NDArray[np.floating[Any]],
        failed: float = 0,
        weights: NDArray[np.float64] | None = None,
        *,
        failed_weights: NDArray[np.float64] | None = None,
    ) -> Self:
        """
        Return the sample of single values.

        Args:
            ordered: The values in the order of their starts; shape ``(n,)``.
            failed: Number of requests that failed; unused with weights.
            weights: Number of requests that each value stands for; shape ``(n,)``.
            failed_weights: The same for each failed request.
        """
        if weights is None or failed_weights is None:
            values, counts = np.unique(ordered, return_counts=True)
            if len(values) == len(ordered):
                # One number that is read at each place: a large sample keeps no array of ones.
                counts = np.broadcast_to(np.int32(1), len(values))
            return cls(values, counts.astype(np.int32, copy=False), failed, ordered)
        values, places = np.unique(ordered, return_inverse=True)
        summed = np.bincount(places, weights, len(values))
        every = np.concatenate([weights, failed_weights])
        return cls(
            values,
            summed,
            float(failed_weights.sum()),
            ordered,
            weights,
            effective_size(every),
        )

    @classmethod
    def between(
        cls,
        low: NDArray[np.floating[Any]],
        high: NDArray[np.floating[Any]],
        weights: NDArray[np.float64],
    ) -> Self:
        """
        Return the sample of values of which some are not known.

        Args:
            low: Smallest possible values in the order of their starts, infinite for a failure.
            high: Largest possible values, infinite if there is no limit; shape ``(n,)``.
            weights: Number of requests that each stands for; shape ``(n,)``.
        """
        is_weighted = bool((weights != 1).any())

        def end(values: NDArray[np.floating[Any]]) -> Self:
            finite = np.isfinite(values)
            known = values if finite.all() else values[finite]
            if not is_weighted:
                return cls.of(known, int((~finite).sum()))
            return cls.of(known, 0, weights[finite], failed_weights=weights[~finite])

        lower = end(low)
        return lower if np.array_equal(low, high) else replace(lower, upper=end(high))

    @property
    def high(self) -> WeightedSample:
        """The sample with each value at its upper end; itself if all values are known."""
        return self if self.upper is None else self.upper

    @property
    def size(self) -> float:
        """Effective number of requests, failed ones included."""
        return self.total if self.effective is None else self.effective

    @property
    def heaviest(self) -> float:
        """Largest number of requests that one value stands for."""
        return 1.0 if self.weights is None else float(self.weights.max(initial=1.0))

    @property
    def total(self) -> float:
        """Number of requests that the sample stands for, failed ones included."""
        return float(self.counts.sum()) + self.failed

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
        """Number of values, or their summed weight, without the failed requests."""
        return round(float(self.counts.sum()))

    @property
    def mean(self) -> float:
        """Mean of the values; NaN without a value."""
        total = float(self.counts.sum())
        return float(self.values @ self.counts) / total if total else math.nan

    def above(self, limit: float) -> float:
        """Return the number of values above a limit, failed requests included."""
        return float(self.counts[self.values > limit].sum()) + self.failed

    def quantile(self, percentile: float) -> float:
        """
        Return a percentile; infinity if it falls on failed requests, NaN without a request.

        Args:
            percentile: In (0, 100).
        """
        total = self.total
        if not total:
            return math.nan
        reached: NDArray[np.float64] = np.cumsum(self.counts, dtype=np.float64)
        if not len(reached) or fraction_below(percentile) * total - 1e-9 * total > reached[-1]:
            return math.inf
        if self.effective is not None:
            return self.quantile_by_rank(percentile)
        if math.ceil(fraction_below(percentile) * total - 1e-9) > reached[-1]:
            return math.inf
        weights = _weights(reached, round(total), percentile)
        # Failed requests, if any, count like the slowest value.
        weights[-1] += 1 - weights.sum()
        return float(weights @ self.values)

    def quantile_by_rank(self, percentile: float) -> float:
        """
        Return the value of the rank of a percentile; infinity if it falls on failed requests.

        Args:
            percentile: In (0, 100).
        """
        total = self.total
        if not total:
            return math.nan
        return float(
            _by_rank(self.values, np.cumsum(self.counts, dtype=np.float64), total, percentile)
        )


def _by_rank(
    values: NDArray[np.floating[Any]],
    reached: NDArray[np.float64],
    total: float,
    percentile: float,
) -> float:
    wanted = fraction_below(percentile) * total - 1e-9 * max(1.0, total)
    at = int(np.searchsorted(reached, wanted))
    return float(values[at]) if at < len(values) else math.inf


def resampled_quantiles(
    sample: WeightedSample, drawn: NDArray[np.int64] | NDArray[np.float64], percentile: float
) -> NDArray[np.float64]:
    """
    Return the percentile of each bootstrap draw.

    Args:
        sample: The sample without failed requests.
        drawn: Occurrences, or summed weight, of each value in each draw; shape
            ``(n_draws, n_values)``.
        percentile: In (0, 100).
    """
    reached: NDArray[np.float64] = np.cumsum(drawn, axis=1, dtype=np.float64)
    if sample.effective is not None:
        ranked = [_by_rank(sample.values, each, float(each[-1]), percentile) for each in reached]
        return np.array(ranked)
    return _weights(reached, int(reached[0, -1]), percentile) @ sample.values
