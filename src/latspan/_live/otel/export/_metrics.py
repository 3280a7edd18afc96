"""Conversion of snapshots to OpenTelemetry metrics, split into messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ExponentialHistogram,
    Histogram,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from latspan import semconv
from latspan._base.slices import PacedList, give_way
from latspan._live.otel.export._conversion import Conversion
from latspan._live.otel.export._metric_definitions import FORMS, MetricDefinition
from latspan._live.otel.export._points import DataPoint, data_point, largest_size
from latspan._live.otel.spans import size_of_attributes
from latspan._model.recording import Exemplar, SeriesKey, Snapshot
from latspan._version import __version__

PART_BYTES: Final = 500_000
"""
Maximum size of one message, in bytes.

It is well below the 4 MiB that a gRPC server accepts by default, because a message takes fifty
times its size in memory while it is being built.
"""

SCOPE: Final = InstrumentationScope("latspan", __version__, semconv.SCHEMA_URL)

_FIXED_BYTES: Final = 4_096
"""Size of a message without resource and data points, in bytes: names, descriptions, scope."""

_NO_EXEMPLARS: Final[Mapping[SeriesKey, Sequence[Exemplar]]] = {}


@dataclass(frozen=True, slots=True)
class MetricsPart:
    """
    Part of a snapshot that is sent as one message.

    Args:
        data: The metrics, in the form that an exporter accepts.
        keys: The series in the message.
        has_about: Whether the message contains the metrics about latspan itself.
    """

    data: MetricsData
    keys: tuple[SeriesKey, ...]
    has_about: bool

    def points(self) -> list[Any]:
        """Return all data points in the message."""
        [resource_metrics] = self.data.resource_metrics
        [scope_metrics] = resource_metrics.scope_metrics
        return [point for metric in scope_metrics.metrics for point in metric.data.data_points]


def metrics_parts(
    snapshot: Snapshot,
    *,
    resource: Resource,
    temporality: AggregationTemporality,
    exemplars: Mapping[SeriesKey, Sequence[Exemplar]] = _NO_EXEMPLARS,
    about: Sequence[Metric] = (),
    conversion: Conversion | None = None,
    part_bytes: int = PART_BYTES,
) -> Iterator[MetricsPart]:
    """
    Yield a snapshot as OTLP metrics, in messages small enough for every collector.

    latspan's own metrics are exponential histograms in seconds; those of the GenAI conventions
    have the buckets that the conventions recommend. Each message is built when the caller requests
    it: all of them at once would take far more memory than the snapshot.

    Each message has a single ``ResourceMetrics`` and a single ``ScopeMetrics``: if two of them have
    an equal resource or scope, the OTLP encoder of the SDK 1.45 keeps the last and drops the first.

    Args:
        snapshot: Values since the start for cumulative temporality, of one interval for delta.
        resource: The resource of the process.
        temporality: The temporality of the snapshot.
        exemplars: Example requests per series.
        about: Metrics about latspan itself, for the first message.
        conversion: Converts series to buckets; from scratch at the default scale unless given.
        part_bytes: Maximum size of a message. A single series is sent even if it is larger.

    Yields:
        The messages; none if the snapshot has no exported series and ``about`` has no counter.
    """
    if conversion is None:
        conversion = Conversion()
    room = part_bytes - _FIXED_BYTES - size_of_attributes(resource.attributes)
    part = _Part(list(about))
    for form, key in _in_order(snapshot):
        point = data_point(
            form,
            key,
            snapshot.series[key],
            end_epoch_ns=snapshot.end_epoch_ns,
            exemplars=exemplars.get(key, ()),
            conversion=conversion,
        )
        size = largest_size(point)
        if part.keys and part.size + size > room:
            yield part.taken(resource, temporality)
        part.add(form, key, point, size)
        give_way()
    if part.keys or any(isinstance(metric.data, Sum) for metric in part.about):
        yield part.taken(resource, temporality)


def _in_order(snapshot: Snapshot) -> Iterator[tuple[MetricDefinition, SeriesKey]]:
    """Yield the exported series that have values, metric by metric."""
    keys: defaultdict[str, list[SeriesKey]] = defaultdict(list)
    for key, series in snapshot.series.items():
        if key.metric in FORMS and series.histogram.count:
            keys[key.metric].append(key)
        give_way()
    for metric, form in FORMS.items():
        for key in keys[metric]:
            yield form, key


@dataclass(slots=True)
class _Part:
    """Message under construction."""

    about: list[Metric]
    keys: list[SeriesKey] = field(default_factory=list[SeriesKey])
    points: dict[MetricDefinition, list[Any]] = field(
        default_factory=dict[MetricDefinition, list[Any]]
    )
    size: int = 0

    def add(self, form: MetricDefinition, key: SeriesKey, point: DataPoint, size: int) -> None:
        self.keys.append(key)
        self.points.setdefault(form, []).append(point)
        self.size += size

    def taken(self, resource: Resource, temporality: AggregationTemporality) -> MetricsPart:
        """Return the message and begin the next one, so that only the message has the points."""
        metrics = [
            Metric(
                form.name,
                form.description,
                form.unit,
                ExponentialHistogram(PacedList(points), temporality)
                if form.bounds is None
                else Histogram(PacedList(points), temporality),
            )
            for form, points in self.points.items()
        ]
        scope_metrics = ScopeMetrics(SCOPE, [*metrics, *self.about], semconv.SCHEMA_URL)
        data = MetricsData([ResourceMetrics(resource, [scope_metrics], resource.schema_url)])
        part = MetricsPart(data, tuple(self.keys), bool(self.about))
        self.about, self.keys, self.points, self.size = [], [], {}, 0
        return part
