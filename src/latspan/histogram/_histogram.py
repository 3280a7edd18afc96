"""
A sparse HDR histogram: counts by bucket, with the exact sum and extremes.

A recorded value is first appended to a small array. The array is counted when it is full, which
halves the cost per value. Every method that reads the histogram must count the array first, so
reading changes the state too. There are no locks: the caller must serialize all access.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NoReturn, Self

from latspan.errors import ConfigError, EmptyHistogramError
from latspan.histogram._batch import batches_of
from latspan.histogram._buckets import (
    HIGHEST_NS,
    highest_value_of,
    index_of,
    lowest_value_of,
    middle_value_of,
)
from latspan.histogram._counts import Counts
from latspan.histogram._rank import rank_of, values_needed

_WAITING: Final = 128
"""
Maximum number of recorded values that wait to be counted.

They take one kilobyte. Counting them together costs half as much as one by one.
"""

_MAX_ADDED: Final = 1_000_000
"""Maximum number of additions in a correction; a wrong interval could otherwise take hours."""


class Histogram:
    """
    HDR histogram with three significant digits, for 0 and values from 1 ns to 24 hours.

    Values are integers; times are in nanoseconds. Two histograms are equal if their contents are
    equal. Not thread-safe: the recorder guards its histograms with a lock.
    """

    __slots__ = (
        "_clamped",
        "_counts",
        "_max_ns",
        "_min_ns",
        "_rejected",
        "_sum_ns",
        "_waiting",
    )

    def __init__(self) -> None:
        self._counts = Counts()
        self._sum_ns = 0
        self._min_ns = HIGHEST_NS
        self._max_ns = 0
        self._rejected = 0
        self._clamped = 0
        # Values recorded one by one and not counted yet. Methods that read count them first.
        self._waiting: array[int] | None = None

    @classmethod
    def from_buckets(
        cls,
        buckets: Iterable[tuple[int, int]],
        *,
        sum_ns: int | None = None,
        min_ns: int | None = None,
        max_ns: int | None = None,
        rejected: int = 0,
        clamped: int = 0,
    ) -> Self:
        """
        Return a histogram built from counts by bucket, the form in which files store them.

        Args:
            buckets: Index and count of each bucket. Each bucket occurs once; counts are at least 1.
            sum_ns: The values' sum; if ``None``, estimated from the middles of the buckets.
            min_ns: The smallest value; if ``None``, the lowest value of the lowest bucket.
            max_ns: The largest value; if ``None``, the highest value of the highest bucket.
            rejected: Values that were negative.
            clamped: Values that were above 24 hours.
        """
        held = dict(buckets)
        made = cls()
        made._rejected, made._clamped = rejected, clamped
        if held:
            made._counts.add_buckets(held.items())
            made._sum_ns = (
                sum(middle_value_of(index) * count for index, count in held.items())
                if sum_ns is None
                else sum_ns
            )
            made._min_ns = lowest_value_of(min(held)) if min_ns is None else min_ns
            highest = min(highest_value_of(max(held)), HIGHEST_NS)
            made._max_ns = highest if max_ns is None else max_ns
        return made

    def record(self, value_ns: int) -> None:
        """
        Count a value.

        Args:
            value_ns: A negative value is rejected, and a value above 24 hours is clamped to 24
                hours; :attr:`rejected` and :attr:`clamped` count them.

        Raises:
            InvalidValueError: ``value_ns`` is not an integer.
        """
        waiting = self._waiting
        if waiting is None:
            waiting = self._waiting = array("q")
        try:
            waiting.append(value_ns)
        except (TypeError, OverflowError):
            self._count((value_ns,))
        if len(waiting) >= _WAITING:
            self._count_waiting()

    def record_many(self, values_ns: Iterable[int]) -> None:
        """
        Count each of the values as :meth:`record` does, at a quarter of the cost.

        If the application has loaded numpy, large batches are counted with it.

        Args:
            values_ns: In any order; a list or an array is not copied.

        Raises:
            InvalidValueError: A value is not an integer; then no value is counted.
        """
        values = values_ns if isinstance(values_ns, list | array) else list(values_ns)
        if values:
            self._count(values)

    def compact(self) -> None:
        """Reduce memory to the minimum; until more is recorded, reading changes no state."""
        self._count_waiting()
        self._counts.compact()

    def merge(self, other: Histogram) -> None:
        """Add the contents of ``other``, rejected and clamped values included."""
        other._count_waiting()
        self._count_waiting()
        self._counts.update(other._counts)
        self._rejected += other._rejected
        self._clamped += other._clamped
        self._note(other._sum_ns, other._min_ns, other._max_ns)

    def copy(self) -> Histogram:
        """Return an equal histogram that shares no data with this one."""
        self._count_waiting()
        copied = Histogram()
        copied._counts = self._counts.copy()
        copied._rejected, copied._clamped = self._rejected, self._clamped
        copied._note(self._sum_ns, self._min_ns, self._max_ns)
        return copied

    def subtract(self, other: Histogram) -> Histogram:
        """
        Return this histogram without the values of ``other``, which must be part of it.

        Counts and the sum are exact. The extremes are those of the remaining buckets, so their
        error is up to 1/1024.

        Raises:
            ConfigError: ``other`` holds values that this histogram does not hold.
        """
        left = dict(self)
        for index, count in other:
            left[index] = left.get(index, 0) - count
        rejected = self.rejected - other.rejected
        clamped = self.clamped - other.clamped
        if min(left.values(), default=0) < 0 or rejected < 0 or clamped < 0:
            raise ConfigError(
                "the subtracted histogram has values that this one does not have",
                hint="subtract the earlier of two snapshots of one recorder from the later",
            )
        buckets = {index: count for index, count in left.items() if count}
        return Histogram.from_buckets(
            buckets.items(),
            sum_ns=self.sum_ns - other.sum_ns,
            min_ns=max(lowest_value_of(min(buckets)), self.min_ns) if buckets else None,
            max_ns=min(highest_value_of(max(buckets)), self.max_ns) if buckets else None,
            rejected=rejected,
            clamped=clamped,
        )

    def corrected_for_coordinated_omission(self, expected_interval_ns: int) -> Histogram:
        """
        Return a copy with the values added that a stalled closed-loop generator did not measure.

        A generator that waits for each response before it sends the next request sends none
        during the wait. For each value above the interval, the values of the requests missing in
        that time are added: the value less one interval, less two, and so on down to one interval.

        Args:
            expected_interval_ns: Intended interval between requests; at least 1.

        Raises:
            ConfigError: The interval is less than 1, or so short that more than a million
                additions would be needed.

        Source: HdrHistogram, ``copyCorrectedForCoordinatedOmission``.
        """
        if expected_interval_ns < 1:
            raise ConfigError(
                f"the expected interval is {expected_interval_ns} ns", hint="use 1 ns or more"
            )
        buckets = list(self)
        added = sum(highest_value_of(index) // expected_interval_ns for index, _ in buckets)
        if added > _MAX_ADDED:
            raise ConfigError(
                f"an expected interval of {expected_interval_ns} ns would need {added} additions",
                hint="give the interval at which requests were sent, in nanoseconds",
            )
        missing: Counter[int] = Counter()
        sum_ns, least_ns, most_ns = 0, HIGHEST_NS, 0
        for index, count in buckets:
            longest_ns = min(highest_value_of(index), self.max_ns) - expected_interval_ns
            for value_ns in range(longest_ns, expected_interval_ns - 1, -expected_interval_ns):
                missing[index_of(value_ns)] += count
                sum_ns += value_ns * count
                least_ns, most_ns = min(least_ns, value_ns), max(most_ns, value_ns)
        corrected = Histogram.from_buckets(
            missing.items(), sum_ns=sum_ns, min_ns=least_ns, max_ns=most_ns
        )
        corrected.merge(self)
        return corrected

    @property
    def count(self) -> int:
        """Number of values, including clamped values and excluding rejected values."""
        self._count_waiting()
        return self._counts.total

    @property
    def sum_ns(self) -> int:
        """Exact sum of the values, in nanoseconds."""
        self._count_waiting()
        return self._sum_ns

    @property
    def rejected(self) -> int:
        """Number of negative values; they are not stored."""
        self._count_waiting()
        return self._rejected

    @property
    def clamped(self) -> int:
        """Number of values above 24 hours; each is stored as 24 hours."""
        self._count_waiting()
        return self._clamped

    @property
    def min_ns(self) -> int:
        """
        The exact smallest value, in nanoseconds.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self._min_ns if self.count else self._refuse()

    @property
    def max_ns(self) -> int:
        """
        The exact largest value, in nanoseconds.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self._max_ns if self.count else self._refuse()

    @property
    def mean_ns(self) -> float:
        """
        The exact mean of the values, in nanoseconds.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        return self.sum_ns / self.count if self.count else self._refuse()

    def value_at_percentile(self, percentile: float) -> int:
        """Return the result of :meth:`values_at_percentiles` for one percentile."""
        return self.values_at_percentiles((percentile,))[0]

    def values_at_percentiles(self, percentiles: Sequence[float]) -> list[int]:
        """
        Return the value at each percentile: that percentage of the values does not exceed it.

        Args:
            percentiles: Each in [0, 100]. 0 gives the smallest value, 100 the largest.

        Returns:
            The highest value in the bucket of the true one: never below it, at most 1/1024 above
            it, never above the largest value recorded.

        Raises:
            ConfigError: A percentile is outside [0, 100].
            EmptyHistogramError: Nothing was recorded, so there is no value to return.

        Source: HdrHistogram, ``AbstractHistogram.getValueAtPercentile`` (rank by ceiling).
        """
        if not self.count:
            self._refuse()
        ranks = [rank_of(percentile, self._counts.total) for percentile in percentiles]
        return [
            self._min_ns if percentile == 0 else min(highest_value_of(index), self._max_ns)
            for percentile, index in zip(percentiles, self._counts.at_ranks(ranks), strict=True)
        ]

    def bucket_at_rank(self, rank: int) -> tuple[int, int]:
        """
        Return the lowest and the highest value that the value of a rank may have.

        Args:
            rank: From 1, the smallest value, to :attr:`count`, the largest.

        Returns:
            The limits of its bucket, within the smallest and the largest value recorded; they
            differ by at most 1/1024.
        """
        [index] = self._counts.at_ranks([rank]) if self.count >= rank else [self._refuse()]
        lowest_ns = max(lowest_value_of(index), self._min_ns)
        return lowest_ns, min(highest_value_of(index), self._max_ns)

    def fraction_above(self, limit_ns: int) -> float:
        """
        Return the fraction of values above a limit, in [0, 1].

        Args:
            limit_ns: The limit. Values in its bucket, so up to 1/1024 above it, do not count as
                above.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        if not self.count:
            self._refuse()
        return self._counts.above(index_of(limit_ns) if limit_ns >= 0 else -1) / self.count

    def to_dict(
        self, percentiles: Sequence[float] = (50, 90, 95, 99, 99.9)
    ) -> dict[str, int | None]:
        """
        Return the counts, the sum, the extremes and the percentiles as plain integers.

        Args:
            percentiles: Each in [0, 100].

        Returns:
            ``count``, ``rejected``, ``clamped``, ``sum``, ``min``, the percentiles (``p50`` and so
            on) and ``max``. The extremes are ``None`` without values, and a percentile is ``None``
            with fewer than ``ceil(100 / (100 - percentile))`` values.

        Raises:
            ConfigError: A percentile is outside [0, 100].
        """
        known = [each for each in percentiles if self.count >= values_needed(each)]
        values = dict(zip(known, self.values_at_percentiles(known) if known else (), strict=True))
        return {
            "count": self.count,
            "rejected": self._rejected,
            "clamped": self._clamped,
            "sum": self._sum_ns,
            "min": self._min_ns if self.count else None,
            **{f"p{each}": values.get(each) for each in percentiles},
            "max": self._max_ns if self.count else None,
        }

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each occupied bucket's index and count, lowest first."""
        self._count_waiting()
        return iter(self._counts)

    def __sizeof__(self) -> int:
        """Return the size of the object and its counts in bytes; the counts are most of it."""
        return object.__sizeof__(self) + self._counts.__sizeof__()

    def __eq__(self, other: object) -> bool:
        return self._held() == other._held() if isinstance(other, Histogram) else NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType] - what it holds changes

    def __repr__(self) -> str:
        return f"<Histogram of {self.count} values>"

    def _held(self) -> tuple[object, ...]:
        exact = (self.count, self._sum_ns, self._min_ns, self._max_ns)
        return (*exact, self._rejected, self._clamped, list(self._counts))

    def _count_waiting(self) -> None:
        waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            if waiting:
                self._count(waiting)

    def _count(self, values: Sequence[int]) -> None:
        for batch in batches_of(values):
            self._rejected += batch.rejected
            self._clamped += batch.clamped
            if len(batch.values):
                self._counts.add(batch)
                self._note(batch.sum_ns, batch.lowest_ns, batch.highest_ns)

    def _note(self, sum_ns: int, lowest_ns: int, highest_ns: int) -> None:
        self._sum_ns += sum_ns
        self._min_ns = min(self._min_ns, lowest_ns)
        self._max_ns = max(self._max_ns, highest_ns)

    def _refuse(self) -> NoReturn:
        raise EmptyHistogramError("the histogram holds no values")


def counts_of(histogram: Histogram) -> Counts:
    """Return the counts of a histogram's buckets; they must not be changed."""
    histogram._count_waiting()  # pyright: ignore[reportPrivateUsage] - of this module
    return histogram._counts  # pyright: ignore[reportPrivateUsage]
