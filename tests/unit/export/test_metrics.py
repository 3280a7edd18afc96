"""A snapshot becomes valid OTLP, and loses nothing on the way."""

from __future__ import annotations

from typing import Any

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ExponentialHistogramDataPoint,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan.export import metrics_data
from latspan.histogram import Histogram
from latspan.recording import SeriesKey, Snapshot
from latspan.segments import Kind

RESOURCE = Resource({"service.name": "test"})


def histogram_of(*values: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def snapshot_of(*series: tuple[str, dict[str, str], Histogram]) -> Snapshot:
    return Snapshot(
        series={
            SeriesKey(metric, Kind.CALL, tuple(sorted(attributes.items()))): histogram
            for metric, attributes, histogram in series
        },
        start_epoch_ns=1_000,
        end_epoch_ns=2_000,
    )


def exported(snapshot: Snapshot) -> MetricsData:
    return metrics_data(snapshot, resource=RESOURCE, temporality=AggregationTemporality.CUMULATIVE)


def points_of(data: MetricsData) -> dict[str, list[ExponentialHistogramDataPoint]]:
    [resource_metrics] = data.resource_metrics
    [scope_metrics] = resource_metrics.scope_metrics
    points: dict[str, list[ExponentialHistogramDataPoint]] = {}
    for metric in scope_metrics.metrics:
        for point in metric.data.data_points:
            assert isinstance(point, ExponentialHistogramDataPoint)
            points.setdefault(metric.name, []).append(point)
    return points


def test_a_series_becomes_a_data_point_with_exact_numbers() -> None:
    """Names and attributes are the emitted ones; count, sum and extremes are exact seconds."""
    snapshot = snapshot_of(
        (
            "segment",
            {
                "segment": "queue",
                "source": "measured",
                "side": "client",
                "outcome": "completed",
                "path": "chat",
                "model": "m",
                "provider": "openai",
            },
            histogram_of(0, 250_000_000, 1_500_000_001),
        )
    )

    [point] = points_of(exported(snapshot))["latspan.segment.duration"]

    assert point.attributes == {
        "latspan.kind": "call",
        "latspan.segment": "queue",
        "latspan.source": "measured",
        "latspan.side": "client",
        "latspan.outcome": "completed",
        "latspan.path": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.provider.name": "openai",
    }
    assert (point.count, point.sum, point.min, point.max) == (3, 1.750000001, 0, 1.500000001)
    assert (point.zero_count, sum(point.positive.bucket_counts), point.scale) == (1, 2, 8)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1_000, 2_000)


def test_series_that_look_equal_outside_are_one_data_point() -> None:
    """Attributes that are not exported may not make two points with the same attributes."""
    snapshot = snapshot_of(
        ("chunk_gap", {"source": "measured", "shard": "1"}, histogram_of(1_000)),
        ("chunk_gap", {"source": "measured", "shard": "2"}, histogram_of(5_000)),
        ("chunk_gap", {"source": "estimated", "shard": "2"}, histogram_of(7_000)),
    )

    points = points_of(exported(snapshot))["latspan.chunk_gap"]

    assert [point.count for point in points] == [2, 1]
    assert [histogram.count for histogram in snapshot.series.values()] == [1, 1, 1]


def test_only_what_has_a_name_outside_is_exported() -> None:
    """Each of the six metrics once, in seconds; other metrics stay inside."""
    snapshot = snapshot_of(
        *(
            (metric, {"source": "measured"}, histogram_of(1))
            for metric in (
                "segment",
                "duration",
                "time_to_first_token",
                "time_to_first_visible_token",
                "time_per_output_token",
                "chunk_gap",
                "chunk_gap_max",
                "stall_count",
                "stall_duration",
                "input_tokens",
            )
        )
    )

    data = exported(snapshot)

    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    assert [(metric.name, metric.unit) for metric in metrics] == [
        ("latspan.segment.duration", "s"),
        ("latspan.time_to_first_token", "s"),
        ("latspan.time_to_first_visible_token", "s"),
        ("latspan.time_per_output_token", "s"),
        ("latspan.chunk_gap", "s"),
        ("latspan.stall.duration", "s"),
    ]


def test_nothing_becomes_nothing() -> None:
    """Without series, or with empty ones, there is no metric and no resource."""
    assert exported(snapshot_of()).resource_metrics == []
    assert exported(snapshot_of(("chunk_gap", {}, Histogram()))).resource_metrics == []


def test_the_encoder_keeps_every_point() -> None:
    """Encoded as OTLP, every series and count is still there, with its scope and temporality."""
    snapshot = snapshot_of(
        *(
            ("segment", {"segment": name, "source": "measured"}, histogram_of(*range(0, 9_000, 7)))
            for name in ("queue", "prefill", "decode")
        ),
        ("time_to_first_token", {"source": "measured"}, histogram_of(5)),
    )

    data = metrics_data(
        snapshot,
        resource=RESOURCE,
        temporality=AggregationTemporality.DELTA,
        start_epoch_ns=1_500,
        max_buckets=160,
    )
    encoded: Any = encode_metrics(data)

    [resource_metrics] = encoded.resource_metrics
    [scope_metrics] = resource_metrics.scope_metrics
    points = [
        point
        for metric in scope_metrics.metrics
        for point in metric.exponential_histogram.data_points
    ]
    assert scope_metrics.scope.name == "latspan"
    assert {1} == {
        metric.exponential_histogram.aggregation_temporality for metric in scope_metrics.metrics
    }
    assert [point.count for point in points] == [1286, 1286, 1286, 1]
    assert [point.zero_count + sum(point.positive.bucket_counts) for point in points] == [
        1286,
        1286,
        1286,
        1,
    ]
    assert {1_500} == {point.start_time_unix_nano for point in points}
    assert max(len(point.positive.bucket_counts) for point in points) <= 160
