"""The recorder: takes finished requests in, gives snapshots out."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from latspan._fork import begin_again_in_child
from latspan._log import logger
from latspan.clock import Clock
from latspan.histogram import Histogram
from latspan.recording._interval import Interval
from latspan.recording._record import RequestRecord
from latspan.recording._series import Series, SeriesKey, Subject, add_series
from latspan.recording._snapshot import Snapshot

__all__ = ["PENDING_LIMIT", "SERIES_LIMIT", "Recorder", "Tally"]

PENDING_LIMIT: Final = 512
"""How many records may wait: a long stream's takes 50 kB, and draining it some 0.1 ms."""

OVERLOADED: Final = 8 * PENDING_LIMIT
"""From how many on whoever records waits for whoever counts, rather than fill the memory."""

SERIES_LIMIT: Final = 2_000
"""
Series of one metric that are told apart.

Source: OpenTelemetry metrics SDK specification, "Cardinality limits".
"""


class Tally(NamedTuple):
    """
    What became of values that could not be counted as they were, up to the last swap.

    Args:
        rejected: Negative ones, which are held nowhere.
        clamped: Those above 24 hours, which are held as 24 hours.
        overflowed: Those of series above the limit, by metric.
        unreadable: Records, not values, that could not be read at all.
    """

    rejected: int
    clamped: int
    overflowed: Mapping[str, int]
    unreadable: int


