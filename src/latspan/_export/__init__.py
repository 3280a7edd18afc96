"""
Export of snapshots as OTLP metrics, and of the spans of latspan's private provider.

This layer depends on the OpenTelemetry SDK; importing it imports the SDK. Modules that only some
configurations use, such as those for files and log records, are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from latspan._export._application_sink import application_sink
from latspan._export._back_off import BackOff
from latspan._export._environment import SpanBatches, event_batches, span_batches
from latspan._export._interval_export import IntervalExporter, PeriodicExport
from latspan._export._last_export import LastExport
from latspan._export._metrics import MetricsPart, metrics_parts
from latspan._export._otlp import otlp_log_exporter, otlp_metric_exporter, otlp_span_exporter
from latspan._export._otlp_metrics import MetricsExporter, OtlpMetrics
from latspan._export._otlp_spans import OtlpSpans, otlp_events, otlp_spans
from latspan._export._private_spans import PrivateSink
from latspan._export._resource import resource_of, resource_of_child
from latspan._export._self_metrics import SelfMetric, readings_of
from latspan._export._sending import SpanAnswer
from latspan._lazy import lazy_getattr

if TYPE_CHECKING:
    from latspan._export._console import ConsoleLines
    from latspan._export._event_record import event_record
    from latspan._export._histogram_log import HistogramLogs
    from latspan._export._http_session import http_session
    from latspan._export._otlp_payloads import OtlpPayloads

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

_ON_REQUEST: Final = {
    "ConsoleLines": "_console",
    "HistogramLogs": "_histogram_log",
    "event_record": "_event_record",
    "OtlpPayloads": "_otlp_payloads",
    "http_session": "_http_session",
}

__getattr__ = lazy_getattr(__name__, _ON_REQUEST)
