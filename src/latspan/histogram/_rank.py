"""
Arithmetic of percentiles: ranks by ceiling, in exact decimals.

In binary floating point 99.9 % of 1000 is 999.0000000000001, whose ceiling is one too high. So a
percentile is converted to the decimal number that the user wrote.
"""

from __future__ import annotations

import math
from fractions import Fraction

from latspan.errors import ConfigError


def rank_of(percentile: float, count: int) -> int:
    """
    Return the rank of the percentile among ``count`` sorted values.

    Args:
        percentile: In [0, 100].
        count: At least 1.

    Returns:
        From 1, the smallest, to ``count``, the largest.

    Raises:
        ConfigError: ``percentile`` is outside [0, 100].

    Source: HdrHistogram, ``AbstractHistogram.getValueAtPercentile`` (rank by ceiling).
    """
    return max(math.ceil(_exact(percentile) * count / 100), 1)


def values_needed(percentile: float) -> int:
    """
    Return the minimum number of values for a meaningful percentile: ``ceil(100 / (100 - p))``.

    Args:
        percentile: In [0, 100]. 100 is the largest value, which needs one.

    Returns:
        At least 1: p50 needs 2, p90 10, p95 20, p99 100, p99.9 1000.

    Raises:
        ConfigError: ``percentile`` is outside [0, 100].
    """
    above = 100 - _exact(percentile)
    return math.ceil(100 / above) if above else 1


def _exact(percentile: float) -> Fraction:
    if not 0 <= percentile <= 100:
        raise ConfigError(
            f"{percentile} is not a percentile",
            hint="use a number in [0, 100], for example 95 or 99.9",
        )
    return Fraction(str(float(percentile)))
