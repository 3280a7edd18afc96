"""The outlet for spans and events: a batch, on its way to an exporter, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan._export._otlp import otlp_log_exporter, otlp_span_exporter
from latspan._export._sending import Sending, SpanAnswer
from latspan._log import logger
from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter

    from latspan._export._http_session import HttpSession

__all__ = ["OtlpSpans", "otlp_events", "otlp_spans"]


class OtlpSpans:
    """
    Sends spans or log records to an OpenTelemetry exporter, and says what became of them.

    Args:
        exporter: Where they go, any of the SDK's; shut down together with this.
        session: What it sends with, where that tells what it was answered.
        signal: What they are called in messages.
    """

    def __init__(
        self,
        exporter: SpanExporter | LogRecordExporter,
        session: HttpSession | None = None,
        *,
        signal: str = "spans",
    ) -> None:
        self._exporter: Any = exporter
        self._session = session
        self._signal = signal
        self._sending = Sending(signal, session)

    def send(self, spans: Sequence[Any]) -> SpanAnswer:
        """Send a batch, and return when it was taken or not."""
        # The results of spans and of log records are two types with the same members.
        answer = self._sending.send(
            lambda: self._exporter.export(spans).name == SpanExportResult.SUCCESS.name
        )
        if not answer.taken:
            return answer
        self._sending.arrived()
        return answer._replace(refused=self._refused())

    def _refused(self) -> int:
        """
        Return how many spans of the last batch were not wanted, though it was taken.

        Source: OTLP specification 1.9, "Partial Success": they are not to be sent again.
        """
        if self._session is None or not self._session.body:
            return 0
        try:
            # Of log records it has the same fields under the same numbers.
            said = ExportTraceServiceResponse.FromString(self._session.body).partial_success
        except DecodeError:
            return 0
        if said.rejected_spans > 0:
            warn_once(
                f"the receiver refused {said.rejected_spans} {self._signal}: {said.error_message}",
                about=f"refused {self._signal}",
            )
        return max(said.rejected_spans, 0)

    def shutdown(self) -> None:
        """Let go of connections, under a batch that is being sent too."""
        try:
            self._exporter.shutdown()
        except Exception:
            logger.warning("the exporter of %s could not be shut down", self._signal, exc_info=True)


def otlp_spans(protocol: Literal["http/protobuf", "grpc"], endpoint: str | None) -> OtlpSpans:
    """
    Return what sends spans over OTLP.

    Args:
        protocol: How.
        endpoint: Where to; ``None`` leaves that to the ``OTEL_*`` variables.
    """
    if protocol == "grpc":
        return OtlpSpans(otlp_span_exporter(protocol, endpoint))
    from latspan._export._http_session import http_session

    session = http_session("TRACES")
    return OtlpSpans(otlp_span_exporter(protocol, endpoint, session), session)


def otlp_events(protocol: Literal["http/protobuf", "grpc"], endpoint: str | None) -> OtlpSpans:
    """Return what sends events over OTLP; arguments as for :func:`otlp_spans`."""
    if protocol == "grpc":
        return OtlpSpans(otlp_log_exporter(protocol, endpoint), signal="events")
    from latspan._export._http_session import http_session

    session = http_session("LOGS")
    return OtlpSpans(otlp_log_exporter(protocol, endpoint, session), session, signal="events")
