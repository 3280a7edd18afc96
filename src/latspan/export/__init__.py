"""
What leaves the process: snapshots as OTLP metrics, spans of latspan's private provider.

This is the layer that knows the OpenTelemetry SDK; importing it imports the SDK.
"""

from __future__ import annotations

from latspan.export._metrics import metrics_data
from latspan.export._metrics_export import MetricsExport
from latspan.export._otlp import otlp_metric_exporter, otlp_span_exporter, resource_of
from latspan.export._private_spans import PrivateSink

__all__ = [
    "MetricsExport",
    "PrivateSink",
    "metrics_data",
    "otlp_metric_exporter",
    "otlp_span_exporter",
    "resource_of",
]
