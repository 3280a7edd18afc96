"""
Block bootstrap of the mean times in a tail band: the slowest requests, a fraction of all of them.

Requests that follow one another are similar, because they meet the same queue. So whole blocks of
25 consecutive requests are drawn, and each draw has its own band.

Source: Künsch (1989), The jackknife and the bootstrap for general stationary observations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from latspan._study.stats._bootstrap import BLOCK, MIN_BLOCKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["tail_band_draws"]


def tail_band_draws(
    values: NDArray[np.float64],
    times: NDArray[np.floating[Any]],
    weights: NDArray[np.float64],
    fraction: float,
    *,
    draws: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """
    Return the mean of several times over the tail band of each bootstrap draw.

    Args:
        values: What the requests are ranked by, in the order of their starts; shape ``(n,)``.
        times: Their times, for example of each segment; shape ``(n, n_times)``.
        weights: Number of requests that each stands for; shape ``(n,)``.
        fraction: Fraction of the requests that is in the band, in (0, 1].
        draws: Number of draws.
        random: Source of randomness.

    Returns:
        Means in the unit of the times; shape ``(draws, n_times)``.
    """
    size = len(values)
    blocks = max(1, -(-size // BLOCK))
    block_of = np.arange(size) // BLOCK
    if blocks < MIN_BLOCKS:
        blocks, block_of = size, np.arange(size)
    # Sorted once: a draw only changes how often each request counts. The band of a draw nearly
    # always lies within the slowest requests. So only the slowest requests are searched first: one
    # and a half times the size of the band, and 250 more.
    order = np.argsort(values, kind="stable")[::-1]
    block_of, weights = block_of[order], weights[order]
    sizes = np.bincount(block_of, weights, minlength=blocks)
    band = int(np.searchsorted(np.cumsum(weights), fraction * float(weights.sum())))
    slowest = times[order[: min(size, int(1.5 * band) + 10 * BLOCK)]]
    result = np.empty((draws, times.shape[1]))
    for draw in range(draws):
        counts = np.bincount(random.integers(0, blocks, blocks), minlength=blocks)
        limit = fraction * float((counts * sizes).sum())
        drawn = counts[block_of[: len(slowest)]] * weights[: len(slowest)]
        reached: NDArray[np.float64] = np.cumsum(drawn)
        if reached[-1] < limit:
            slowest = times[order]
            drawn = counts[block_of] * weights
            reached = np.cumsum(drawn)
        # The band ends inside the last request, which counts in part.
        inside = int((reached < limit).sum()) + 1
        in_band = drawn[:inside].copy()
        if inside <= size:
            in_band[-1] -= max(reached[inside - 1] - limit, 0.0)
        result[draw] = in_band @ slowest[:inside] / in_band.sum()
    return result
