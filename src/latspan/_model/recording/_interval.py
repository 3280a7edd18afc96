"""Running interval: the values recorded since the last swap, in histograms that still change."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from latspan._model.recording._exemplars import Exemplar, ExemplarReservoir
from latspan._model.recording._series import Series, SeriesKey
from latspan._model.recording._waiting import Column, Waiting
from latspan.histogram import Histogram

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord


class Interval:
    """
    Series that are still being counted. Not thread-safe: the recorder guards it with a lock.

    Attributes:
        is_compact: Whether :meth:`compact` was called for every series, so that reading changes no
            state; set by the recorder.

    Args:
        start_epoch_ns: Unix time at which the interval begins, in nanoseconds.
        admit: Returns the key under which a series that is new to the interval is counted.
        random: Random generator that picks typical requests.
    """

    __slots__ = (
        "_admit",
        "_earlier_reservoirs",
        "_histograms",
        "_random",
        "_reservoirs",
        "is_compact",
        "start_epoch_ns",
    )

    def __init__(
        self, start_epoch_ns: int, admit: Callable[[SeriesKey], SeriesKey], random: Random
    ) -> None:
        self.start_epoch_ns = start_epoch_ns
        self.is_compact = False
        self._admit = admit
        self._random = random
        self._histograms: dict[SeriesKey, Histogram] = {}
        self._reservoirs: dict[SeriesKey, ExemplarReservoir] = {}
        self._earlier_reservoirs: dict[SeriesKey, ExemplarReservoir] = {}

    def count(self, records: Iterable[RequestRecord]) -> list[tuple[RequestRecord, Exception]]:
        """
        Count finished requests, all values of a series together.

        Returns:
            The requests that cannot be read and are not counted, and why; empty except after a
            bug.
        """
        unreadable: list[tuple[RequestRecord, Exception]] = []
        waiting = Waiting()
        for record in records:
            try:
                waiting.add(record, exemplar=record.sampled)
            except Exception as error:  # noqa: BLE001 - the recorder logs it
                # One unreadable record must not discard the others.
                unreadable.append((record, error))
        for key, column in waiting.columns().items():
            counted_under = self.count_values(key, column.values)
            if column.records:
                self._offer(counted_under, column, self._reservoirs)
        return unreadable

    def count_values(self, key: SeriesKey, values: list[int] | array[int]) -> SeriesKey:
        """Count the values of a series, and return the key that they are counted under."""
        histogram = self._histograms.get(key)
        if histogram is None:
            key = self._admit(key)
            histogram = self._histograms.setdefault(key, Histogram())
        if len(values) == 1:
            histogram.record(values[0])
        else:
            histogram.record_many(values)
        return key

    def add_exemplars(self, records: Iterable[RequestRecord]) -> None:
        """Add requests as candidates for the exemplars of their series."""
        waiting, earlier = Waiting(), Waiting()
        for record in records:
            with suppress(Exception):
                # Unreadable records are reported when they are counted. A record's trace may be
                # kept only after that, so the request may belong to an earlier interval.
                here = record.start_epoch_ns + record.duration_ns >= self.start_epoch_ns
                (waiting if here else earlier).add(record, exemplar=True)
        for exemplars, reservoirs in (
            (waiting, self._reservoirs),
            (earlier, self._earlier_reservoirs),
        ):
            for key, column in exemplars.columns().items():
                if key in self._histograms:
                    self._offer(key, column, reservoirs)

    def _offer(
        self, key: SeriesKey, column: Column, reservoirs: dict[SeriesKey, ExemplarReservoir]
    ) -> None:
        reservoir = reservoirs.get(key)
        if reservoir is None:
            reservoir = reservoirs[key] = ExemplarReservoir(self._random)
        reservoir.offer(column.records, column.highest, column.typical)

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._histograms

    def keys_in_parts(self, size: int) -> list[list[SeriesKey]]:
        """Return the keys of all series, at most ``size`` in a part."""
        keys = list(self._histograms)
        return [keys[begin : begin + size] for begin in range(0, len(keys), size)]

    def compact(self, keys: Iterable[SeriesKey]) -> None:
        """Compact the histograms of some series, so that reading them changes no state."""
        for key in keys:
            self._histograms[key].compact()

    def histograms(self) -> Collection[tuple[SeriesKey, Histogram]]:
        """Return the histogram of each series."""
        return self._histograms.items()

    def totals(
        self, end_epoch_ns: int, keys: Iterable[SeriesKey] | None = None
    ) -> Iterator[tuple[SeriesKey, Series]]:
        """
        Yield the series. Their histograms are not copies, and change with further values.

        Args:
            end_epoch_ns: Unix time up to which values were counted, in nanoseconds.
            keys: Keys of the series; all of them, if not given.
        """
        for key in self._histograms if keys is None else keys:
            histogram = self._histograms[key]
            if not self.is_compact:
                # Compact now, so that later reads of the histogram change no state.
                histogram.compact()
            yield key, Series(histogram, self.start_epoch_ns, end_epoch_ns)

    def exemplars(self, key: SeriesKey) -> tuple[Exemplar, ...]:
        """
        Return the slowest request of a series and a typical one, if there are any.

        Requests of earlier intervals are used only if this interval has none.
        """
        candidates = self._reservoirs.get(key) or self._earlier_reservoirs.get(key)
        return () if candidates is None else candidates.chosen()
