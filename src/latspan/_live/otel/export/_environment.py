"""Export settings from the OpenTelemetry environment variables."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_COMPRESSION,
    OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
    OTEL_METRIC_EXPORT_INTERVAL,
    OTEL_METRIC_EXPORT_TIMEOUT,
    OTEL_METRICS_EXEMPLAR_FILTER,
)

from latspan._base.log import logger

if TYPE_CHECKING:
    # The threads that export metrics import this part of the SDK.
    from opentelemetry.sdk.metrics.export import AggregationTemporality

_MAX_VALUE: Final = 1e12
"""
Upper limit of a value: as milliseconds it is thirty years, as spans more than fit into memory.
"""

_TEMPORALITIES: Final = {"CUMULATIVE": "CUMULATIVE", "DELTA": "DELTA", "LOWMEMORY": "DELTA"}
"""Names of the SDK's temporalities, by the values of the variable."""


def compresses(signal: str) -> bool:
    """
    Return whether messages are compressed with gzip.

    An unknown value is logged as a warning and counts as ``none``.

    Source: OpenTelemetry specification, ``OTEL_EXPORTER_OTLP_COMPRESSION``, ``gzip`` or ``none``.

    Args:
        signal: ``traces``, ``metrics`` or ``logs``; the variable of the signal takes precedence
            over the common one.
    """
    variable = f"OTEL_EXPORTER_OTLP_{signal.upper()}_COMPRESSION"
    if not os.environ.get(variable):
        variable = OTEL_EXPORTER_OTLP_COMPRESSION
    value = os.environ.get(variable, "").strip().lower()
    if value not in {"", "none", "gzip"}:
        logger.warning("%s is '%s', not gzip or none; using none", variable, value)
    return value == "gzip"


def export_interval_s() -> float:
    """
    Return the interval between two exports of metrics, in seconds.

    Source: OpenTelemetry specification, ``OTEL_METRIC_EXPORT_INTERVAL``, 60 s unless set.
    """
    return _seconds(OTEL_METRIC_EXPORT_INTERVAL, default_ms=60_000)


def export_timeout_s() -> float:
    """
    Return the timeout of one export of metrics, in seconds.

    Source: OpenTelemetry specification, ``OTEL_METRIC_EXPORT_TIMEOUT``, 30 s unless set.
    """
    return _seconds(OTEL_METRIC_EXPORT_TIMEOUT, default_ms=30_000)


def histogram_temporality() -> AggregationTemporality:
    """
    Return the temporality of histograms: values since the start or since the last export.

    Source: OpenTelemetry specification, ``OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE``:
    cumulative unless set; delta for ``DELTA`` and, for histograms, also for ``LOWMEMORY``.
    """
    from opentelemetry.sdk.metrics.export import AggregationTemporality

    text = os.environ.get(OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE, "").strip()
    if not text:
        return AggregationTemporality.CUMULATIVE
    name = _TEMPORALITIES.get(text.upper())
    if name is None:
        logger.warning(
            "%s is '%s', which is not one of %s; exporting cumulative metrics",
            OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE,
            text,
            ", ".join(_TEMPORALITIES),
        )
        return AggregationTemporality.CUMULATIVE
    return AggregationTemporality[name]


def exports_exemplars() -> bool:
    """
    Return whether metrics may have exemplars, which refer to traces.

    Source: OpenTelemetry specification, ``OTEL_METRICS_EXEMPLAR_FILTER``: ``trace_based`` unless
    set. latspan's exemplars refer only to traces that are kept, so only ``always_off`` makes a
    difference.
    """
    return os.environ.get(OTEL_METRICS_EXEMPLAR_FILTER, "").strip().lower() != "always_off"


class SpanBatches(NamedTuple):
    """
    Limits of the span queue and of one batch.

    Args:
        queue: Maximum number of queued spans, at least 1; past it the oldest are dropped.
        size: Maximum number of spans per batch, in [1, queue].
        delay_s: Longest time a span waits until a batch is sent, in seconds, more than 0.
        queue_bytes: Maximum encoded size of the queued spans; past it the oldest are dropped.
        size_bytes: Maximum encoded size of a batch. A single span is sent even if it is larger.
    """

    queue: int
    size: int
    delay_s: float
    queue_bytes: int = 64_000_000
    size_bytes: int = 1_000_000


def span_batches() -> SpanBatches:
    """
    Return the batch settings of spans.

    Source: OpenTelemetry specification, ``OTEL_BSP_MAX_QUEUE_SIZE``, 2048 unless set,
    ``OTEL_BSP_MAX_EXPORT_BATCH_SIZE``, 512, and ``OTEL_BSP_SCHEDULE_DELAY``, 5 s.
    """
    return _batches("BSP", delay_ms=5000)


def event_batches() -> SpanBatches:
    """
    Return the batch settings of events.

    Source: OpenTelemetry specification, ``OTEL_BLRP_*``: as for spans, with a delay of 1 s.
    """
    return _batches("BLRP", delay_ms=1000)


def _batches(processor: str, *, delay_ms: float) -> SpanBatches:
    prefix = f"OTEL_{processor}_"
    queue = int(_positive(f"{prefix}MAX_QUEUE_SIZE", default=2048, minimum=1))
    size = int(_positive(f"{prefix}MAX_EXPORT_BATCH_SIZE", default=512, minimum=1))
    delay_s = _seconds(f"{prefix}SCHEDULE_DELAY", default_ms=delay_ms)
    return SpanBatches(queue, min(size, queue), delay_s)


def _seconds(variable: str, *, default_ms: float) -> float:
    return _positive(variable, default=default_ms) / 1000


def _positive(variable: str, *, default: float, minimum: float = 0) -> float:
    """
    Return the number in ``variable``, or the default if it is unset or, with a warning, invalid.

    A valid number is above 0, not below ``minimum`` and not above ``_MAX_VALUE``.
    """
    text = os.environ.get(variable, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0
    if 0 < value <= _MAX_VALUE and value >= minimum:
        return value
    logger.warning("%s is '%s', not a positive number; using %g", variable, text, default)
    return default
