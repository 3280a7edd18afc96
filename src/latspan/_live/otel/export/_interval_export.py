"""
Worker thread that takes a recorder's intervals, one after the other, and passes them to exporters.

Threads: the export thread takes and sends all intervals. A thread that calls `force_flush` only
wakes it and waits. A thread that calls `shutdown` wakes it, waits for its end, and shuts the
exporters down. If the time is up while the export thread still sends, the calling thread first
takes the last interval itself and passes it to the local exporters, which need no network. `_turn`
is held while local exporters receive an interval, so that the two threads never send to one at the
same time.

The export thread works in slices, and pauses between them so that other threads can run. It may
pause while it holds `_turn`, because `shutdown` switches the pauses off before it waits for the
thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from latspan._base.log import HISTOGRAMS_NOT_EXPORTED, logger
from latspan._base.slices import Slices, give_way, release
from latspan._live.otel.export._environment import export_interval_s
from latspan._live.otel.export._export_errors import ExportErrors
from latspan._live.otel.export._last_export import LastExport
from latspan._model.recording import Recorder, Series, SeriesKey, Snapshot
from latspan._model.units import from_unit
from latspan.errors import ConfigError, LatspanError

_T = TypeVar("_T")

_SIGNAL: Final = "histograms"

_SAVING_S: Final = 1.0
"""Maximum wait for `_turn` after the timeout of a shutdown, in seconds."""

DEFAULT_IDLE_S: Final = 3600.0
"""Time after which a series without new values is forgotten: one hour."""


class IntervalExporter(Protocol):
    """
    Exporter of intervals; undelivered values are kept and sent with the next interval.

    Attributes:
        local: Whether the exporter needs no network, so that it can be used even after the timeout.
    """

    local: bool

    @property
    def lost(self) -> int:
        """Number of items that are lost since the start; later intervals do not contain them."""
        ...

    def send(self, interval: Snapshot, *, last: bool) -> bool:
        """
        Deliver one interval, together with what is still undelivered.

        Args:
            interval: The values recorded since the previous interval.
            last: Whether this is the last interval.

        Returns:
            Whether everything so far has been delivered.
        """
        ...

    def shutdown(self, timeout_s: float) -> None:
        """Close files and connections; nothing is sent after this."""
        ...


def _do_nothing() -> None:
    pass


class Unsent:
    """
    Intervals that an exporter has received and not delivered yet, merged into one snapshot.

    Not thread-safe.
    """

    __slots__ = ("_delivered", "_snapshot")

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._delivered: set[SeriesKey] = set()
        """Series of the snapshot that were delivered."""

    def joined_by(self, interval: Snapshot) -> Snapshot:
        """Merge ``interval`` into the pending snapshot, and return the result."""
        if self._snapshot is None:
            self._snapshot = interval
        else:
            self._snapshot = self._left_of(self._snapshot).merge(interval)
        self._delivered = set()
        return self._snapshot

    def delivered(self, keys: Iterable[SeriesKey]) -> None:
        """Mark series as delivered; the next :meth:`joined_by` leaves them out."""
        if self._snapshot is not None:
            self._delivered.update(keys)

    def all_delivered(self) -> None:
        """Clear the pending snapshot after everything was delivered."""
        self._snapshot, self._delivered = None, set()

    def _left_of(self, snapshot: Snapshot) -> Snapshot:
        left: dict[SeriesKey, Series] = {}
        for key, series in snapshot.series.items():
            if key not in self._delivered:
                left[key] = series
            give_way()
        return replace(snapshot, series=MappingProxyType(left))


class PeriodicExport:
    """
    Periodic export: swaps a recorder's interval and passes it to exporters, on a daemon thread.

    The thread starts at once. It sends to one exporter after the other, with OpenTelemetry
    instrumentation suppressed. An exception of an exporter is logged once per exception type and is
    not propagated. A forked child does not have the thread and needs an object of its own.

    Args:
        recorder: Source of the intervals; only this object may swap them.
        exporters: Destinations of the intervals; shut down together with this object.
        before: Called on the thread before each interval is taken.
        interval_s: Time between two exports in seconds, greater than 0;
            ``OTEL_METRIC_EXPORT_INTERVAL`` unless given.
        idle_s: How long a series is kept after its last value was delivered, in seconds.
        slices: Division of the work into slices; of the usual length unless given.

    Raises:
        ConfigError: ``interval_s`` is out of range.
    """

    def __init__(
        self,
        recorder: Recorder,
        exporters: Sequence[IntervalExporter],
        *,
        before: Callable[[], None] = _do_nothing,
        interval_s: float | None = None,
        idle_s: float = DEFAULT_IDLE_S,
        slices: Slices | None = None,
    ) -> None:
        interval_s = export_interval_s() if interval_s is None else interval_s
        if interval_s <= 0:
            raise ConfigError(
                f"metrics cannot be exported every {interval_s} s", hint="use more than 0 s"
            )
        self._recorder = recorder
        self._exporters = tuple(exporters)
        self._local = tuple(exporter for exporter in exporters if exporter.local)
        self._others = tuple(exporter for exporter in exporters if not exporter.local)
        self._before = before
        self._interval_s = min(interval_s, threading.TIMEOUT_MAX)
        self._idle_ns = from_unit(idle_s, "s")
        self._logged: dict[object, set[type[BaseException]]] = {}
        self._deliveries = ExportErrors(_SIGNAL)
        self._last = LastExport()

        # Guarded by the condition: the numbers of the last flush requested and of the last one
        # completed, and the result of the latter.
        self._condition = threading.Condition()
        self._requested = 0
        self._done = 0
        self._exported = True
        self._lost_at_flush = self._lost()
        self._stopping = False
        self._finished = False
        # Held while local exporters receive an interval: by the export thread or, after the timeout
        # of a shutdown, by the thread that called it.
        self._turn = threading.Lock()
        self._owes = False
        """Whether exporters over a network have received values and not delivered them."""

        self._slices = Slices() if slices is None else slices
        self._thread = threading.Thread(
            target=self._run, name="latspan-interval-export", daemon=True
        )
        self._thread.start()

    def force_flush(self, timeout_s: float = 10.0) -> bool:
        """
        Export the values recorded before this call, and wait for it.

        Args:
            timeout_s: Longest time to wait, in seconds.

        Returns:
            Whether they were exported in time, and nothing was lost since the last flush; ``False``
            after :meth:`shutdown`.
        """
        with self._condition:
            if self._stopping or not self._thread.is_alive():
                return False
            self._requested += 1
            ticket = self._requested
            self._condition.notify_all()
            is_done = self._condition.wait_for(lambda: self._done >= ticket, timeout_s)
            return is_done and self._exported

    def shutdown(self, timeout_s: float = 30.0, silence_s: float | None = None) -> bool:
        """
        Export the last interval, end the thread and shut the exporters down.

        Args:
            timeout_s: Longest time to wait, in seconds.
            silence_s: Seconds after which a receiver that accepts nothing is given up.

        Returns:
            Whether everything was exported in time. A second call changes nothing.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._condition:
            first = not self._stopping
            if first:
                self._last.begin(silence_s)
            self._stopping = True
            self._slices.hurry()
            self._condition.notify_all()
        ended = self._last.wait(lambda: self._finished or not self._thread.is_alive(), timeout_s)
        if ended:
            self._thread.join()
        if first:
            if not ended:
                self._save()
            if self._owes:
                logger.warning(HISTOGRAMS_NOT_EXPORTED)
                if not ended:
                    ExportErrors.unanswered(_SIGNAL)
            for exporter in self._exporters:
                left_s = max(deadline_s - time.monotonic(), 0)
                self._guarded(exporter, partial(exporter.shutdown, left_s))
        return self._finished and self._exported

    def _save(self) -> None:
        """Pass the last interval to the local exporters, while the export thread still sends."""
        if self._turn.acquire(timeout=_SAVING_S):
            try:
                interval = self._guarded(self, self._recorder.swap_interval)
                if interval is not None:
                    self._owes |= bool(self._others and interval.series)
                    self._send(interval, self._local, last=True)
            finally:
                self._turn.release()

    def _run(self) -> None:
        with self._slices.here(), self._last.observing():
            self._export_until_stopped()
        self._finished = True
        self._last.notify()

    def _export_until_stopped(self) -> None:
        stopping = False
        while not stopping:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._stopping or self._requested > self._done, self._interval_s
                )
                requested, stopping = self._requested, self._stopping
            exported = self._guarded(self, partial(self._export, last=stopping)) or False
            with self._condition:
                if requested > self._done:
                    # A loss in an earlier export, which no caller waited for, counts too.
                    lost = self._lost()
                    exported = exported and lost == self._lost_at_flush
                    self._lost_at_flush = lost
                self._done, self._exported = requested, exported
                self._condition.notify_all()

    def _lost(self) -> int:
        return sum(exporter.lost for exporter in self._exporters)

    def _export(self, *, last: bool) -> bool:
        self._before()
        interval = self._recorder.swap_interval()
        with self._turn:
            saved = self._send(interval, self._local, last=last)
        self._owes |= bool(self._others and interval.series)
        lost_before = self._lost()
        sent = self._send(interval, self._others, last=last)
        if sent and self._owes:
            self._deliveries.arrived()
        # What the receiver refused permanently is lost already, and logged.
        self._owes &= not sent and self._lost() == lost_before
        if saved and sent:
            self._recorder.forget_idle(interval.end_epoch_ns - self._idle_ns)
        values = list(interval.series.values())
        del interval
        release(values)
        return saved and sent

    def _send(
        self, interval: Snapshot, exporters: Sequence[IntervalExporter], *, last: bool
    ) -> bool:
        sent = [
            self._guarded(exporter, partial(exporter.send, interval, last=last)) or False
            for exporter in exporters
        ]
        return all(sent)

    def _guarded(self, owner: object, action: Callable[[], _T]) -> _T | None:
        """
        Return what ``action`` returns, or ``None`` if it raises.

        An exception is logged once per type, until an action of the same ``owner`` succeeds.
        """
        try:
            with self._deliveries.one():
                result = action()
        except BaseException as error:
            # No exception may end the export thread, or nothing would be exported any more. On
            # the thread that calls `shutdown`, an interrupt is raised to the caller.
            if not isinstance(error, Exception) and threading.current_thread() is not self._thread:
                raise
            logged = self._logged.setdefault(owner, set())
            if type(error) not in logged:
                logged.add(type(error))
                # An error of latspan's own names the cause and the remedy.
                unexpected = not isinstance(error, LatspanError)
                logger.warning("histograms could not be exported: %s", error, exc_info=unexpected)
            return None
        self._logged.pop(owner, None)
        return result
