"""OTLP exporters, over HTTP or gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from latspan._export._environment import compresses

if TYPE_CHECKING:
    # Its package is slow to load, and few send log records.
    from grpc import Compression
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from requests import Session

__all__ = ["otlp_log_exporter", "otlp_metric_exporter", "otlp_span_exporter"]

_Protocol = Literal["http/protobuf", "grpc"]


def otlp_span_exporter(
    protocol: _Protocol, endpoint: str | None, session: Session | None = None
) -> SpanExporter:
    """
    Return an exporter of spans.

    Args:
        protocol: How it sends.
        endpoint: Where to; ``None`` leaves that to the ``OTEL_*`` variables.
        session: What it is to send with over HTTP; its own unless given.
    """
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
            OTLPSpanExporter as GrpcSpanExporter,
        )

        return GrpcSpanExporter(endpoint=endpoint, compression=_grpc_compression("traces"))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint, session=session)


def otlp_metric_exporter(
    protocol: _Protocol, endpoint: str | None, session: Session | None = None
) -> MetricExporter:
    """
    Return an exporter of metrics.

    Args:
        protocol: How it sends.
        endpoint: Where to; ``None`` leaves that to the ``OTEL_*`` variables.
        session: What it is to send with over HTTP; its own unless given.
    """
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
            OTLPMetricExporter as GrpcMetricExporter,
        )

        return GrpcMetricExporter(endpoint=endpoint, compression=_grpc_compression("metrics"))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter(endpoint=endpoint, session=session)


def otlp_log_exporter(
    protocol: _Protocol, endpoint: str | None, session: Session | None = None
) -> LogRecordExporter:
    """
    Return an exporter of log records.

    Args:
        protocol: How it sends.
        endpoint: Where to; ``None`` leaves that to the ``OTEL_*`` variables.
        session: What it is to send with over HTTP; its own unless given.
    """
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
            OTLPLogExporter as GrpcLogExporter,
        )

        return GrpcLogExporter(endpoint=endpoint, compression=_grpc_compression("logs"))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter(endpoint=endpoint, session=session)


def _grpc_compression(signal: str) -> Compression:
    """Return what the environment says: the exporter itself raises where it says ``none``."""
    from grpc import Compression

    return Compression.Gzip if compresses(signal) else Compression.NoCompression
