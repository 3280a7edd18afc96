"""OTLP exporters, over HTTP or gRPC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from opentelemetry.sdk.metrics.export import MetricExporter, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter

from latspan._live.otel.export._encoders import logs_in_parts, spans_in_parts, with_encoder
from latspan._live.otel.export._environment import compresses
from latspan._live.otel.export._metrics_encoder import metrics_encoder
from latspan._live.otel.export._partial_success import ResponseKeeper

if TYPE_CHECKING:
    # The package of the log exporter is slow to import, and few applications send log records.
    from grpc import Compression
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from requests import Session

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
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceRequest,
        )

        class GrpcSpans(ResponseKeeper, GrpcSpanExporter):
            def _translate_data(self, data: Sequence[ReadableSpan]) -> ExportTraceServiceRequest:
                encode = spans_in_parts(super()._translate_data)
                return ExportTraceServiceRequest.FromString(encode(data).SerializeToString())

        return GrpcSpans(endpoint=endpoint, compression=_grpc_compression("traces"))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    exporter = with_encoder(OTLPSpanExporter, "encode_spans", spans_in_parts)
    return exporter(endpoint=endpoint, session=session)


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

        class GrpcMetrics(ResponseKeeper, GrpcMetricExporter):
            def _translate_data(self, data: MetricsData) -> ExportMetricsServiceRequest:
                return metrics_encoder(super()._translate_data)(data).message()

        return GrpcMetrics(endpoint=endpoint, compression=_grpc_compression("metrics"))
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    exporter = with_encoder(OTLPMetricExporter, "encode_metrics", metrics_encoder)
    return exporter(endpoint=endpoint, session=session)


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
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
            ExportLogsServiceRequest,
        )

        class GrpcLogs(ResponseKeeper, GrpcLogExporter):
            def _translate_data(
                self, data: Sequence[ReadableLogRecord]
            ) -> ExportLogsServiceRequest:
                encode = logs_in_parts(super()._translate_data)
                return ExportLogsServiceRequest.FromString(encode(data).SerializeToString())

        return GrpcLogs(endpoint=endpoint, compression=_grpc_compression("logs"))
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

    exporter = with_encoder(OTLPLogExporter, "encode_logs", logs_in_parts)
    return exporter(endpoint=endpoint, session=session)


def _grpc_compression(signal: str) -> Compression:
    """
    Return the compression that the environment variables set.

    It is passed explicitly because the exporter itself raises if the variable is ``none``.
    """
    from grpc import Compression

    return Compression.Gzip if compresses(signal) else Compression.NoCompression
