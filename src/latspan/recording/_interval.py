"""What came since the last swap: histograms that are still being written to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random

from latspan.histogram import Histogram
from latspan.recording._exemplars import Candidates, Exemplar
from latspan.recording._record import RequestRecord
from latspan.recording._series import Series, SeriesKey
from latspan.recording._values import values_of

__all__ = ["Interval"]


class Interval:
    """
    Series in the making. Not thread-safe: the recorder guards it with a lock.

    Args:
        start_epoch_ns: Unix time at which it begins, in nanoseconds.
        admit: Returns under which key a series that is new to the interval is counted.
        random: Picks typical requests.
    """

    __slots__ = ("_admit", "_candidates", "_histograms", "_keys", "_random", "start_epoch_ns")

    def __init__(
        self, start_epoch_ns: int, admit: Callable[[SeriesKey], SeriesKey], random: Random
    ) -> None:
        self.start_epoch_ns = start_epoch_ns
        self._admit = admit
        self._random = random
        self._histograms: dict[SeriesKey, Histogram] = {}
        self._candidates: dict[SeriesKey, Candidates] = {}

    def count(self, records: Iterable[RequestRecord]) -> None:
        """Count finished requests, all values of a series together."""
        values: defaultdict[SeriesKey, list[int]] = defaultdict(list)
        for record in records:
            for wanted, more in values_of(record):
                known = wanted in self._histograms or wanted in values
                key = wanted if known else self._admit(wanted)
                values[key] += more
                if record.sampled:
                    candidates = self._candidates.get(key)
                    if candidates is None:
                        candidates = self._candidates[key] = Candidates(self._random)
                    candidates.offer(record, more)
        for key, values_ns in values.items():
            histogram = self._histograms.get(key)
            if histogram is None:
                histogram = self._histograms[key] = Histogram()
            if len(values_ns) == 1:
                histogram.record(values_ns[0])
            else:
                histogram.record_many(values_ns)

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._histograms

    def totals(self, end_epoch_ns: int) -> Iterator[tuple[SeriesKey, Series]]:
        """
        Yield what it holds; the histograms are its own, and change when it counts more.

        Args:
            end_epoch_ns: Unix time up to which it has counted, in nanoseconds.
        """
        for key, histogram in self._histograms.items():
            # Whoever reads it from now on shall change nothing.
            histogram.settle()
            yield key, Series(histogram, self.start_epoch_ns, end_epoch_ns)

    def exemplars(self, key: SeriesKey) -> tuple[Exemplar, ...]:
        """Return the slowest request of a series and a typical one, as far as there are such."""
        candidates = self._candidates.get(key)
        return () if candidates is None else candidates.chosen()
