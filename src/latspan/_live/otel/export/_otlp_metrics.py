"""Interval exporter for OTLP metrics: passes each interval to an OpenTelemetry exporter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan._base.clock import Clock, SystemClock
from latspan._base.slices import give_way, release
from latspan._live.otel.export._back_off import BackOff
from latspan._live.otel.export._conversion import Conversion, KeptConversion
from latspan._live.otel.export._environment import (
    export_timeout_s,
    exports_exemplars,
    histogram_temporality,
)
from latspan._live.otel.export._exponential import DEFAULT_MAX_BUCKETS, DEFAULT_SCALE
from latspan._live.otel.export._interval_export import Unsent
from latspan._live.otel.export._metrics import metrics_parts
from latspan._live.otel.export._self_metrics import About, SelfMetric, refused
from latspan._live.otel.export._sending import Sending
from latspan._model.recording import Exemplar, Recorder, SeriesKey, Snapshot

if TYPE_CHECKING:
    from latspan._live.otel.export._http_session import HttpSession


class MetricsExporter(Protocol):
    """The part of the SDK's ``MetricExporter`` that latspan uses."""

    def export(self, metrics_data: MetricsData, timeout_millis: float = ...) -> MetricExportResult:
        """Send the metrics."""
        ...

    def shutdown(self, timeout_millis: float = ...) -> None:
        """Close connections; nothing is exported after this."""
        ...


class OtlpMetrics:
    """
    Interval exporter that sends the values of each interval, or all values since the start.

    Under delta temporality, values that could not be sent are sent with the next interval. Data
    points that a receiver refuses permanently, or rejects from an accepted message, are counted and
    not sent again, as they would block all later ones. During a pause that the receiver requested,
    nothing is sent except for the last interval.

    Args:
        recorder: Recorder whose totals are sent under cumulative temporality.
        exporter: Any metric exporter of the SDK; shut down together with this object.
        resource: The resource of the process, or a function that returns it, because an
            application may set its provider, and so its resource, at any time.
        temporality: Values since the start or since the last export;
            ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE`` unless given.
        about: Function that returns readings about latspan itself.
        scale: In [-10, 20]; see :class:`~latspan._live.otel.export._conversion.Conversion`.
        max_buckets: At least 2; see there.
        session: The exporter's HTTP session, if it is one that records the last response.
        clock: The clock for the pauses that a receiver requests.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of range.
    """

    local = False

    def __init__(
        self,
        recorder: Recorder,
        exporter: MetricsExporter,
        *,
        resource: Resource | Callable[[], Resource],
        temporality: AggregationTemporality | None = None,
        about: Callable[[], Iterable[SelfMetric]] = tuple,
        scale: int = DEFAULT_SCALE,
        max_buckets: int = DEFAULT_MAX_BUCKETS,
        session: HttpSession | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._recorder = recorder
        self._exporter = exporter
        self._resource = resource if callable(resource) else lambda: resource
        self._temporality = histogram_temporality() if temporality is None else temporality
        cumulative = self._temporality is AggregationTemporality.CUMULATIVE
        self._conversion = (KeptConversion if cumulative else Conversion)(scale, max_buckets)
        self._timeout_ms = export_timeout_s() * 1000
        self._exemplars = exports_exemplars()
        self._about = About(
            lambda: (*about(), *self.readings()),
            start_epoch_ns=recorder.start_epoch_ns,
            temporality=self._temporality,
        )
        self._unsent = Unsent()
        self._waiting: dict[SeriesKey, Sequence[Exemplar]] = {}
        """The latest exemplars of each series that are not in an accepted message yet."""
        self._refused = 0
        self._sending = Sending(
            "histograms", session, exporter=exporter, items="data points", splits=False
        )
        self._back_off = BackOff(SystemClock() if clock is None else clock)

    def send(self, interval: Snapshot, *, last: bool = False) -> bool:
        """
        Send the values of an interval, or under cumulative temporality all values so far.

        Args:
            interval: The interval that follows the one of the previous call.
            last: Whether this is the last interval.

        Returns:
            Whether the receiver accepted everything.
        """
        # Under cumulative temporality, the totals up to this interval, so that a series has no
        # more new values than those of the interval.
        cumulative = self._temporality is AggregationTemporality.CUMULATIVE
        snapshot = self._recorder.totals() if cumulative else self._unsent.joined_by(interval)
        if self._exemplars:
            for key, series in interval.series.items():
                if series.exemplars:
                    self._waiting[key] = series.exemplars
                give_way()
        if not last and not self._back_off.is_over(only_requested=True):
            return False
        refused_before = self._refused
        self._conversion.begin(interval.series)
        for part in metrics_parts(
            snapshot,
            resource=self._resource(),
            temporality=self._temporality,
            exemplars=self._exemplars_of(snapshot),
            about=self._about.metrics(snapshot.end_epoch_ns),
            conversion=self._conversion,
        ):
            response = self._sending.send(partial(self._accepted, part.data))
            if response.again and not response.smaller:
                self._back_off.refused(response.retry_after_s)
                return False
            points = part.points()
            if response.taken:
                # Which points the receiver rejected is unknown.
                self._refused += min(response.refused, len(points))
                if part.has_about:
                    self._about.arrived()
            else:
                self._refused += len(part.keys)
            self._unsent.delivered(part.keys)
            for key in part.keys:
                self._waiting.pop(key, None)
            del part
            release(points)
        self._unsent.all_delivered()
        self._waiting.clear()
        self._conversion.forget_all_but(snapshot.series)
        return self._refused == refused_before

    @property
    def lost(self) -> int:
        """
        Number of data points that the receiver refused permanently under delta temporality.

        Under cumulative temporality, later data points contain the refused values.
        """
        is_delta = self._temporality is AggregationTemporality.DELTA
        return self._refused if is_delta else 0

    def _exemplars_of(self, snapshot: Snapshot) -> Mapping[SeriesKey, Sequence[Exemplar]]:
        """Return the exemplars to send with the series of a snapshot."""
        chosen: dict[SeriesKey, Sequence[Exemplar]] = {}
        for key, exemplars in self._waiting.items():
            series = snapshot.series.get(key)
            if series is not None:
                chosen[key] = _since(series.start_epoch_ns, exemplars)
            give_way()
        return chosen

    def _accepted(self, data: MetricsData) -> bool:
        result = self._exporter.export(data, timeout_millis=self._timeout_ms)
        return result is MetricExportResult.SUCCESS

    def readings(self) -> Sequence[SelfMetric]:
        """Return the number of data points that the receiver refused permanently."""
        return refused("data_points", self._refused)

    def shutdown(self, timeout_s: float) -> None:
        """Shut the exporter down within ``timeout_s`` seconds."""
        self._exporter.shutdown(timeout_millis=timeout_s * 1000)


def _since(start_epoch_ns: int, exemplars: Sequence[Exemplar]) -> Sequence[Exemplar]:
    """
    Return the exemplars recorded at or after the start of a data point.

    Source: OpenTelemetry metrics data model, "Exemplars": measurements within the point's own
    time.
    """
    return [each for each in exemplars if each.epoch_ns >= start_epoch_ns]
