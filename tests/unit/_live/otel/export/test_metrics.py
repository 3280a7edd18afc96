"""A snapshot becomes valid OTLP, and loses nothing on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics.export import AggregationTemporality
from opentelemetry.sdk.resources import Resource

from latspan._live.otel.export import MetricsPart, metrics_parts
from latspan._live.otel.export._conversion import Conversion
from latspan._model.recording import Exemplar, Series, Snapshot, key_of
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS

RESOURCE = Resource({"service.name": "test"})


def histogram_of(*values: int) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def snapshot_of(*series: tuple[str, dict[str, str], Histogram]) -> Snapshot:
    return Snapshot(
        series={
            key_of(metric, attributes): Series(histogram, 1_000, 2_000)
            for metric, attributes, histogram in series
        },
        start_epoch_ns=1_000,
        end_epoch_ns=2_000,
    )


def exported(snapshot: Snapshot, **settings: Any) -> list[MetricsPart]:
    settings = {"temporality": AggregationTemporality.CUMULATIVE, **settings}
    return list(metrics_parts(snapshot, resource=RESOURCE, **settings))


def points_of(parts: list[MetricsPart]) -> dict[str, list[Any]]:
    points: dict[str, list[Any]] = {}
    for part in parts:
        [resource_metrics] = part.data.resource_metrics
        [scope_metrics] = resource_metrics.scope_metrics
        for metric in scope_metrics.metrics:
            points.setdefault(metric.name, []).extend(metric.data.data_points)
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
                "inference_path": "chat",
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
        "latspan.inference_path": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.provider.name": "openai",
    }
    assert (point.count, point.sum, point.min, point.max) == (3, 1.750000001, 0, 1.500000001)
    assert (point.zero_count, sum(point.positive.bucket_counts), point.scale) == (1, 2, 8)
    assert (point.start_time_unix_nano, point.time_unix_nano) == (1_000, 2_000)


def test_only_what_has_a_name_outside_is_exported() -> None:
    """Each metric once, in seconds or as a ratio; other metrics stay inside."""
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
                "stall_ratio",
                "fluidity",
                "buffer_needed",
                "input_tokens",
            )
        )
    )

    [part] = exported(snapshot)

    metrics = part.data.resource_metrics[0].scope_metrics[0].metrics
    assert [(metric.name, metric.unit) for metric in metrics] == [
        ("latspan.segment.duration", "s"),
        ("latspan.time_to_first_token", "s"),
        ("latspan.time_to_first_visible_token", "s"),
        ("latspan.time_per_output_token", "s"),
        ("latspan.chunk_gap", "s"),
        ("latspan.stall.duration", "s"),
        ("latspan.stall.ratio", "1"),
        ("latspan.fluidity", "1"),
        ("latspan.buffer_needed", "s"),
    ]


def test_a_ratio_leaves_as_a_ratio() -> None:
    """Held as billionths, between 0 and 1 outside, its buckets too."""
    snapshot = snapshot_of(
        ("fluidity", {"source": "measured"}, histogram_of(500_000_000, 1_000_000_000))
    )

    [point] = points_of(exported(snapshot))["latspan.fluidity"]

    assert (point.count, point.sum, point.min, point.max) == (2, 1.5, 0.5, 1)
    base = 2 ** (2**-point.scale)
    first = base ** (point.positive.offset + 0.5)
    last = base ** (point.positive.offset + len(point.positive.bucket_counts) - 0.5)
    assert first == pytest.approx(0.5, rel=0.003)
    assert last == pytest.approx(1, rel=0.003)


def test_nothing_becomes_nothing() -> None:
    """Without series, or with empty ones, there is no metric and no resource."""
    assert exported(snapshot_of()) == []
    assert exported(snapshot_of(("chunk_gap", {}, Histogram()))) == []


def test_the_encoder_keeps_every_point() -> None:
    """Encoded as OTLP, every series and count is still there, with its scope and temporality."""
    snapshot = snapshot_of(
        *(
            ("segment", {"segment": name, "source": "measured"}, histogram_of(*range(0, 9_000, 7)))
            for name in ("queue", "prefill", "decode")
        ),
        ("time_to_first_token", {"source": "measured"}, histogram_of(5)),
    )

    [part] = exported(
        snapshot,
        temporality=AggregationTemporality.DELTA,
        conversion=Conversion(max_buckets=160),
    )
    encoded: Any = encode_metrics(part.data)

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
    assert {1_000} == {point.start_time_unix_nano for point in points}
    assert max(len(point.positive.bucket_counts) for point in points) <= 160


def test_the_conventions_metrics_have_their_bounds_and_attributes() -> None:
    """Explicit buckets as advised; the port is a number; no attribute is latspan's own."""
    attributes = {
        "operation": "chat",
        "provider": "openai",
        "model": "m",
        "server_address": "api.test",
        "server_port": "443",
    }
    snapshot = snapshot_of(
        (
            "gen_ai.client.operation.duration",
            {**attributes, "error_type": "500"},
            histogram_of(5_000_000, 10_000_000, 11_000_000, 100_000_000_000),
        ),
        (
            "gen_ai.client.token.usage",
            {**attributes, "token_type": "input"},
            histogram_of(0, 1, 2, 4, 5, 100_000_000),
        ),
    )

    points = points_of(exported(snapshot))

    [duration] = points["gen_ai.client.operation.duration"]
    [usage] = points["gen_ai.client.token.usage"]
    named = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "server.address": "api.test",
        "server.port": 443,
    }
    assert {**named, "error.type": "500"} == duration.attributes
    assert {**named, "gen_ai.token.type": "input"} == usage.attributes
    assert duration.explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert duration.bucket_counts[:3] == (2, 1, 0)
    assert (duration.bucket_counts[-1], sum(duration.bucket_counts)) == (1, 4)
    assert usage.explicit_bounds[:3] == (1, 4, 16)
    assert (usage.bucket_counts[:3], usage.bucket_counts[-1]) == ((2, 2, 1), 1)
    assert (usage.sum, usage.max) == (100_000_012, 100_000_000)


