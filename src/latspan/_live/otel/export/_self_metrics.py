"""Self-metrics: lost telemetry and queue size of latspan itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from latspan import semconv
from latspan._model.recording import Recorder

if TYPE_CHECKING:
    # The threads that export metrics import this part of the SDK.
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Metric, NumberDataPoint

_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    semconv.METRIC_DROPPED: ("Lost telemetry, by kind and reason", "{item}"),
    semconv.METRIC_TRACES_SAMPLED_OUT: ("Traces that tail sampling did not keep", "{trace}"),
    semconv.METRIC_CLAMPED: ("Values above 24 hours, which count as 24 hours", "{value}"),
    semconv.METRIC_SERIES_OVERFLOW: (
        "Values of series above the limit, which are counted together",
        "{value}",
    ),
    semconv.METRIC_QUEUE_SIZE: ("Finished requests that wait for the worker thread", "{request}"),
}

_NO_ATTRIBUTES: Final[Mapping[str, str]] = MappingProxyType({})


class SelfMetric(NamedTuple):
    """
    Reading of one self-metric.

    Args:
        metric: Name of the metric, one of :mod:`latspan.semconv`.
        value: Count since the start; for the queue, its current size.
        attributes: Attributes of the data point.
    """

    metric: str
    value: int
    attributes: Mapping[str, str] = _NO_ATTRIBUTES


def refused(signal: str, count: int) -> Sequence[SelfMetric]:
    """Return a reading for ``count`` items that a receiver refused permanently; none for 0."""
    attributes = {semconv.LATSPAN_SIGNAL: signal, semconv.LATSPAN_REASON: "refused"}
    return (SelfMetric(semconv.METRIC_DROPPED, count, attributes),) if count else ()


def readings_of(recorder: Recorder) -> Iterable[SelfMetric]:
    """Yield the readings about values that a recorder rejected, clamped or merged."""
    tally = recorder.tally()
    yield SelfMetric(
        semconv.METRIC_DROPPED,
        tally.rejected,
        {semconv.LATSPAN_SIGNAL: "values", semconv.LATSPAN_REASON: "negative"},
    )
    yield SelfMetric(
        semconv.METRIC_DROPPED,
        tally.unreadable,
        {semconv.LATSPAN_SIGNAL: "records", semconv.LATSPAN_REASON: "unreadable"},
    )
    yield SelfMetric(semconv.METRIC_CLAMPED, tally.clamped)
    for metric, count in tally.overflowed.items():
        yield SelfMetric(semconv.METRIC_SERIES_OVERFLOW, count, {semconv.LATSPAN_METRIC: metric})


class About:
    """
    Converts readings to metrics, with values since the start or since the last delivery.

    Args:
        read: Function that returns the current readings.
        start_epoch_ns: Unix time at which the counts began, in nanoseconds.
        temporality: Cumulative for values since the start, delta for those since the last delivery.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[SelfMetric]],
        *,
        start_epoch_ns: int,
        temporality: AggregationTemporality,
    ) -> None:
        self._read = read
        self._start_epoch_ns = start_epoch_ns
        self._temporality = temporality
        self._arrived: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._latest: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._latest_epoch_ns = start_epoch_ns

    def metrics(self, epoch_ns: int) -> list[Metric]:
        """
        Return the metrics; counters are included only if they counted something.

        Args:
            epoch_ns: Current Unix time, in nanoseconds.
        """
        from opentelemetry.sdk.metrics.export import Gauge, Metric, NumberDataPoint, Sum

        points: defaultdict[str, list[NumberDataPoint]] = defaultdict(list)
        self._latest_epoch_ns = epoch_ns
        for reading in self._read():
            identity = (reading.metric, tuple(sorted(reading.attributes.items())))
            value = reading.value - self._arrived.get(identity, 0)
            if reading.metric != semconv.METRIC_QUEUE_SIZE:
                self._latest[identity] = reading.value
                if not value:
                    continue
            points[reading.metric].append(
                NumberDataPoint(dict(reading.attributes), self._start_epoch_ns, epoch_ns, value)
            )
        return [
            Metric(
                name,
                *_DESCRIPTIONS[name],
                Gauge(held)
                if name == semconv.METRIC_QUEUE_SIZE
                else Sum(held, self._temporality, is_monotonic=True),
            )
            for name, held in points.items()
        ]

    def arrived(self) -> None:
        """Record that the metrics returned last were delivered."""
        if self._temporality.name == "DELTA":
            self._arrived = dict(self._latest)
            self._start_epoch_ns = self._latest_epoch_ns
