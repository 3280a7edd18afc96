"""A sparse HDR histogram: counts by bucket, and beside them what is known exactly."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NoReturn

from latspan.errors import EmptyHistogramError
from latspan.histogram._buckets import (
    HALF_MAGNITUDE,
    HIGHEST_NS,
    SUB_BUCKETS,
    highest_value_of,
    index_of,
)
from latspan.histogram._rank import rank_of

__all__ = ["Histogram"]


@dataclass(slots=True)
class Histogram:
    """
    How often which value came, to three significant digits over 0 and 1 ns to 24 hours.

    Values are integers, nanoseconds wherever they are times. Two histograms are equal when they
    hold the same. Not thread-safe: the recorder guards its histograms with a lock.

    Attributes:
        count: Values held, clamped ones included, rejected ones not.
        sum_ns: Their exact sum.
        rejected: Values that were negative; they are counted here and held nowhere.
        clamped: Values above 24 hours; each is held as 24 hours.
    """

    count: int = field(default=0, init=False)
    sum_ns: int = field(default=0, init=False)
    rejected: int = field(default=0, init=False)
    clamped: int = field(default=0, init=False)
    _min_ns: int = field(default=HIGHEST_NS, init=False, repr=False)
    _max_ns: int = field(default=0, init=False, repr=False)
    _counts: dict[int, int] = field(default_factory=dict[int, int], init=False, repr=False)

    def record(self, value_ns: int, count: int = 1) -> None:
        """
        Count a value.

        Args:
            value_ns: A negative one is rejected, one above 24 hours clamped; both are counted.
            count: How often it came, at least 1.

        Raises:
            ValueError: ``count`` is less than 1.
        """
        if count < 1:
            msg = f"a value cannot come {count} times"
            raise ValueError(msg)
        if value_ns < 0:
            self.rejected += count
            return
        if value_ns > HIGHEST_NS:
            self.clamped += count
            value_ns = HIGHEST_NS
        index = index_of(value_ns)
        self._counts[index] = self._counts.get(index, 0) + count
        self._add(count, value_ns * count, value_ns, value_ns)

    def record_many(self, values_ns: Iterable[int]) -> None:
        """
        Count each of the values, as :meth:`record` does.

        Args:
            values_ns: In any order.
        """
        values = list(values_ns)
        if not values:
            return
        lowest, highest = min(values), max(values)
        if lowest < 0 or highest > HIGHEST_NS:
            for value in values:
                self.record(value)
            return
        counts = self._counts
        count_of = counts.get
        # `index_of` inlined: calling it takes longer than all the rest of the loop.
        for value in values:
            if value < SUB_BUCKETS:
                index = value
            else:
                shift = value.bit_length() - HALF_MAGNITUDE - 1
                index = (shift << HALF_MAGNITUDE) + (value >> shift)
            counts[index] = count_of(index, 0) + 1
        self._add(len(values), sum(values), lowest, highest)

    def merge(self, other: Histogram) -> None:
        """Count everything that ``other`` holds, rejected and clamped values included."""
        counts = self._counts
        for index, count in other._counts.items():
            counts[index] = counts.get(index, 0) + count
        self.rejected += other.rejected
        self.clamped += other.clamped
        self._add(other.count, other.sum_ns, other._min_ns, other._max_ns)

    def copy(self) -> Histogram:
        """Return a histogram that holds the same and shares nothing with this one."""
        copied = Histogram()
        copied.merge(self)
        return copied

    @property
    def min_ns(self) -> int:
        """
        The smallest value, exactly.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self._min_ns if self.count else self._refuse()

    @property
    def max_ns(self) -> int:
        """
        The largest value, exactly.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self._max_ns if self.count else self._refuse()

    @property
    def mean_ns(self) -> float:
        """
        The mean of the exact values.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self.sum_ns / self.count if self.count else self._refuse()

    def value_at_percentile(self, percentile: float) -> int:
        """
        Return the value that ``percentile`` percent of the values do not exceed.

        Args:
            percentile: In [0, 100]. 0 gives the smallest value, 100 the largest.

        Returns:
            The highest value equivalent to the true one: never below it, at most 1/1024 above
            it, never above the largest value recorded.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100].
            EmptyHistogramError: Nothing was recorded, so there is no honest number.

        Source: HdrHistogram, ``AbstractHistogram.getValueAtPercentile`` (rank by ceiling).
        """
        if not self.count:
            self._refuse()
        rank = rank_of(percentile, self.count)
        if percentile == 0:
            return self._min_ns
        indices, counts = zip(*self, strict=True)
        index = indices[bisect_left(list(accumulate(counts)), rank)]
        return min(highest_value_of(index), self._max_ns)

    def share_above(self, limit_ns: int) -> float:
        """
        Return the share of values that are above a limit, in [0, 1].

        Args:
            limit_ns: Values in its own bucket, so up to 1/1024 above it, do not count as above.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        if not self.count:
            self._refuse()
        limit_index = index_of(limit_ns) if limit_ns >= 0 else -1
        above = sum(count for index, count in self._counts.items() if index > limit_index)
        return above / self.count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each occupied bucket's index and count, lowest first."""
        return iter(sorted(self._counts.items()))

    def _add(self, count: int, sum_ns: int, lowest_ns: int, highest_ns: int) -> None:
        self.count += count
        self.sum_ns += sum_ns
        self._min_ns = min(self._min_ns, lowest_ns)
        self._max_ns = max(self._max_ns, highest_ns)

    def _refuse(self) -> NoReturn:
        raise EmptyHistogramError("the histogram holds no values")
