"""What the OpenTelemetry environment variables say about exporting."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_COMPRESSION,
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
    OTEL_METRIC_EXPORT_INTERVAL,
    OTEL_METRIC_EXPORT_TIMEOUT,
    OTEL_METRICS_EXEMPLAR_FILTER,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality

from latspan._log import logger

__all__ = [
    "SpanBatches",
    "compresses",
    "event_batches",
    "export_interval_s",
    "export_timeout_s",
    "exports_exemplars",
    "histogram_temporality",
    "span_batches",
]


_MOST: Final = 1e12
"""Milliseconds of thirty years, and more spans than any memory holds."""

_TEMPORALITIES: Final = {
    "CUMULATIVE": AggregationTemporality.CUMULATIVE,
    "DELTA": AggregationTemporality.DELTA,
    "LOWMEMORY": AggregationTemporality.DELTA,
}


def compresses(signal: str) -> bool:
    """
    Return whether what is exported is compressed.

    Source: OpenTelemetry specification, ``OTEL_EXPORTER_OTLP_COMPRESSION``, ``gzip`` or ``none``;
    what nobody knows is warned of and ignored.

    Args:
        signal: ``traces``, ``metrics`` or ``logs``, for which alone it may be said.
    """
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_COMPRESSION"
    if not os.environ.get(variable):
        variable = OTEL_EXPORTER_OTLP_COMPRESSION
    said = os.environ.get(variable, "").strip().lower()
    if said not in {"", "none", "gzip"}:
        logger.warning("%s is '%s', not gzip or none; using none", variable, said)
    return said == "gzip"


def export_interval_s() -> float:
    """
    Return how often metrics are exported, in seconds.

    Source: OpenTelemetry specification, ``OTEL_METRIC_EXPORT_INTERVAL``, 60 s unless set.
    """
    return _seconds(OTEL_METRIC_EXPORT_INTERVAL, default_ms=60_000)


def export_timeout_s() -> float:
    """
    Return how long one export may take, in seconds.

    Source: OpenTelemetry specification, ``OTEL_METRIC_EXPORT_TIMEOUT``, 30 s unless set.
    """
    return _seconds(OTEL_METRIC_EXPORT_TIMEOUT, default_ms=30_000)


def histogram_temporality() -> AggregationTemporality:
    """
    Return whether histograms are exported since the start or since the last export.

    Source: OpenTelemetry specification, ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE``:
    cumulative unless set; delta for ``DELTA`` and, where histograms go, ``LOWMEMORY``.
    """
    text = os.environ.get(OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, "").strip()
    if not text:
        return AggregationTemporality.CUMULATIVE
    temporality = _TEMPORALITIES.get(text.upper())
    if temporality is None:
        logger.warning(
            "%s is '%s', which is none of %s; exporting cumulative metrics",
            OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
            text,
            ", ".join(_TEMPORALITIES),
        )
        return AggregationTemporality.CUMULATIVE
    return temporality


def exports_exemplars() -> bool:
    """
    Return whether metrics may name traces.

    Source: OpenTelemetry specification, ``OTEL_METRICS_EXEMPLAR_FILTER``: ``trace_based`` unless
    set, and latspan names only traces that are kept, so only ``always_off`` makes a difference.
    """
    return os.environ.get(OTEL_METRICS_EXEMPLAR_FILTER, "").strip().lower() != "always_off"


@dataclass(frozen=True, slots=True)
class SpanBatches:
    """
    How spans are sent.

    Args:
        queue: How many may wait, at least 1; then the oldest are dropped.
        size: How many are sent at once at most, in [1, queue].
        delay_s: How long one waits at most until a batch is sent, more than 0.
        queue_bytes: How much may wait, encoded; then the oldest are dropped.
        size_bytes: How much is sent at once at most, encoded. A single span is sent even where it
            is larger.
    """

    queue: int
    size: int
    delay_s: float
    queue_bytes: int = 64_000_000
    size_bytes: int = 1_000_000


def span_batches() -> SpanBatches:
    """
    Return how spans are sent.

    Source: OpenTelemetry specification, ``OTEL_BSP_MAX_QUEUE_SIZE``, 2048 unless set,
    ``OTEL_BSP_MAX_EXPORT_BATCH_SIZE``, 512, and ``OTEL_BSP_SCHEDULE_DELAY``, 5 s.
    """
    return _batches("BSP", delay_ms=5000)


def event_batches() -> SpanBatches:
    """
    Return how events are sent.

    Source: OpenTelemetry specification, ``OTEL_BLRP_*``: as for spans, and 1 s of delay.
    """
    return _batches("BLRP", delay_ms=1000)


def _batches(processor: str, *, delay_ms: float) -> SpanBatches:
    prefix = f"OTEL_{processor}_"
    queue = int(_positive(f"{prefix}MAX_QUEUE_SIZE", default=2048, least=1))
    size = int(_positive(f"{prefix}MAX_EXPORT_BATCH_SIZE", default=512, least=1))
    delay_s = _seconds(f"{prefix}SCHEDULE_DELAY", default_ms=delay_ms)
    return SpanBatches(queue, min(size, queue), delay_s)


def _seconds(variable: str, *, default_ms: float) -> float:
    return _positive(variable, default=default_ms) / 1000


def _positive(variable: str, *, default: float, least: float = 0) -> float:
    """Return what ``variable`` says if it is above 0, not below ``least`` and not absurd."""
    text = os.environ.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0
    if 0 < value <= _MOST and value >= least:
        return value
    logger.warning("%s is '%s', not a positive number; using %g", variable, text, default)
    return default
