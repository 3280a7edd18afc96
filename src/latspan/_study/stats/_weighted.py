"""
Quantiles of weighted values, in a sample of which each value stands for several.

Source: Kish (1965), Survey Sampling, for the effective size of a weighted sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def effective_size(weights: NDArray[np.float64]) -> float:
    """
    Return the number of equally weighted values that vary as much as these: (sum w)^2 / sum w^2.

    Args:
        weights: Weights, more than 0; shape ``(n,)``.
    """
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares else 0.0


def weighted_quantile(
    values: NDArray[np.float64], weights: NDArray[np.float64], percentile: float
) -> float:
    """
    Return the smallest value that covers a fraction of the weight; NaN without a value.

    Args:
        values: Values, perhaps infinite; shape ``(n,)``.
        weights: Weights, more than 0; shape ``(n,)``.
        percentile: In (0, 100].
    """
    if not len(values):
        return float("nan")
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    total = float(reached[-1])
    # The tolerance: 0.95 * 20 is 19.000000000000004 in floating point.
    wanted = percentile / 100 * total - 1e-9 * max(1.0, total)
    at = int(np.searchsorted(reached, wanted))
    return float(values[order[min(at, len(order) - 1)]])
