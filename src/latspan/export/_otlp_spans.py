"""The outlet for spans: a batch, on its way to an exporter, and what became of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan._warn_once import warn_once
from latspan.export._delivering import Deliveries
from latspan.export._otlp import otlp_span_exporter

if TYPE_CHECKING:
    from latspan.export._http_session import HttpSession

__all__ = ["OtlpSpans", "SpanAnswer", "otlp_spans"]

_logger: Final = logging.getLogger(__name__)

_PASSING: Final = {
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNAVAILABLE",
    "DATA_LOSS",
}
"""
After which the same is to be sent again.

Source: OTLP specification 1.9, "Failures". It has ``RESOURCE_EXHAUSTED`` too, where the receiver
says when; without, as of a message too long, it is for good, and nobody sees here which it is.
"""


class SpanAnswer(NamedTuple):
    """
    What became of a batch.

    Args:
        taken: Whether the receiver has it.
        again: Whether it is to be sent again, where it was not taken.
        asked_s: How long the receiver asked to be left alone, in seconds; 0 where it did not.
        refused: How many spans of one that was taken the receiver threw away, as far as it says.
    """

    taken: bool
    again: bool = False
    asked_s: float = 0.0
    refused: int = 0


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
        self._deliveries = Deliveries("spans")
        self._logged: set[type[Exception]] = set()

    def send(self, spans: Sequence[ReadableSpan]) -> SpanAnswer:
        """Send a batch, and return when it was taken or not."""
        if self._session is not None:
            self._session.forget()
        try:
            with self._deliveries.one() as delivery:
                result = self._exporter.export(spans)
        except Exception as error:
            if self._session is not None and self._session.tried:
                # Up to 1.39 the SDK's raises where nobody answers.
                Deliveries.failed("spans", str(error))
                return SpanAnswer(False, self._session.passing, self._session.asked_s)
            # Not the network, of which exporters say that it failed: these spans will not do.
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _logger.warning("spans could not be exported: %s", error, exc_info=True)
            return SpanAnswer(taken=False)
        if result is SpanExportResult.SUCCESS:
            self._deliveries.arrived()
            return SpanAnswer(taken=True, refused=self._refused())
        if self._session is not None:
            return SpanAnswer(False, self._session.passing, self._session.asked_s)
        if delivery.http_status is not None:
            from latspan.export._http_session import PASSING_STATUSES

            return SpanAnswer(False, again=delivery.http_status in PASSING_STATUSES)
        status = delivery.grpc_status
        return SpanAnswer(False, again=status is None or status in _PASSING)

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
            _logger.warning("the exporter of spans could not be shut down", exc_info=True)


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