def test_the_overflow_is_marked_as_the_specification_requires() -> None:
    """One attribute says that values of many series are counted together."""
    snapshot = snapshot_of(("chunk_gap", {"overflow": "true"}, histogram_of(1)))

    [point] = points_of(exported(snapshot))["latspan.chunk_gap"]

    assert point.attributes == {"otel.metric.overflow": True, "latspan.kind": "call"}


def test_an_exemplar_leads_to_its_trace() -> None:
    """Encoded with the value in the metric's unit, the instant and both ids."""
    key = key_of("chunk_gap", {"source": "measured"})
    snapshot = snapshot_of(("chunk_gap", {"source": "measured"}, histogram_of(1_500_000_000)))

    [part] = exported(snapshot, exemplars={key: (Exemplar(1_500_000_000, 1_700, 0xA, 0xB),)})
    encoded: Any = encode_metrics(part.data)

    metric = encoded.resource_metrics[0].scope_metrics[0].metrics[0]
    [exemplar] = metric.exponential_histogram.data_points[0].exemplars
    assert (exemplar.as_double, exemplar.time_unix_nano) == (1.5, 1_700)
    assert (exemplar.trace_id[-1], exemplar.span_id[-1]) == (0xA, 0xB)


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=300),
            st.lists(st.integers(0, HIGHEST_NS), min_size=1, max_size=50),
            st.integers(0, 2),
        ),
        max_size=30,
        unique_by=lambda series: series[0],
    )
)
def test_a_large_export_is_split_and_none_is_too_large(
    drawn: list[tuple[str, list[int], int]],
) -> None:
    """Every series is in exactly one message, and each message stays below its limit."""
    limit = 50_000
    snapshot = snapshot_of(
        *(("chunk_gap", {"model": model}, histogram_of(*values)) for model, values, _ in drawn)
    )
    exemplars = {
        key_of("chunk_gap", {"model": model}): (Exemplar(1, 2**62, 2**127, 2**63),) * number
        for model, _, number in drawn
    }

    parts = exported(snapshot, exemplars=exemplars, part_bytes=limit)

    assert sorted(snapshot.series) == sorted(key for part in parts for key in part.keys)
    assert len(drawn) == sum(map(len, points_of(parts).values()))
    for part in parts:
        assert len(part.keys) == 1 or encode_metrics(part.data).ByteSize() <= limit


def test_lower_bounds_have_metrics_of_their_own() -> None:
    """Their outcome shows which are bounds and which failed; a bound of 0 is a value too."""
    cut = {"kind": "call", "outcome": "cancelled", "source": "measured"}
    snapshot = snapshot_of(
        ("time_to_first_token", {**cut, "outcome": "completed"}, histogram_of(10**8)),
        ("time_to_first_token.at_least", cut, histogram_of(5 * 10**9, 0)),
        ("stall_duration.at_least", cut, histogram_of(10**9)),
        ("segment.at_least", {**cut, "segment": "queue"}, histogram_of(7)),
        ("fluidity.at_least", cut, histogram_of(0)),
    )

    points = points_of(exported(snapshot))

    assert sorted(points) == [
        "latspan.segment.duration.at_least",
        "latspan.stall.duration.at_least",
        "latspan.time_to_first_token",
        "latspan.time_to_first_token.at_least",
    ]
    [bounds] = points["latspan.time_to_first_token.at_least"]
    assert (bounds.count, bounds.zero_count, bounds.max) == (2, 1, 5.0)
    assert bounds.attributes["latspan.outcome"] == "cancelled"


def test_overflow_series_are_told_apart_by_their_outcome() -> None:
    """Two points with the same attributes would be one."""
    overflow = {"kind": "call", "overflow": "true"}
    snapshot = snapshot_of(
        *(
            ("time_to_first_token", {**overflow, "outcome": outcome}, histogram_of(10))
            for outcome in ("completed", "cancelled")
        )
    )

    [points] = points_of(exported(snapshot)).values()

    attributes = [dict(point.attributes) for point in points]
    assert attributes == [
        {"otel.metric.overflow": True, "latspan.kind": "call", "latspan.outcome": outcome}
        for outcome in ("completed", "cancelled")
    ]
