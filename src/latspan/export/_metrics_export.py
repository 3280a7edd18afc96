"""The thread that sends what a recorder holds to an OpenTelemetry exporter, again and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan._fork import begin_again_in_child
from latspan.errors import ConfigError
from latspan.export._environment import (
    export_interval_s,
    export_timeout_s,
    histogram_temporality,
)
from latspan.export._exponential import DEFAULT_MAX_BUCKETS, DEFAULT_SCALE, check_resolution
from latspan.export._metrics import metrics_data
from latspan.recording import Recorder, Snapshot

__all__ = ["MetricsExport"]

_logger: Final = logging.getLogger(__name__)

_T = TypeVar("_T")


class MetricsExporter(Protocol):
    """What is needed of the SDK's ``MetricExporter``."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = ...) -> MetricExportResult:
        """Send the metrics off."""
        ...

    def shutdown(self, timeout_millis: float = ...) -> None:
        """Let go of connections; nothing is exported after this."""
        ...


class MetricsExport:
    """
    Exports a recorder's histograms at an interval, on a daemon thread that starts at once.

    All exports happen on that thread, one after the other, under OpenTelemetry's suppression of
    instrumentation. What the exporter raises is logged once a type and goes no further. Under
    delta temporality an interval that could not be exported is part of the next one.

    Args:
        recorder: Under delta temporality no one else may swap its intervals.
        exporter: Where metrics go, any of the SDK's; shut down together with this.
        resource: What the process is called.
        interval_s: Greater than 0, in seconds; ``OTEL_METRIC_EXPORT_INTERVAL`` unless given.
        temporality: Since the start or since the last export;
            ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`` unless given.
        scale: In [-10, 20]; see :func:`metrics_data`.
        max_buckets: At least 2; see :func:`metrics_data`.

    Raises:
        ConfigError: ``interval_s``, ``scale`` or ``max_buckets`` is out of its range.
    """

    def __init__(
        self,
        recorder: Recorder,
        exporter: MetricsExporter,
        *,
        resource: Resource,
        interval_s: float | None = None,
        temporality: AggregationTemporality | None = None,
        scale: int = DEFAULT_SCALE,
        max_buckets: int = DEFAULT_MAX_BUCKETS,
    ) -> None:
        interval_s = export_interval_s() if interval_s is None else interval_s
        if interval_s <= 0:
            raise ConfigError(
                f"metrics cannot be exported every {interval_s} s", hint="use more than 0 s"
            )
        check_resolution(scale, max_buckets)
        self._recorder = recorder
        self._exporter = exporter
        self._resource = resource
        self._interval_s = min(interval_s, threading.TIMEOUT_MAX)
        self._timeout_ms = export_timeout_s() * 1000
        self._temporality = histogram_temporality() if temporality is None else temporality
        self._scale = scale
        self._max_buckets = max_buckets
        self._unsent: Snapshot | None = None
        self._logged: set[type[Exception]] = set()

        self._begin()
        begin_again_in_child(self._begin)
        self._thread = threading.Thread(
            target=self._run, name="latspan-metrics-export", daemon=True
        )
        self._thread.start()

    def _begin(self) -> None:
        # Guarded by the condition: flushes asked for and answered, and the last answer.
        self._condition = threading.Condition()
        self._asked = 0
        self._answered = 0
        self._exported = True
        self._stopping = False

    def force_flush(self, timeout_s: float = 10.0) -> bool:
        """
        Export now what was recorded before this call.

        Args:
            timeout_s: How long to wait for it, in seconds.

        Returns:
            Whether it was exported in time; ``False`` after :meth:`shutdown`.
        """
        with self._condition:
            if self._stopping or not self._thread.is_alive():
                return False
            self._asked += 1
            ticket = self._asked
            self._condition.notify_all()
            answered = self._condition.wait_for(lambda: self._answered >= ticket, timeout_s)
            return answered and self._exported

    def shutdown(self, timeout_s: float = 30.0) -> bool:
        """
        Export once more, end the thread and shut the exporter down.

        Args:
            timeout_s: How long to wait for it, in seconds.

        Returns:
            Whether everything was exported in time. A second call changes nothing.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._condition:
            first = not self._stopping
            self._stopping = True
            self._condition.notify_all()
        self._thread.join(timeout_s)
        if first:
            left_s = max(deadline_s - time.monotonic(), 0)
            self._guarded(lambda: self._exporter.shutdown(timeout_millis=left_s * 1000))
        return self._exported and not self._thread.is_alive()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            with self._condition:
                self._condition.wait_for(
                    lambda: self._stopping or self._asked > self._answered, self._interval_s
                )
                asked, stopping = self._asked, self._stopping
            exported = self._guarded(self._export) or False
            with self._condition:
                self._answered, self._exported = asked, exported
                self._condition.notify_all()

    def _export(self) -> bool:
        data = metrics_data(
            self._collect(),
            resource=self._resource,
            temporality=self._temporality,
            scale=self._scale,
            max_buckets=self._max_buckets,
        )
        if data.resource_metrics:
            result = self._exporter.export(data, timeout_millis=self._timeout_ms)
            if result is not MetricExportResult.SUCCESS:
                return False
        self._unsent = None
        return True

    def _collect(self) -> Snapshot:
        if self._temporality is AggregationTemporality.CUMULATIVE:
            return self._recorder.snapshot()
        interval = self._recorder.swap_interval()
        self._unsent = interval if self._unsent is None else self._unsent.followed_by(interval)
        return self._unsent

    def _guarded(self, action: Callable[[], _T]) -> _T | None:
        """Return what ``action`` returns, or ``None`` where it raises, logged once a type."""
        try:
            with suppress_instrumentation():
                return action()
        except Exception as error:
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _logger.warning("metrics could not be exported: %s", error, exc_info=True)
            return None
