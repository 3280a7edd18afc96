"""
Export of snapshots as OTLP metrics, and of the spans of latspan's private provider.

This layer depends on the OpenTelemetry SDK. Each name is imported on first use, so that the parts
of the SDK and the packages that only exporters need are imported on latspan's own threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._base.lazy import lazy_getattr

if TYPE_CHECKING:
    from latspan._live.otel.export._application_sink import application_sink
    from latspan._live.otel.export._back_off import BackOff
    from latspan._live.otel.export._console import ConsoleLines
    from latspan._live.otel.export._environment import SpanBatches, event_batches, span_batches
    from latspan._live.otel.export._histogram_log import HistogramLogs
    from latspan._live.otel.export._http_session import http_session
    from latspan._live.otel.export._interval_export import IntervalExporter, PeriodicExport
    from latspan._live.otel.export._last_export import LastExport
    from latspan._live.otel.export._metrics import MetricsPart, metrics_parts
    from latspan._live.otel.export._otlp import (
        otlp_log_exporter,
        otlp_metric_exporter,
        otlp_span_exporter,
    )
    from latspan._live.otel.export._otlp_metrics import MetricsExporter, OtlpMetrics
    from latspan._live.otel.export._otlp_payloads import OtlpPayloads
    from latspan._live.otel.export._otlp_spans import (
        OtlpSpans,
        event_record,
        otlp_events,
        otlp_spans,
    )
    from latspan._live.otel.export._private_spans import PrivateSink
    from latspan._live.otel.export._resource import resource_of, resource_of_child
    from latspan._live.otel.export._self_metrics import SelfMetric, readings_of
    from latspan._live.otel.export._sending import SpanAnswer

__all__ = [
    "BackOff",
    "ConsoleLines",
    "HistogramLogs",
    "IntervalExporter",
    "LastExport",
    "MetricsExporter",
    "MetricsPart",
    "OtlpMetrics",
    "OtlpPayloads",
    "OtlpSpans",
    "PeriodicExport",
    "PrivateSink",
    "SelfMetric",
    "SpanAnswer",
    "SpanBatches",
    "application_sink",
    "event_batches",
    "event_record",
    "http_session",
    "metrics_parts",
    "otlp_events",
    "otlp_log_exporter",
    "otlp_metric_exporter",
    "otlp_span_exporter",
    "otlp_spans",
    "readings_of",
    "resource_of",
    "resource_of_child",
    "span_batches",
]

_HOMES: Final = {
    "BackOff": "_back_off",
    "ConsoleLines": "_console",
    "HistogramLogs": "_histogram_log",
    "IntervalExporter": "_interval_export",
    "LastExport": "_last_export",
    "MetricsExporter": "_otlp_metrics",
    "MetricsPart": "_metrics",
    "OtlpMetrics": "_otlp_metrics",
    "OtlpPayloads": "_otlp_payloads",
    "OtlpSpans": "_otlp_spans",
    "PeriodicExport": "_interval_export",
    "PrivateSink": "_private_spans",
    "SelfMetric": "_self_metrics",
    "SpanAnswer": "_sending",
    "SpanBatches": "_environment",
    "application_sink": "_application_sink",
    "event_batches": "_environment",
    "event_record": "_otlp_spans",
    "http_session": "_http_session",
    "metrics_parts": "_metrics",
    "otlp_events": "_otlp_spans",
    "otlp_log_exporter": "_otlp",
    "otlp_metric_exporter": "_otlp",
    "otlp_span_exporter": "_otlp",
    "otlp_spans": "_otlp_spans",
    "readings_of": "_self_metrics",
    "resource_of": "_resource",
    "resource_of_child": "_resource",
    "span_batches": "_environment",
}

__getattr__ = lazy_getattr(__name__, _HOMES)
