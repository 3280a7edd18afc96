"""The recorder: takes finished requests in, gives snapshots out."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Generator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from latspan._fork import begin_again_in_child
from latspan.clock import Clock
from latspan.histogram import Histogram
from latspan.recording._record import RequestRecord
from latspan.recording._series import SeriesKey, merge_series
from latspan.recording._snapshot import Snapshot
from latspan.recording._values import values_of

__all__ = ["PENDING_LIMIT", "Recorder"]

PENDING_LIMIT: Final = 512
"""How many records may wait: a long stream's takes 50 kB, and draining it some 0.1 ms."""


class Recorder:
    """
    Collects finished requests into histograms; safe to use from many threads.

    Recording is an append. The arithmetic is done by whoever asks for a snapshot, and by the
    recording thread once more than 512 records wait.

    Args:
        clock: Places snapshots on the calendar.
        keep: How many of the latest records to keep as they are; ``None`` keeps all of them.
    """

    def __init__(self, clock: Clock, *, keep: int | None = 0) -> None:
        self._clock = clock
        self._keep = keep
        self._begin()
        begin_again_in_child(self._begin)

    def _begin(self) -> None:
        # A forked child starts empty: what was recorded before is the parent's to export.
        self._pending: deque[RequestRecord] = deque()
        self._kept: deque[RequestRecord] = deque(maxlen=self._keep)
        self._before_interval: dict[SeriesKey, Histogram] = {}
        self._interval: dict[SeriesKey, Histogram] = {}
        # Reentrant, because a garbage collection inside the lock may end an abandoned stream,
        # whose record then arrives on the thread that holds the lock.
        self._lock = threading.RLock()
        self._lock_is_held = False
        self._start_epoch_ns = self._interval_start_epoch_ns = self._epoch_ns_from(0)

    def record(self, record: RequestRecord) -> None:
        """Take in one finished request."""
        self._pending.append(record)
        if len(self._pending) > PENDING_LIMIT:
            self.drain()

    def drain(self) -> None:
        """Count what waits, so that nobody else has to."""
        with self._drained():
            pass

    def snapshot(self) -> Snapshot:
        """Return everything since the recorder was made; changes nothing."""
        with self._drained():
            series = merge_series(merge_series({}, self._before_interval), self._interval)
            return Snapshot(
                series=MappingProxyType(series),
                start_epoch_ns=self._start_epoch_ns,
                end_epoch_ns=self._epoch_ns_from(self._start_epoch_ns),
                records=tuple(self._kept),
            )

    def swap_interval(self) -> Snapshot:
        """
        Return what came since the last swap, and begin the next interval.

        Two callers would take each other's values, so this is for one exporter alone. The
        snapshot carries no records.
        """
        with self._drained():
            interval, self._interval = self._interval, {}
            merge_series(self._before_interval, interval)
            start_epoch_ns = self._interval_start_epoch_ns
            self._interval_start_epoch_ns = self._epoch_ns_from(start_epoch_ns)
            return Snapshot(
                series=MappingProxyType(interval),
                start_epoch_ns=start_epoch_ns,
                end_epoch_ns=self._interval_start_epoch_ns,
            )

    @contextmanager
    def _drained(self) -> Generator[None]:
        """Hold the lock, with every record that waited when it was taken counted."""
        with self._lock:
            if self._lock_is_held:
                yield
                return
            self._lock_is_held = True
            try:
                self._drain()
                yield
            finally:
                self._lock_is_held = False

    def _drain(self) -> None:
        values: defaultdict[SeriesKey, list[int]] = defaultdict(list)
        # As many as wait now: others go on appending.
        for _ in range(len(self._pending)):
            record = self._pending.popleft()
            self._kept.append(record)
            for key, more in values_of(record):
                values[key] += more
        for key, values_ns in values.items():
            self._interval.setdefault(key, Histogram()).record_many(values_ns)

    def _epoch_ns_from(self, start_epoch_ns: int) -> int:
        """Return Unix time, or ``start_epoch_ns`` where the wall clock was set back past it."""
        now_ns = self._clock.monotonic_ns() + self._clock.epoch_offset_ns()
        return max(now_ns, start_epoch_ns)
