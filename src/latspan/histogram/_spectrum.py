"""Percentile spectrum: a whole distribution in few lines, with finer steps towards the tail."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from latspan.errors import ConfigError, EmptyHistogramError
from latspan.histogram._buckets import highest_value_of
from latspan.histogram._histogram import Histogram


@dataclass(frozen=True, slots=True)
class SpectrumPoint:
    """
    One line of a percentile spectrum.

    Args:
        percentile: In [0, 100].
        value: The value that this percentage of the values does not exceed; times in nanoseconds.
        count: Number of values that do not exceed ``value``.
    """

    percentile: float
    value: int
    count: int


def percentile_spectrum(histogram: Histogram, ticks: int = 5) -> Iterator[SpectrumPoint]:
    """
    Yield the points of a percentile spectrum, from the smallest value to the largest.

    Args:
        histogram: Histogram with at least one value.
        ticks: Number of points per half of the remaining distance to 100 %, at least 1.

    Yields:
        At least one point; the last one has 100 % and the largest value.

    Raises:
        ConfigError: ``ticks`` is less than 1.
        EmptyHistogramError: Nothing was recorded.

    Source: HdrHistogram, ``PercentileIterator`` (percentile ticks per half distance).
    """
    if ticks < 1:
        raise ConfigError(f"a spectrum cannot have {ticks} ticks", hint="use 1 or more")
    if not histogram.count:
        raise EmptyHistogramError("the histogram holds no values")
    level = Fraction(0)
    up_to = 0
    for index, count in histogram:
        up_to += count
        value = min(highest_value_of(index), histogram.max_ns)
        while level < 100 and up_to * 100 >= level * histogram.count:
            if up_to == histogram.count:
                break
            yield SpectrumPoint(float(level), value, up_to)
            halves = 2 ** (math.floor(math.log2(100 / (100 - level))) + 1)
            level += Fraction(100, ticks * halves)
    yield SpectrumPoint(100.0, histogram.max_ns, histogram.count)
