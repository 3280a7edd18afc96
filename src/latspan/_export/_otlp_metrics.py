"""The outlet for OTLP metrics: what an interval adds, on its way to an exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan._clock import Clock, SystemClock
from latspan._export._back_off import BackOff
from latspan._export._environment import export_timeout_s, exports_exemplars, histogram_temporality
from latspan._export._exponential import DEFAULT_MAX_BUCKETS, DEFAULT_SCALE, check_resolution
from latspan._export._metrics import metrics_parts
from latspan._export._pending import Unsent
from latspan._export._self_metrics import About, Reading, refused
from latspan._export._sending import Sending
from latspan._recording import Exemplar, Recorder, SeriesKey, Snapshot

if TYPE_CHECKING:
    from latspan._export._http_session import HttpSession

__all__ = ["MetricsExporter", "OtlpMetrics"]


class MetricsExporter(Protocol):
    """What is needed of the SDK's ``MetricExporter``."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = ...) -> MetricExportResult:
        """Send the metrics off."""
        ...

    def shutdown(self, timeout_millis: float = ...) -> None:
        """Let go of connections; nothing is exported after this."""
        ...


class OtlpMetrics:
    """
    Sends each interval's values, or all values since the start, to an OpenTelemetry exporter.

    Under delta temporality what could not be sent is sent with the next interval. What a receiver
    refuses for good is counted and not sent again: it would stop all that come after. A receiver
    that asked to be left alone is, but for the last interval.

    Args:
        recorder: Whose totals are sent under cumulative temporality.
        exporter: Where metrics go, any of the SDK's; shut down together with this.
        resource: What the process is called, or what returns that; an application may set its
            provider, and so its resource, at any time.
        temporality: Since the start or since the last export;
            ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`` unless given.
        about: Reads what there is to say about latspan itself.
        scale: In [-10, 20]; see :func:`~latspan._export._metrics.metrics_parts`.
        max_buckets: At least 2; see there.
        session: What the exporter sends with, where that tells what it was answered.
        clock: The time, for the pauses that a receiver asks for.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of its range.
    """

    local = False

    def __init__(
        self,
        recorder: Recorder,
        exporter: MetricsExporter,
        *,
        resource: Resource | Callable[[], Resource],
        temporality: AggregationTemporality | None = None,
        about: Callable[[], Iterable[Reading]] = tuple,
        scale: int = DEFAULT_SCALE,
        max_buckets: int = DEFAULT_MAX_BUCKETS,
        session: HttpSession | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_resolution(scale, max_buckets)
        self._recorder = recorder
        self._exporter = exporter
        self._resource = resource if callable(resource) else lambda: resource
        self._temporality = histogram_temporality() if temporality is None else temporality
        self._scale = scale
        self._max_buckets = max_buckets
        self._timeout_ms = export_timeout_s() * 1000
        self._exemplars = exports_exemplars()
        self._about = About(
            lambda: (*about(), *self.readings()),
            start_epoch_ns=recorder.start_epoch_ns,
            temporality=self._temporality,
        )
        self._unsent = Unsent()
        self._waiting: dict[SeriesKey, Sequence[Exemplar]] = {}
        """The latest examples of each series that no message was taken with yet."""
        self._refused = 0
        self._sending = Sending("histograms", session)
        self._back_off = BackOff(SystemClock() if clock is None else clock)

    def send(self, interval: Snapshot, *, last: bool = False) -> bool:
        """
        Send what an interval adds.

        Args:
            interval: The one after that of the last call.
            last: Whether there will be no other.

        Returns:
            Whether all of it was taken.
        """
        cumulative = self._temporality is AggregationTemporality.CUMULATIVE
        snapshot = self._recorder.snapshot() if cumulative else self._unsent.joined_by(interval)
        if self._exemplars:
            self._waiting |= {
                key: series.exemplars for key, series in interval.series.items() if series.exemplars
            }
        if not last and not self._back_off.is_over(asked_alone=True):
            return False
        refused_before = self._refused
        for part in metrics_parts(
            snapshot,
            resource=self._resource(),
            temporality=self._temporality,
            exemplars={
                key: _since(snapshot.series[key].start_epoch_ns, exemplars)
                for key, exemplars in self._waiting.items()
                if key in snapshot.series
            },
            about=self._about.metrics(snapshot.end_epoch_ns),
            scale=self._scale,
            max_buckets=self._max_buckets,
        ):
            answer = self._sending.send(partial(self._taken, part.data))
            if answer.again and not answer.smaller:
                self._back_off.not_taken(answer.asked_s)
                return False
            if not answer.taken:
                self._refused += len(part.keys)
            elif part.has_about:
                self._about.arrived()
            self._unsent.delivered(part.keys)
            for key in part.keys:
                self._waiting.pop(key, None)
        self._unsent.all_delivered()
        self._waiting.clear()
        return self._refused == refused_before

    def _taken(self, data: MetricsData) -> bool:
        result = self._exporter.export(data, timeout_millis=self._timeout_ms)
        return result is MetricExportResult.SUCCESS

    def readings(self) -> Sequence[Reading]:
        """Return how many data points were refused for good."""
        return refused("data_points", self._refused)

    def shutdown(self, timeout_s: float) -> None:
        """Shut the exporter down, in so many seconds."""
        self._exporter.shutdown(timeout_millis=timeout_s * 1000)


def _since(start_epoch_ns: int, exemplars: Sequence[Exemplar]) -> Sequence[Exemplar]:
    """
    Return the examples that a point which begins then was made of.

    Source: OpenTelemetry metrics data model, "Exemplars": measurements of the point's own time.
    """
    return [each for each in exemplars if each.epoch_ns >= start_epoch_ns]