class Recorder:
    """
    Collects finished requests into histograms; safe to use from many threads.

    Recording is an append. The arithmetic is done by whoever asks for a snapshot, and by the
    recording thread once more than 512 records wait.

    Values are counted in the running interval. A swap hands its histograms over and adds them to
    the totals, whose histograms are never written to: each sum is a new one. So snapshots share
    what did not change, and cost what did.

    Args:
        clock: Places snapshots on the calendar.
        keep: How many of the latest records to keep as they are; ``None`` keeps all of them.
        series_limit: How many series of one metric are told apart, at least 1. What comes under
            further keys is counted in one series more, whose only attributes are ``kind`` and
            ``overflow``.
    """

    def __init__(
        self, clock: Clock, *, keep: int | None = 0, series_limit: int = SERIES_LIMIT
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._series_limit = series_limit
        self._begin()
        begin_again_in_child(self._begin)

    def _begin(self) -> None:
        # A forked child starts empty: what was recorded before is the parent's to export.
        self._pending: deque[RequestRecord] = deque()
        self._examples: deque[RequestRecord] = deque(maxlen=PENDING_LIMIT)
        self._kept: deque[RequestRecord] = deque(maxlen=self._keep)
        self._totals: dict[SeriesKey, Series] = {}
        self._known: set[SeriesKey] = set()
        self._known_by_metric: Counter[str] = Counter()
        self._overflowing: set[str] = set()
        self._to_warn_of: deque[str] = deque()
        self._rejected = self._clamped = self._unreadable = 0
        self._overflowed: Counter[str] = Counter()
        self._random = Random()  # noqa: S311 - it picks examples, not secrets
        # Taken in this order. Both are reentrant: a signal handler may ask for a snapshot on the
        # thread that is taking one, and a garbage collection inside the second may end an
        # abandoned stream, whose record then arrives on the thread that holds it.
        self._totals_lock = threading.RLock()
        self._lock = threading.RLock()
        self._lock_is_held = False
        self._awaited = False
        self._start_epoch_ns = self._epoch_ns_from(0)
        self._interval = self._interval_from(self._start_epoch_ns)

    @property
    def start_epoch_ns(self) -> int:
        """Unix time since when it records, in nanoseconds."""
        return self._start_epoch_ns

    def record(self, record: RequestRecord) -> None:
        """
        Take in one finished request.

        It does not wait for whoever takes a snapshot, unless 4,096 records wait already.
        """
        self._pending.append(record)
        waiting = len(self._pending)
        if waiting > OVERLOADED:
            self.drain()
        elif waiting > PENDING_LIMIT and not self._awaited and self._lock.acquire(blocking=False):
            try:
                with self._drained():
                    pass
            finally:
                self._lock.release()
            self._warn_of_overflow()

    def exemplify(self, record: RequestRecord) -> None:
        """
        Consider a request that was recorded before as an example: its trace is kept after all.

        Args:
            record: What was recorded, which is not counted once more.
        """
        self._examples.append(record)

    def waiting(self) -> int:
        """Return how many records wait to be counted."""
        return len(self._pending)

    def fills_up(self) -> bool:
        """Return whether half as many wait as may; fewer are dearer to count, one by one."""
        return 2 * len(self._pending) >= PENDING_LIMIT

    def drain(self) -> None:
        """Count what waits, so that nobody else has to."""
        with self._drained():
            pass
        self._warn_of_overflow()

    def snapshot(self) -> Snapshot:
        """
        Return everything since the recorder was made; changes nothing.

        Asked for by a signal handler on the very thread that is counting, it is everything up to
        the last swap: what is being counted at that moment is not whole.
        """
        with self._totals_lock, self._drained() as whole:
            end_epoch_ns = self._interval.start_epoch_ns
            series = dict(self._totals)
            if whole:
                end_epoch_ns = self._epoch_ns_from(end_epoch_ns)
                for key, running in self._interval.totals(end_epoch_ns):
                    total = series.get(key)
                    series[key] = running.copy() if total is None else total.and_then(running)
            snapshot = Snapshot(
                series=MappingProxyType(series),
                start_epoch_ns=self._start_epoch_ns,
                end_epoch_ns=end_epoch_ns,
                records=tuple(self._kept),
            )
        self._warn_of_overflow()
        return snapshot

    def swap_interval(self) -> Snapshot:
        """
        Return what came since the last swap, and begin the next interval.

        Two callers would take each other's values, so this is for one exporter alone. The
        snapshot carries no records.
        """
        with self._totals_lock:
            with self._drained():
                over = self._interval
                end_epoch_ns = self._epoch_ns_from(over.start_epoch_ns)
                self._interval = self._interval_from(end_epoch_ns)
            # The totals are summed up while others count on.
            interval: dict[SeriesKey, Series] = {}
            totals = dict(self._totals)
            for key, series in over.totals(end_epoch_ns):
                add_series(totals, key, series)
                interval[key] = replace(series, exemplars=over.exemplars(key))
                self._tell(key, series.histogram)
            self._totals = totals
        self._warn_of_overflow()
        return Snapshot(
            series=MappingProxyType(interval),
            start_epoch_ns=over.start_epoch_ns,
            end_epoch_ns=end_epoch_ns,
        )

    def tally(self) -> Tally:
        """Return what became of values that could not be counted as they were."""
        with self._totals_lock:
            return Tally(self._rejected, self._clamped, dict(self._overflowed), self._unreadable)

    def forget_idle(self, before_epoch_ns: int) -> int:
        """
        Forget the series in which nothing came since; should it come again, they begin anew.

        Args:
            before_epoch_ns: Unix time in nanoseconds; series whose last interval ended before
                it are forgotten.

        Returns:
            How many were forgotten.
        """
        with self._totals_lock, self._drained():
            idle = [
                key
                for key, series in self._totals.items()
                if series.end_epoch_ns < before_epoch_ns and key not in self._interval
            ]
            for key in idle:
                del self._totals[key]
                if key in self._known:
                    self._known.remove(key)
                    self._known_by_metric[key.metric] -= 1
            return len(idle)

    @contextmanager
    def _drained(self) -> Generator[bool]:
        """
        Hold the lock, with every record that waited when it was taken counted.

        Yields:
            Whether the running interval is whole: not where this thread was interrupted in the
            midst of changing it.
        """
        # Whoever records in a loop would take the lock again before who waits for it wakes up.
        self._awaited = True
        with self._lock:
            self._awaited = False
            if self._lock_is_held:
                yield False
                return
            self._lock_is_held = True
            try:
                # As many as wait now: others go on appending.
                waiting = [self._pending.popleft() for _ in range(len(self._pending))]
                self._kept.extend(waiting)
                self._unreadable += self._interval.count(waiting)
                self._interval.exemplify(
                    [self._examples.popleft() for _ in range(len(self._examples))]
                )
                yield True
            finally:
                self._lock_is_held = False

    def _interval_from(self, start_epoch_ns: int) -> Interval:
        return Interval(start_epoch_ns, self._admitted, self._random)

    def _admitted(self, key: SeriesKey) -> SeriesKey:
        """Return the key, or that of its metric's overflow where the metric has too many."""
        key = key.storable()
        if key in self._known:
            return key
        if self._known_by_metric[key.metric] < self._series_limit:
            self._known.add(key)
            self._known_by_metric[key.metric] += 1
            return key
        if key.metric not in self._overflowing:
            self._overflowing.add(key.metric)
            self._to_warn_of.append(key.metric)
        return SeriesKey(key.metric, Subject(key.subject.kind, overflow="true"))

    def _warn_of_overflow(self) -> None:
        """Say which metrics have too many series; without a lock, as a log may go anywhere."""
        while self._to_warn_of:
            try:
                metric = self._to_warn_of.popleft()
            except IndexError:
                return
            logger.warning(
                "%s has more than %d series; further ones are counted together, as overflow: true."
                " Look for an attribute with too many values among those that are set with"
                " latspan.attributes(...), or raise series_limit",
                metric,
                self._series_limit,
            )

    def _tell(self, key: SeriesKey, histogram: Histogram) -> None:
        """Add an interval's odd values to the tally."""
        self._rejected += histogram.rejected
        self._clamped += histogram.clamped
        if key.subject.overflow is not None:
            self._overflowed[key.metric] += histogram.count

    def _epoch_ns_from(self, start_epoch_ns: int) -> int:
        """Return Unix time, or ``start_epoch_ns`` where the wall clock was set back past it."""
        now_ns = self._clock.monotonic_ns() + self._clock.epoch_offset_ns()
        return max(now_ns, start_epoch_ns)
