"""The outlet for spans: a batch, on its way to an exporter, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan._log import logger
from latspan._warn_once import warn_once
from latspan.export._otlp import otlp_span_exporter
from latspan.export._sending import Sending, SpanAnswer

if TYPE_CHECKING:
    from latspan.export._http_session import HttpSession

__all__ = ["OtlpSpans", "otlp_spans"]


class OtlpSpans:
    """
    Sends spans to an OpenTelemetry exporter, and says what became of them.

    Args:
        exporter: Where they go, any of the SDK's; shut down together with this.
        session: What it sends with, where that tells what it was answered.
    """

    def __init__(self, exporter: SpanExporter, session: HttpSession | None = None) -> None:
        self._exporter = exporter
        self._session = session
        self._sending = Sending("spans", session)

    def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
        """Send a batch, and return when it was taken or not."""
        answer = self._sending.send(
            lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS
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
            said = ExportTraceServiceResponse.FromString(self._session.body).partial_success
        except DecodeError:
            return 0
        if said.rejected_spans > 0:
            warn_once(
                f"the receiver refused {said.rejected_spans} spans: {said.error_message}",
                about="refused spans",
            )
        return max(said.rejected_spans, 0)

    def shutdown(self) -> None:
        """Let go of connections, under a batch that is being sent too."""
        try:
            self._exporter.shutdown()
        except Exception:
            logger.warning("the exporter of spans could not be shut down", exc_info=True)


def otlp_spans(protocol: Literal["http/protobuf", "grpc"], endpoint: str | None) -> OtlpSpans:
    """
    Return what sends spans over OTLP.

    Args:
        protocol: How.
        endpoint: Where to; ``None`` leaves that to the ``OTEL_*`` variables.
    """
    if protocol == "grpc":
        return OtlpSpans(otlp_span_exporter(protocol, endpoint))
    from latspan.export._http_session import http_session

    session = http_session("TRACES")
    return OtlpSpans(otlp_span_exporter(protocol, endpoint, session), session)
