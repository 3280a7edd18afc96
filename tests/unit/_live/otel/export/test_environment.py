"""The OpenTelemetry environment variables mean what they mean."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics.export import AggregationTemporality

from latspan._live.otel.export._environment import (
    SpanBatches,
    compresses,
    export_interval_s,
    export_timeout_s,
    histogram_temporality,
    span_batches,
)

TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"


@pytest.mark.parametrize(
    ("text", "temporality"),
    [
        ("", AggregationTemporality.CUMULATIVE),
        ("cumulative", AggregationTemporality.CUMULATIVE),
        ("DELTA", AggregationTemporality.DELTA),
        (" lowmemory ", AggregationTemporality.DELTA),
    ],
)
def test_histograms_have_the_temporality_preferred(
    text: str, temporality: AggregationTemporality, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta where deltas or low memory are asked for, cumulative otherwise."""
    monkeypatch.setenv(TEMPORALITY, text)

    assert temporality is histogram_temporality()


def test_an_unknown_temporality_is_cumulative_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A typing error does not go by unseen."""
    monkeypatch.setenv(TEMPORALITY, "DELTAS")

    assert histogram_temporality() is AggregationTemporality.CUMULATIVE
    assert "'DELTAS', which is not one of CUMULATIVE, DELTA, LOWMEMORY" in caplog.text


def test_times_are_milliseconds_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are seconds inside."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "1500")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_TIMEOUT", "250")

    assert (export_interval_s(), export_timeout_s()) == (1.5, 0.25)


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", "1e308"])
def test_an_impossible_time_is_replaced_by_the_default_and_logged(
    text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One minute between exports, as the specification has it."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", text)

    assert export_interval_s() == 60
    assert f"OTEL_METRIC_EXPORT_INTERVAL is '{text}', not a positive number" in caplog.text


def test_spans_leave_in_the_batches_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the SDK's processor does, no batch larger than what may wait."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "200")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "250")

    assert span_batches() == SpanBatches(queue=100, size=100, delay_s=0.25)


@pytest.mark.parametrize("text", ["", "0", "0.5", "-1", "many", "inf", "1e308"])
def test_batches_that_cannot_be_are_the_usual_ones(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue for no span would lose them all."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", text)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", text)

    assert span_batches() == SpanBatches(queue=2048, size=512, delay_s=5.0)


@pytest.mark.parametrize(
    ("shared", "own", "compressed"),
    [("", "", False), ("none", "", False), (" GZIP ", "", True), ("gzip", "none", False)],
)
def test_compression_is_configured_for_all_signals_or_for_one(
    shared: str, own: str, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said for one signal goes before what is said for all."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", shared)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", own)

    assert compresses("traces") is compressed


def test_an_unknown_compression_is_ignored_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "brotli")

    assert not compresses("logs")
    assert "OTEL_EXPORTER_OTLP_COMPRESSION is 'brotli', not gzip or none" in caplog.text
