"""A sparse HDR histogram: counts by bucket, and beside them what is known exactly."""

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
from latspan.histogram._rank import rank_of

__all__ = ["Histogram"]

_WAITING: Final = 128
"""Values that may wait to be counted: a kilobyte, and counted together at half the price."""

_MOST_ADDED: Final = 1_000_000
"""Buckets that a correction may add to, lest a wrong interval keep it busy for hours."""


class Histogram:
    """
    How often which value came, to three significant digits over 0 and 1 ns to 24 hours.

    Values are integers, nanoseconds wherever they are times. Two histograms are equal when they
    hold the same. Not thread-safe: the recorder guards its histograms with a lock.
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
        # Recorded one by one and not counted yet; whoever asks has them counted first.
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
        Return a histogram of counts by bucket, as files hold them.

        Args:
            buckets: Each bucket once, and how many values it holds, at least 1.
            sum_ns: The values' sum; that of their buckets' middles, if nobody knows it.
            min_ns: The smallest value; the lowest of its bucket, if nobody knows it.
            max_ns: The largest value; the highest of its bucket, if nobody knows it.
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
            value_ns: A negative one is rejected, one above 24 hours clamped; both are counted.

        Raises:
            InvalidValueError: It is no integer.
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
        Count each of the values, as :meth:`record` does, at a quarter of its price.

        Where the application has loaded numpy, large batches go through it.

        Args:
            values_ns: In any order; a list or an array is not copied.

        Raises:
            InvalidValueError: One of them is no integer; then none is counted.
        """
        values = values_ns if isinstance(values_ns, list | array) else list(values_ns)
        if values:
            self._count(values)

    def settle(self) -> None:
        """Take as little memory as can be; until more is recorded, reading changes nothing."""
        self._count_waiting()
        self._counts.compact()

    def merge(self, other: Histogram) -> None:
        """Count everything that ``other`` holds, rejected and clamped values included."""
        other._count_waiting()
        self._count_waiting()
        self._counts.update(other._counts)
        self._rejected += other._rejected
        self._clamped += other._clamped
        self._note(other._sum_ns, other._min_ns, other._max_ns)

    def copy(self) -> Histogram:
        """Return a histogram that holds the same and shares nothing with this one."""
        self._count_waiting()
        copied = Histogram()
        copied._counts = self._counts.copy()
        copied._rejected, copied._clamped = self._rejected, self._clamped
        copied._note(self._sum_ns, self._min_ns, self._max_ns)
        return copied

    def subtract(self, other: Histogram) -> Histogram:
        """
        Return what this holds and ``other``, which is part of it, does not.

        Counts and the sum are exact; the extremes are those of the buckets that are left, so up
        to 1/1024 off.

        Raises:
            ConfigError: ``other`` holds something that this does not.
        """
        left = dict(self)
        for index, count in other:
            left[index] = left.get(index, 0) - count
        rejected = self.rejected - other.rejected
        clamped = self.clamped - other.clamped
        if min(left.values(), default=0) < 0 or rejected < 0 or clamped < 0:
            raise ConfigError(
                "what is subtracted holds values that the histogram does not",
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
        Return a histogram with the values that a stalled, closed-loop generator never sent.

        A generator that waits for each answer before it sends the next request sends none while
        it waits. For each value above the interval those that would have been sent meanwhile are
        added: the value less one interval, less two, and so on down to one interval.

        Args:
            expected_interval_ns: How often requests were to be sent; at least 1.

        Raises:
            ConfigError: It is less than 1, or so short that a million buckets would be added to.

        Source: HdrHistogram, ``copyCorrectedForCoordinatedOmission``.
        """
        if expected_interval_ns < 1:
            raise ConfigError(
                f"requests are not sent every {expected_interval_ns} ns", hint="use 1 ns or more"
            )
        buckets = list(self)
        added = sum(highest_value_of(index) // expected_interval_ns for index, _ in buckets)
        if added > _MOST_ADDED:
            raise ConfigError(
                f"an expected interval of {expected_interval_ns} ns would add {added} times",
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
        """Values held, clamped ones included, rejected ones not."""
        self._count_waiting()
        return self._counts.total

    @property
    def sum_ns(self) -> int:
        """Their exact sum."""
        self._count_waiting()
        return self._sum_ns

    @property
    def rejected(self) -> int:
        """How many values were negative; they are held nowhere."""
        self._count_waiting()
        return self._rejected

    @property
    def clamped(self) -> int:
        """How many values were above 24 hours; each is held as 24 hours."""
        self._count_waiting()
        return self._clamped

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
        """Return what :meth:`values_at_percentiles` returns, for one percentile."""
        return self.values_at_percentiles((percentile,))[0]

    def values_at_percentiles(self, percentiles: Sequence[float]) -> list[int]:
        """
        Return, for each percentile, the value that so many percent of the values do not exceed.

        Args:
            percentiles: Each in [0, 100]. 0 gives the smallest value, 100 the largest.

        Returns:
            The highest value equivalent to the true one: never below it, at most 1/1024 above
            it, never above the largest value recorded.

        Raises:
            ConfigError: A percentile is outside [0, 100].
            EmptyHistogramError: Nothing was recorded, so there is no honest number.

        Source: HdrHistogram, ``AbstractHistogram.getValueAtPercentile`` (rank by ceiling).
        """
        if not self.count:
            self._refuse()
        ranks = [rank_of(percentile, self._counts.total) for percentile in percentiles]
        return [
            self._min_ns if percentile == 0 else min(highest_value_of(index), self._max_ns)
            for percentile, index in zip(percentiles, self._counts.at_ranks(ranks), strict=True)
        ]

    def fraction_above(self, limit_ns: int) -> float:
        """
        Return the share of values that are above a limit, in [0, 1].

        Args:
            limit_ns: Values in its own bucket, so up to 1/1024 above it, do not count as above.

        Raises:
            EmptyHistogramError: Nothing was recorded.
        """
        if not self.count:
            self._refuse()
        return self._counts.above(index_of(limit_ns) if limit_ns >= 0 else -1) / self.count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each occupied bucket's index and count, lowest first."""
        self._count_waiting()
        return iter(self._counts)

    def __sizeof__(self) -> int:
        """Return how many bytes its counts take, which is nearly all of it."""
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
