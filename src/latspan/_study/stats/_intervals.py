"""
Confidence intervals: of a percentile, from the ranks of the values; of a ratio, by Wilson's method.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from statistics import NormalDist
from typing import NamedTuple

from latspan._study.stats._binomial import at_least, at_most, fraction_above, fraction_below
from latspan.errors import ConfigError


class ProportionInterval(NamedTuple):
    """
    Confidence interval of a ratio.

    Args:
        low: Lower end, in [0, 1].
        high: Upper end, in [0, 1].
    """

    low: float
    high: float


def percentile_ranks(
    count: int, percentile: float, *, confidence: float = 0.95
) -> tuple[int, int] | None:
    """
    Return the ranks of the two values between which the true percentile lies.

    The interval makes no assumption on the distribution, except that the values are independent.
    Each side has at most half of the error.

    Args:
        count: Number of values, at least 0.
        percentile: In (0, 100).
        confidence: Least probability that the interval contains the percentile, in (0, 1).

    Returns:
        Ranks from 1, the smallest value, to ``count``; ``None`` if there are too few values for an
        interval: see :func:`values_needed_for_interval`.

    Raises:
        ConfigError: A number is outside its range.

    Source: order statistics; David and Nagaraja, Order Statistics, section 7.1.
    """
    below = fraction_below(percentile)
    side = _side(confidence)
    # The value of rank r is above the percentile if fewer than r values are below it.
    low = bisect_left(range(count), True, key=lambda rank: at_most(rank, count, below) > side)
    high = bisect_left(
        range(count + 1), True, key=lambda rank: at_least(rank, count, below) <= side
    )
    return (low, high) if low >= 1 and high <= count else None


def values_needed_for_interval(percentile: float, *, confidence: float = 0.95) -> int:
    """
    Return the least number of values for which :func:`percentile_ranks` has an interval.

    Args:
        percentile: In (0, 100).
        confidence: In (0, 1).

    Returns:
        At 95 %: 6 for p50, 72 for p95, 368 for p99.

    Raises:
        ConfigError: A number is outside its range.
    """
    beyond = max(fraction_below(percentile), fraction_above(percentile))
    return math.ceil(math.log(_side(confidence)) / math.log(beyond))


def wilson_interval(
    successes: float, trials: float, *, confidence: float = 0.95
) -> ProportionInterval | None:
    """
    Return the confidence interval of a ratio, for example of the requests that completed.

    Args:
        successes: Number of trials that count, at least 0.
        trials: Number of trials, at least ``successes``; of a weighted sample, the effective one.
        confidence: In (0, 1).

    Returns:
        ``None`` without a trial.

    Raises:
        ConfigError: A number is outside its range.

    Source: Wilson, JASA 22 (1927), 209-212.
    """
    _side(confidence)
    if not 0 <= successes <= trials:
        raise ConfigError(
            f"{successes} of {trials} is not a ratio", hint="count every trial, successes included"
        )
    if not trials:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    ratio = successes / trials
    spread = z * z / trials
    centre = (ratio + spread / 2) / (1 + spread)
    half = math.sqrt(ratio * (1 - ratio) * spread + spread * spread / 4) / (1 + spread)
    # Rounding must not exclude a ratio of 0 or 1.
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == trials else centre + half
    return ProportionInterval(low, high)


def _side(confidence: float) -> float:
    """Return the probability of an error on one side of an interval."""
    if not 0 < confidence < 1:
        raise ConfigError(
            f"{confidence} is not a confidence", hint="use a number between 0 and 1: 0.95"
        )
    return (1 - confidence) / 2
