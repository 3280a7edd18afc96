"""
Recorder of finished requests: counts them in histograms and returns snapshots.

**The lock.** There is one lock. It guards the interval that is being counted, the intervals that a
swap has ended and that are not in the totals yet, and the totals (see :class:`Recorder`). While it
is held, no other lock is taken, nothing is logged and no application code runs, so there is no lock
order to keep. A thread that records appends to a queue without the lock.

A thread of latspan's own holds the lock for at most about half a millisecond at a time, and gives
way to other threads only while it does not hold it (see :mod:`latspan._base.slices`). So it counts
waiting records sixteen at a time, and reads a swapped interval in parts.

The lock is reentrant, because a signal handler may request a snapshot or shut down on the very
thread that holds it, and a garbage collection may end an abandoned stream there. Such a call must
neither wait for another thread, which may be waiting for this one, nor see half-changed data:

- Counted data is read and changed only inside `_exclusive`. If a call interrupts such a block on
  the same thread, its own `_exclusive` yields `False`: a snapshot then holds everything up to the
  last complete swap, and a swap returns nothing.
- A swapped interval gets no more values. Its histograms still change until they are compacted,
  which happens inside `_exclusive`, in parts. After that, reading them changes nothing.
- The totals of a series are never changed, only replaced, in one step. Each total stores the end
time of the interval that was added last. An interval that does not end later is not added again. So
a swapped interval is added to each series once, and an interrupted swap neither omits a value nor
counts one twice.
- If `is_held_here` is true, the caller must not wait for latspan's own threads: they may be waiting
  for this one.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan._base.clock import Clock
from latspan._base.fork import register_after_fork
from latspan._base.log import logger
from latspan._base.slices import give_way, release
from latspan._model.recording._interval import Interval
from latspan._model.recording._series import Series, SeriesKey, Subject, added, copied, joined
from latspan._model.recording._snapshot import Snapshot

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord

DRAIN_THRESHOLD: Final = 512
"""
Queue length from which a recording thread counts the queue itself, if no other thread does. The
record of a long stream takes 50 kB, and about 0.1 ms to count.
"""

OVERLOADED: Final = 8 * DRAIN_THRESHOLD
"""
Queue length from which a recording thread waits for the thread that counts, to limit the memory.
"""

_COUNTED_AT_ONCE: Final = 16
"""
Number of records that are counted before the thread gives way: half a millisecond of work, more for
long streams.

Counting sixteen at a time costs a fifth more per record than counting 512.
"""

_COMPACTED_AT_ONCE: Final = 16
"""Number of series of a swapped interval that are compacted before the thread gives way."""

_ADDED_AT_ONCE: Final = 8
"""Number of series of a swapped interval that are added to the totals between two pauses."""

SERIES_LIMIT: Final = 2_000
"""
Maximum number of distinct series of one metric.

