"""OTLP exporters, over HTTP or gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from latspan._export._environment import compresses

if TYPE_CHECKING:
    # The package of the log exporter is slow to import, and few applications send log records.
    from grpc import Compression
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from requests import Session

__all__ = ["otlp_log_exporter", "otlp_metric_exporter", "otlp_span_exporter"]

_Protocol = Literal["http/protobuf", "grpc"]


def otlp_span_exporter(
    protocol: _Protocol, endpoint: str | None, session: Session | None = None
) -> SpanExporter:
    """
    Return an OTLP exporter of spans.

    Args:
        protocol: Protocol to send with.
        endpoint: URL of the receiver; ``None`` uses the ``OTEL_*`` variables.
        session: HTTP session to send with; the exporter's own unless given.
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
    Return an OTLP exporter of metrics.

    Args:
        protocol: Protocol to send with.
        endpoint: URL of the receiver; ``None`` uses the ``OTEL_*`` variables.
        session: HTTP session to send with; the exporter's own unless given.
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
    Return an OTLP exporter of log records.

    Args:
        protocol: Protocol to send with.
        endpoint: URL of the receiver; ``None`` uses the ``OTEL_*`` variables.
        session: HTTP session to send with; the exporter's own unless given.
    """
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc._log_exporter import (
            OTLPLogExporter as GrpcLogExporter,
        )

        return GrpcLogExporter(endpoint=endpoint, compression=_grpc_compression("logs"))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    return OTLPLogExporter(endpoint=endpoint, session=session)


def _grpc_compression(signal: str) -> Compression:
    """
    Return the compression that the environment variables set.

    It is passed explicitly because the exporter itself raises if the variable is ``none``.
    """
    from grpc import Compression

    return Compression.Gzip if compresses(signal) else Compression.NoCompression
