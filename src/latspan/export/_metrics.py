"""Snapshots as OpenTelemetry metrics: what a snapshot becomes when it leaves the process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from latspan import semconv
from latspan._version import __version__
from latspan.export._exponential import (
    DEFAULT_MAX_BUCKETS,
    DEFAULT_SCALE,
    ExponentialBuckets,
    exponential_buckets,
)
from latspan.histogram import Histogram
from latspan.recording import SeriesKey, Snapshot
from latspan.units import to_seconds

__all__ = ["metrics_data"]

_EXPORTED: Final[Mapping[str, tuple[str, str]]] = {
    "segment": (
        semconv.METRIC_SEGMENT_DURATION,
        "Time a request spent in one segment; a request's segments sum to its duration",
    ),
    "time_to_first_token": (
        semconv.METRIC_TIME_TO_FIRST_TOKEN,
        "From the start of a call to its first chunk that bears a token",
    ),
    "time_to_first_visible_token": (
        semconv.METRIC_TIME_TO_FIRST_VISIBLE_TOKEN,
        "From the start to the first token that is not reasoning",
    ),
    "time_per_output_token": (
        semconv.METRIC_TIME_PER_OUTPUT_TOKEN,
        "Time each output token after the first took",
    ),
    "chunk_gap": (
        semconv.METRIC_CHUNK_GAP,
        "Between the arrivals of two successive chunks that bear tokens",
    ),
    "stall_duration": (
        semconv.METRIC_STALL_DURATION,
        "By how much a stream's gaps exceeded the stall limit, summed over a request",
    ),
}
"""What leaves the process: name and description by the name inside."""

_Attributes = tuple[tuple[str, str], ...]


def metrics_data(
    snapshot: Snapshot,
    *,
    resource: Resource,
    temporality: AggregationTemporality,
    start_epoch_ns: int | None = None,
    scale: int = DEFAULT_SCALE,
    max_buckets: int = DEFAULT_MAX_BUCKETS,
) -> MetricsData:
    """
    Return a snapshot as exponential histograms in seconds.

    Everything is in one ``ResourceMetrics`` and one ``ScopeMetrics``: of two with an equal
    resource or scope the OTLP encoder of the SDK 1.45 keeps the last and drops the first.

    Args:
        snapshot: Since the start for cumulative temporality, one interval for delta.
        resource: What the process is called.
        temporality: As the snapshot was taken.
        start_epoch_ns: Since when the values count, Unix time in nanoseconds; the snapshot's
            own start unless given.
        scale: In [-10, 20]; 8 keeps the middle of a bucket within 0.3 % of a value in it.
        max_buckets: At least 2; where a histogram spans more, its scale is lowered.

    Returns:
        Without any ``ResourceMetrics`` where the snapshot has nothing that is exported.

    Raises:
        ConfigError: ``scale`` or ``max_buckets`` is out of its range.
    """
    start = snapshot.start_epoch_ns if start_epoch_ns is None else start_epoch_ns
    metrics = [
        Metric(
            name=name,
            description=description,
            unit="s",
            data=ExponentialHistogram(
                [
                    _data_point(
                        histogram,
                        exponential_buckets(histogram, scale=scale, max_buckets=max_buckets),
                        dict(attributes),
                        start_epoch_ns=start,
                        end_epoch_ns=snapshot.end_epoch_ns,
                    )
                    for attributes, histogram in points.items()
                ],
                temporality,
            ),
        )
        for metric, (name, description) in _EXPORTED.items()
        if (points := _points(snapshot, metric))
    ]
    if not metrics:
        return MetricsData([])
    scope = InstrumentationScope("latspan", __version__, semconv.SCHEMA_URL)
    scope_metrics = ScopeMetrics(scope, metrics, semconv.SCHEMA_URL)
    return MetricsData([ResourceMetrics(resource, [scope_metrics], resource.schema_url)])


def _points(snapshot: Snapshot, metric: str) -> dict[_Attributes, Histogram]:
    """Return the metric's histograms by what they are called outside; equal names are merged."""
    points: dict[_Attributes, Histogram] = {}
    for key, histogram in snapshot.series.items():
        if key.metric == metric and histogram.count:
            points.setdefault(_attributes_of(key), Histogram()).merge(histogram)
    return points


def _attributes_of(key: SeriesKey) -> _Attributes:
    named = {
        semconv.SERIES_ATTRIBUTES[name]: value
        for name, value in key.attributes
        if name in semconv.SERIES_ATTRIBUTES
    }
    return tuple(sorted({**named, semconv.LATSPAN_KIND: key.kind.value}.items()))


def _data_point(
    histogram: Histogram,
    buckets: ExponentialBuckets,
    attributes: Mapping[str, str],
    *,
    start_epoch_ns: int,
    end_epoch_ns: int,
) -> ExponentialHistogramDataPoint:
    return ExponentialHistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start_epoch_ns,
        time_unix_nano=end_epoch_ns,
        count=histogram.count,
        sum=to_seconds(histogram.sum_ns),
        scale=buckets.scale,
        zero_count=buckets.zero_count,
        positive=Buckets(buckets.offset, buckets.counts),
        negative=Buckets(0, ()),
        flags=0,
        min=to_seconds(histogram.min_ns),
        max=to_seconds(histogram.max_ns),
    )