Source: OpenTelemetry metrics SDK specification, "Cardinality limits".
"""


_MAX_GAPS: Final = 256
"""Maximum number of gaps of a stream that a kept record has, unless all records are kept."""


class RecorderCounts(NamedTuple):
    """
    Numbers of rejected or changed values up to the last swap, and of unreadable records so far.

    Args:
        rejected: Negative values, which are not stored.
        clamped: Values above 24 hours, which are stored as 24 hours.
        overflowed: Values of series above the limit, by metric.
        unreadable: Number of records (not values) that could not be read.
    """

    rejected: int
    clamped: int
    overflowed: Mapping[str, int]
    unreadable: int


class Recorder:
    """
    Recorder of finished requests in histograms; any thread may use it.

    Recording appends to a queue. The queued records are counted by a thread that takes a snapshot,
    swaps the interval or calls :meth:`drain`, and by a recording thread once more than 512 wait.

    Values are counted in the running interval. A swap returns the histograms of the interval and
    adds them to the totals. The histograms of the totals are never changed: each sum is a new
    histogram. So two snapshots share the series that did not change between them.

    Args:
        clock: Clock that gives the Unix times of snapshots.
        keep: Number of the latest records to keep, without the gaps of streams that have more than
            256; ``None`` keeps all of them, complete.
        cardinality_limit: Maximum number of series per metric, at least 1. Values of further series
            are counted in overflow series, whose only attributes are ``kind``, ``outcome`` and
            ``overflow``.
    """

    def __init__(
        self, clock: Clock, *, keep: int | None = 0, cardinality_limit: int = SERIES_LIMIT
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._series_limit = cardinality_limit
        self._is_counted: Callable[[RequestRecord], bool] | None = None
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # A forked child starts empty: the parent exports what was recorded before the fork.
        self._pending: deque[RequestRecord] = deque()
        self._exemplars: deque[RequestRecord] = deque(maxlen=DRAIN_THRESHOLD)
        self._kept: deque[RequestRecord] = deque(maxlen=self._keep)
        self._totals: dict[SeriesKey, Series] = {}
        self._known: set[SeriesKey] = set()
        self._known_by_metric: Counter[str] = Counter()
        self._overflowing: set[str] = set()
        self._log_queue: deque[Callable[[], None]] = deque()
        self._rejected = self._clamped = self._unreadable = 0
        self._overflowed: Counter[str] = Counter()
        self._random = Random()  # noqa: S311 - it picks exemplars, not secrets
        self._identity = frozenset({self._random.getrandbits(64)})
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._is_busy = False
        self._awaited = False
        self._swapped: dict[Interval, int] = {}
        self._start_epoch_ns = self._epoch_ns_from(0)
        self._interval = self._interval_from(self._start_epoch_ns)

    @property
    def start_epoch_ns(self) -> int:
        """Unix time at which recording started, in nanoseconds."""
        return self._start_epoch_ns

    @property
    def is_held_here(self) -> bool:
        """Whether this thread was interrupted while it counted or read recorded data."""
        return self._holder == threading.get_ident()

    def count_only(self, is_counted: Callable[[RequestRecord], bool]) -> None:
        """
        Count only some of the records from now on.

        Args:
            is_counted: Returns whether a record is counted; called on the thread that counts.
        """
        self._is_counted = is_counted

    def record(self, record: RequestRecord) -> None:
        """
        Record one finished request.

        The call does not wait for a thread that takes a snapshot, unless more than 4,096 records
        are queued.
        """
        self._pending.append(record)
        waiting = len(self._pending)
        if waiting > OVERLOADED:
            self.drain()
        elif waiting > DRAIN_THRESHOLD and not self._awaited and self._lock.acquire(blocking=False):
            try:
                with self._drained():
                    pass
            finally:
                self._lock.release()
            self._log_queued()

    def count_values(self, columns: Iterable[tuple[SeriesKey, list[int] | array[int]]]) -> None:
        """
        Count values of which the series are known, for a reader of many records.

        Args:
            columns: Values of each series.
        """
        with self._exclusive() as whole:
            if whole:
                for key, values in columns:
                    self._interval.count_values(key, values)
        self._log_queued()

    def add_exemplar(self, record: RequestRecord) -> None:
        """
        Add a recorded request as a candidate for an exemplar, because its trace is kept after all.

        Args:
            record: The recorded request; it is not counted again.
        """
        self._exemplars.append(record)

    def waiting(self) -> int:
        """Return the number of records that wait to be counted."""
        return len(self._pending)

    def fills_up(self) -> bool:
        """Return whether 256 or more records wait; counting fewer at once costs more per record."""
        return 2 * len(self._pending) >= DRAIN_THRESHOLD

    def drain(self) -> None:
        """Count the waiting records, so that no other thread has to; give way in between."""
        left = len(self._pending)
        while left > 0:
            with self._exclusive() as whole:
                if whole:
                    self._count_waiting(min(left, _COUNTED_AT_ONCE))
            left -= _COUNTED_AT_ONCE
            self._give_way()
        self._log_queued()

    def snapshot(self) -> Snapshot:
        """
        Return everything that was recorded since the recorder was created.

        If a signal handler calls this on the very thread that is counting, the snapshot holds
        everything up to the last complete swap: what is being counted at that moment is incomplete.
        """
        with self._drained() as whole:
            end_epoch_ns = self._interval.start_epoch_ns
            series = self._up_to_the_last_swap(whole=whole)
            if whole:
                end_epoch_ns = self._epoch_ns_from(end_epoch_ns)
                for key, running in self._interval.totals(end_epoch_ns):
                    total = series.get(key)
                    series[key] = copied(running) if total is None else joined(total, running)
            records = tuple(self._kept)
        self._log_queued()
        return Snapshot(
            series=MappingProxyType(series),
            start_epoch_ns=self._start_epoch_ns,
            end_epoch_ns=end_epoch_ns,
            records=records,
            recorders=self._identity,
        )

    def totals(self) -> Snapshot:
        """
        Return everything that was recorded up to the last swap, without the running interval.

        The series are shared with the recorder: unlike :meth:`snapshot`, this method copies no
        histogram and counts nothing. The snapshot has no records.
        """
        with self._exclusive() as whole:
            return Snapshot(
                series=MappingProxyType(self._up_to_the_last_swap(whole=whole)),
                start_epoch_ns=self._start_epoch_ns,
                end_epoch_ns=self._interval.start_epoch_ns,
                recorders=self._identity,
            )

    def _up_to_the_last_swap(self, *, whole: bool) -> dict[SeriesKey, Series]:
        """
        Return a copy of the totals with the swapped intervals that are not in them yet.

        Args:
            whole: Whether swapped intervals may be compacted: not if this thread was interrupted.
        """
        series = dict(self._totals)
        for over, end_epoch_ns in self._swapped.items():
            if whole or over.is_compact:
                for key, counted in over.totals(end_epoch_ns):
                    series[key] = added(series.get(key), counted)
        return series

    def swap_interval(self) -> Snapshot:
        """
        Return what was recorded since the last swap, and begin the next interval.

        Only one exporter may call this: two callers would take each other's values. The snapshot
        has no records. If a signal handler calls this on the very thread that is counting, the
        snapshot is empty, and what is being counted is left for the next swap.
        """
        self.drain()
        with self._drained() as whole:
            over = self._interval
            end_epoch_ns = over.start_epoch_ns
            if whole:
                # An interval with values ends after it began, even if the clock stood still.
                end_epoch_ns = self._epoch_ns_from(end_epoch_ns + bool(over.histograms()))
                self._swapped[over] = end_epoch_ns
                self._interval = self._interval_from(end_epoch_ns)
        shown: dict[SeriesKey, Series] = {}
        if whole:
            self._compact(over)
            for key, series in over.totals(end_epoch_ns):
                exemplars = over.exemplars(key)
                shown[key] = replace(series, exemplars=exemplars) if exemplars else series
                self._give_way()
            self._add_to_totals()
        self._log_queued()
        return Snapshot(
            series=MappingProxyType(shown),
            start_epoch_ns=over.start_epoch_ns,
            end_epoch_ns=end_epoch_ns,
            recorders=self._identity,
        )

    def _compact(self, over: Interval) -> None:
        """Compact the histograms of a swapped interval, in parts."""
        for keys in over.keys_in_parts(_COMPACTED_AT_ONCE):
            with self._exclusive():
                over.compact(keys)
            self._give_way()
        over.is_compact = True

    def _add_to_totals(self) -> None:
        """
        Add the swapped intervals to the totals, the earliest first, in parts.

        Another thread may do the same: a series of an interval is added by the first that comes.
        """
        while self._swapped:
            with self._exclusive():
                over, end_epoch_ns = next(iter(self._swapped.items()), (None, 0))
            if over is None:
                return
            if not over.is_compact:
                self._compact(over)
            self._add(over, end_epoch_ns)

    def _add(self, over: Interval, end_epoch_ns: int) -> None:
        """Add a compact interval to the totals."""
        rejected = clamped = 0
        overflowed: Counter[str] = Counter()
        # Replaced totals are freed at the end. If each were freed when it is replaced, the garbage
        # collector, which counts what is allocated less what is freed, would run rarely, but for
        # many milliseconds each time.
        replaced: list[Series] = []
        for keys in over.keys_in_parts(_ADDED_AT_ONCE):
            with self._exclusive():
                if over not in self._swapped:
                    break
                for key, series in over.totals(end_epoch_ns, keys):
                    if (before := self._totals.get(key)) is not None:
                        replaced.append(before)
                    self._totals[key] = added(before, series)
                    rejected += series.histogram.rejected
                    clamped += series.histogram.clamped
                    if key.subject.overflow is not None:
                        overflowed[key.metric] += series.histogram.count
            self._give_way()
        with self._exclusive():
            if self._swapped.pop(over, None) is not None:
                self._rejected += rejected
                self._clamped += clamped
                self._overflowed += overflowed
        if not self.is_held_here:
            release(replaced)

    def tally(self) -> RecorderCounts:
        """Return the numbers of rejected and changed values, and of unreadable records."""
        with self._held():
            return RecorderCounts(
                self._rejected, self._clamped, dict(self._overflowed), self._unreadable
            )

    def forget_idle(self, before_epoch_ns: int) -> int:
        """
        Remove the series without new values since a time; a new value starts a series again.

        Args:
            before_epoch_ns: Unix time in nanoseconds; series whose last interval ended before it
                are removed.

        Returns:
            The number of removed series.
        """
        with self._held():
            totals = dict(self._totals)
        candidates: list[SeriesKey] = []
        for key, series in totals.items():
            if series.end_epoch_ns < before_epoch_ns:
                candidates.append(key)
            self._give_way()
        if not candidates:
            return 0
        with self._drained() as whole:
            if not whole:
                return 0
            idle = {
                key
                for key in candidates
                if self._totals.get(key) is totals[key]
                and key not in self._interval
                and not any(key in swapped for swapped in self._swapped)
            }
            self._totals = {key: series for key, series in self._totals.items() if key not in idle}
            known = idle & self._known
            self._known -= known
            self._known_by_metric.subtract(key.metric for key in known)
            return len(idle)

    def _give_way(self) -> None:
        """Give way to other threads, unless this call interrupted the thread that has the lock."""
        if not self.is_held_here:
            give_way()

    @contextmanager
    def _held(self) -> Generator[None]:
        """Hold the lock inside the block."""
        # `_awaited` keeps recording threads from taking the lock: a thread that records in a loop
        # would take it again before the waiting thread wakes up.
        self._awaited = True
        with self._lock:
            self._awaited = False
            outer, self._holder = self._holder, threading.get_ident()
            try:
                yield
            finally:
                self._holder = outer

    def _log_queued(self) -> None:
        """Log the queued messages; without the lock, as a log handler may run any code."""
        while self._log_queue and not self.is_held_here:
            try:
                log = self._log_queue.popleft()
            except IndexError:
                return
            log()

    @contextmanager
    def _exclusive(self) -> Generator[bool]:
        """
        Hold the lock inside the block, in which counted data may be read and changed.

        Yields:
            Whether the access is exclusive: ``False`` if this call interrupted such a block.
        """
        with self._held():
            if self._is_busy:
                yield False
                return
            self._is_busy = True
            try:
                yield True
            finally:
                self._is_busy = False

    @contextmanager
    def _drained(self) -> Generator[bool]:
        """
        Hold the lock inside the block, after counting the records that were queued before.

        Yields:
            Whether the running interval is complete: it is not if this thread was interrupted
            while it counted or read the interval.
        """
        with self._exclusive() as whole:
            if whole:
                # Only the records that wait now: other threads go on appending.
                self._count_waiting(len(self._pending))
            yield whole

    def _count_waiting(self, max_count: int) -> None:
        waiting = [self._pending.popleft() for _ in range(min(max_count, len(self._pending)))]
        exemplars = [self._exemplars.popleft() for _ in range(len(self._exemplars))]
        if self._is_counted is not None:
            waiting = list(filter(self._is_counted, waiting))
            exemplars = list(filter(self._is_counted, exemplars))
        self._kept.extend(waiting if self._keep is None else map(_without_long_stream, waiting))
        unreadable = self._interval.count(waiting)
        self._interval.add_exemplars(exemplars)
        if unreadable:
            self._unreadable += len(unreadable)
            self._log_queue.append(partial(_log_unreadable, *unreadable[0]))

    def _interval_from(self, start_epoch_ns: int) -> Interval:
        return Interval(start_epoch_ns, self._admitted, self._random)

    def _admitted(self, key: SeriesKey) -> SeriesKey:
        """Return the key, or its metric's overflow key if the metric has too many series."""
        if key in self._known:
            return key
        if self._known_by_metric[key.metric] < self._series_limit:
            self._known.add(key)
            self._known_by_metric[key.metric] += 1
            return key
        if key.metric not in self._overflowing:
            self._overflowing.add(key.metric)
            self._log_queue.append(
                partial(_log_overflow, metric=key.metric, cardinality_limit=self._series_limit)
            )
        # Only the outcome divides values from lower bounds.
        kind, outcome = key.subject.kind, key.subject.outcome
        return SeriesKey(key.metric, Subject(kind, outcome=outcome, overflow="true"))

    def _epoch_ns_from(self, start_epoch_ns: int) -> int:
        """Return Unix time, or ``start_epoch_ns`` if the wall clock was set back past it."""
        now_ns = self._clock.monotonic_ns() + self._clock.epoch_offset_ns()
        return max(now_ns, start_epoch_ns)


def _without_long_stream(record: RequestRecord) -> RequestRecord:
    """Return a record without the gaps of a long stream, which would take some 130 bytes each."""
    if max(len(record.chunk_gaps), len(record.output_chunk_gaps_ns)) <= _MAX_GAPS:
        return record
    return replace(record, chunk_gaps=(), output_chunk_gaps_ns=())


def _log_unreadable(record: RequestRecord, error: Exception) -> None:
    logger.error("latspan cannot read the record of %s", record.name, exc_info=error)


def _log_overflow(*, metric: str, cardinality_limit: int) -> None:
    logger.warning(
        "%s has more than %d series; further series are counted together, with overflow=true."
        " Look for an attribute with too many values among those that are set with"
        " latspan.attributes(...), or raise cardinality_limit",
        metric,
        cardinality_limit,
    )
