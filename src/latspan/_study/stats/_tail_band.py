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


def tail_band_draws(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    fraction: float,
    *,
    times: NDArray[np.floating[Any]],
    rows: NDArray[np.int64],
    draws: int,
    random: np.random.Generator,
) -> NDArray[np.float64]:
    """
    Return the mean of several times over the tail band of each bootstrap draw.

    Args:
        values: What the requests are ranked by, in the order of their starts; shape ``(n,)``.
        weights: Number of requests that each stands for; shape ``(n,)``.
        fraction: Fraction of the requests that is in the band, in (0, 1].
        times: Their times, for example of each segment; shape ``(n_rows, n_times)``.
        rows: Row of the times of each request; shape ``(n,)``.
        draws: Number of draws.
        random: Source of randomness.

    Returns:
        Means in the unit of the times; shape ``(draws, n_times)``.
    """
    size = len(values)
    per_block = BLOCK if -(-size // BLOCK) >= MIN_BLOCKS else 1
    # Sorted once: a draw only changes how often each request counts. The band of a draw nearly
    # always lies within the slowest requests. So only the slowest requests are searched first: one
    # and a half times the size of the band, and 250 more.
    order = np.argsort(values, kind="stable")[::-1]
    sizes = np.add.reduceat(weights, np.arange(0, size, per_block))
    blocks = len(sizes)
    band = int(np.searchsorted(np.cumsum(weights[order]), fraction * float(weights.sum())))
    searched = order[: min(size, int(1.5 * band) + 10 * BLOCK)]
    block_of, own, slowest = searched // per_block, weights[searched], times[rows[searched]]
    result = np.empty((draws, times.shape[1]))
    for draw in range(draws):
        counts = np.bincount(random.integers(0, blocks, blocks), minlength=blocks)
        limit = fraction * float((counts * sizes).sum())
        drawn = counts[block_of] * own
        reached: NDArray[np.float64] = np.cumsum(drawn)
        if reached[-1] < limit:
            block_of, own, slowest = order // per_block, weights[order], times[rows[order]]
            drawn = counts[block_of] * own
            reached = np.cumsum(drawn)
        # The band ends inside the last request, which counts in part.
        inside = int((reached < limit).sum()) + 1
        in_band = drawn[:inside].copy()
        if inside <= size:
            in_band[-1] -= max(reached[inside - 1] - limit, 0.0)
        result[draw] = in_band @ slowest[:inside] / in_band.sum()
    return result
