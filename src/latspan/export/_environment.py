"""What the OpenTelemetry environment variables say about exporting metrics."""

from __future__ import annotations

import logging
import os
from typing import Final

from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
    OTEL_METRIC_EXPORT_INTERVAL,
    OTEL_METRIC_EXPORT_TIMEOUT,
    OTEL_METRICS_EXEMPLAR_FILTER,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality

__all__ = ["export_interval_s", "export_timeout_s", "exports_exemplars", "histogram_temporality"]

_logger: Final = logging.getLogger(__name__)

_TEMPORALITIES: Final = {
    "CUMULATIVE": AggregationTemporality.CUMULATIVE,
    "DELTA": AggregationTemporality.DELTA,
    "LOWMEMORY": AggregationTemporality.DELTA,
}


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
        _logger.warning(
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


def _seconds(variable: str, *, default_ms: float) -> float:
    text = os.environ.get(variable, "").strip()
    try:
        value_ms = float(text) if text else default_ms
    except ValueError:
        value_ms = 0
    if value_ms > 0:
        return value_ms / 1000
    _logger.warning("%s is '%s', not a positive number; using %g", variable, text, default_ms)
    return default_ms / 1000
