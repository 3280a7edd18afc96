"""Export of batches of spans and events, with the result of each batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan._base.log import logger
from latspan._live.otel.export._otlp import otlp_log_exporter, otlp_span_exporter
from latspan._live.otel.export._sending import Sending, SpanAnswer

if TYPE_CHECKING:
    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.resources import Resource

    from latspan._live.otel.export._http_session import HttpSession


class OtlpSpans:
    """
    Sends spans or log records to an OpenTelemetry exporter and returns the result.

    Args:
        exporter: Any span or log exporter of the SDK; shut down together with this object.
        session: The exporter's HTTP session, if it is one that records the last response.
        signal: Name of the signal in log messages.
    """

    def __init__(
        self,
        exporter: SpanExporter | LogRecordExporter,
        session: HttpSession | None = None,
        *,
        signal: str = "spans",
    ) -> None:
        self._exporter: Any = exporter
        self._signal = signal
        self._sending = Sending(signal, session, exporter=exporter)

    def send(self, spans: Sequence[Any]) -> SpanAnswer:
        """Send a batch, wait for the response and return the result."""
        # The results of spans and of log records are two types with the same members.
        response = self._sending.send(
            lambda: self._exporter.export(spans).name == SpanExportResult.SUCCESS.name
        )
        if response.taken:
            self._sending.arrived()
        return response

    def shutdown(self) -> None:
        """Close connections, even while a batch is being sent."""
        try:
            self._exporter.shutdown()
        except Exception:
            logger.warning("the exporter of %s could not be shut down", self._signal, exc_info=True)


def otlp_spans(protocol: Literal["http/protobuf", "grpc"], endpoint: str | None) -> OtlpSpans:
    """
    Return an object that sends spans over OTLP.

    Args:
        protocol: Protocol to send with.
        endpoint: URL of the receiver; ``None`` uses the ``OTEL_*`` variables.
    """
    if protocol == "grpc":
        return OtlpSpans(otlp_span_exporter(protocol, endpoint))
    from latspan._live.otel.export._http_session import http_session

    session = http_session("TRACES")
    return OtlpSpans(otlp_span_exporter(protocol, endpoint, session), session)


def otlp_events(protocol: Literal["http/protobuf", "grpc"], endpoint: str | None) -> OtlpSpans:
    """Return an object that sends events over OTLP; arguments as for :func:`otlp_spans`."""
    if protocol == "grpc":
        return OtlpSpans(otlp_log_exporter(protocol, endpoint), signal="events")
    from latspan._live.otel.export._http_session import http_session

    session = http_session("LOGS")
    return OtlpSpans(otlp_log_exporter(protocol, endpoint, session), session, signal="events")


def event_record(record: LogRecord, resource: Resource) -> ReadableLogRecord:
    """
    Return an event in the form that exporters accept.

    Args:
        record: The event.
        resource: The resource of this process.
    """
    # Only events need the log records of the SDK.
    from opentelemetry.sdk._logs import ReadableLogRecord

    from latspan._live.otel.export._metrics import SCOPE

    return ReadableLogRecord(record, resource, SCOPE)
