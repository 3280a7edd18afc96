"""What becomes of a batch is told: taken, to be sent again, or lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import BytesIO
from typing import Any

import grpc
import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from requests.adapters import BaseAdapter

from latspan._live.otel.export import OtlpSpans, SpanAnswer
from latspan._live.otel.export._http_session import HttpSession, http_session
from support.outages import forget_outages

GRPC_EXPORTER = "opentelemetry.exporter.otlp.proto.grpc.exporter"


@pytest.fixture(autouse=True)
def in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exporter's own tries end at once: their pauses would be longer than it may take."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")


class Receiver(BaseAdapter):
    """Answers every request alike, over no network."""

    def __init__(self, status: int | None, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__()
        self._status = status
        self._body = body
        self._headers = headers

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        """Answer, or be nowhere."""
        if self._status is None:
            raise requests.ConnectionError("refused")
        response = requests.Response()
        response.status_code = self._status
        response.headers.update(self._headers)
        response.request = request
        response.url = str(request.url)
        response.raw = BytesIO(self._body)
        return response

    def close(self) -> None:
        """There is nothing to close."""


def over_http(
    status: int | None,
    headers: Mapping[str, str] | None = None,
    *,
    name: str = "one",
    body: bytes = b"",
) -> SpanAnswer:
    """Return what is told of a span with such a name, answered so."""
    session = HttpSession()
    session.mount("http://", Receiver(status, headers or {}, body))
    exporter = OTLPSpanExporter("http://receiver.test/v1/traces", session=session)
    answer = OtlpSpans(exporter, session).send(spans(name))
    exporter.shutdown()
    return answer


def spans(name: str) -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("test").start_span(name).end()
    return list(kept.get_finished_spans())


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, SpanAnswer(taken=True)),
        (302, SpanAnswer(taken=False)),
        (308, SpanAnswer(taken=False)),
        (400, SpanAnswer(taken=False)),
        (401, SpanAnswer(taken=False)),
        (413, SpanAnswer(taken=False, smaller=True)),
        (429, SpanAnswer(taken=False, again=True)),
        (500, SpanAnswer(taken=False)),
        (502, SpanAnswer(taken=False, again=True)),
        (503, SpanAnswer(taken=False, again=True)),
        (504, SpanAnswer(taken=False, again=True)),
        (None, SpanAnswer(taken=False, again=True)),
    ],
)
def test_over_http_the_status_determines_the_result(status: int | None, answer: SpanAnswer) -> None:
    """None is nobody there, who may come."""
    assert over_http(status) == answer


@pytest.mark.parametrize(
    ("said", "retry_after_s"),
    [
        ("90", 90),
        ("soon", 0),
        ("-1", 0),
        ("nan", 0),
        ("Sun, 22 Nov 2020 03:00:00 GMT", 0),
        ("Sun, 22 Nov 99999999999999999999 03:00:00 GMT", 0),
    ],
)
def test_over_http_a_receiver_requests_a_pause(said: str, retry_after_s: float) -> None:
    """Nonsense and the past are no pause."""
    assert over_http(503, {"Retry-After": said}) == SpanAnswer(False, True, retry_after_s)


@pytest.mark.parametrize(
    ("status", "fate"), [(404, "lost"), (401, "lost"), (503, "kept"), (413, "kept"), (None, "kept")]
)
def test_the_log_states_whether_the_spans_are_lost(
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    status: int | None,
    fate: str,
) -> None:
    """A status that is not retried loses them; a message that is too large is split."""
    with monkeypatch.context() as patch:
        forget_outages(patch)
        over_http(status)

    (message,) = (record.getMessage() for record in caplog.records if record.name == "latspan")
    assert message.startswith(f"exporting spans failed; they are {fate}, ")


def test_a_redirect_is_logged_without_its_query(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in front of it wants a login, or TLS: nobody has the spans."""
    with monkeypatch.context() as patch:
        forget_outages(patch)
        over_http(302, {"Location": "https://receiver.test/login?token=S3CRET"})

    assert "https://receiver.test/login" in caplog.text
    assert "S3CRET" not in caplog.text


def test_the_message_about_refused_spans_is_bounded_and_printable(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is logged, and a log is read in a terminal."""
    said = ExportTraceServiceResponse()
    said.partial_success.rejected_spans = 3
    said.partial_success.error_message = "\x1b]0;x\x07\n2026-01-01 forged " + "x" * 100_000
    monkeypatch.setattr("latspan._base.log._given", set[str]())

    over_http(200, body=said.SerializeToString())

    (record,) = caplog.records
    assert record.getMessage().startswith("the receiver refused 3 spans: \\x1b]0;x\\x07\\n2026")
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) <= 1_000


def test_over_http_a_pause_may_be_a_date() -> None:
    until = datetime.now(UTC) + timedelta(hours=1)

    answer = over_http(503, {"Retry-After": format_datetime(until, usegmt=True)})

    assert answer.again
    assert 3500 < answer.retry_after_s <= 3600


def test_spans_that_a_receiver_drops_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """It is taken, and not sent again."""
    said = ExportTraceServiceResponse()
    said.partial_success.rejected_spans = 3
    said.partial_success.error_message = "too old"

    answer = over_http(200, body=said.SerializeToString())

    assert answer == SpanAnswer(taken=True, refused=3)
    assert "the receiver refused 3 spans: too old" in caplog.text


def test_an_answer_that_is_none_of_otlps_refuses_nothing() -> None:
    assert over_http(200, body=b"<html>") == SpanAnswer(taken=True)


def test_what_cannot_be_encoded_is_not_sent_again_as_it_is() -> None:
    """Nothing was sent, and it would be no better another time; a part of it may be."""
    assert over_http(None, name="\ud800") == SpanAnswer(taken=False, smaller=True)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ValueError("no text"), SpanAnswer(taken=False, smaller=True)),
        (ConnectionError("refused"), SpanAnswer(taken=False, again=True)),
    ],
)
def test_the_exception_of_an_exporter_determines_the_retry(
    error: Exception, answer: SpanAnswer
) -> None:
    """The gRPC exporter encodes outside of what it catches; the network may come back."""

    class Raises(Grpc):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
            raise error

    assert OtlpSpans(Raises(grpc.StatusCode.OK)).send(spans("one")) == answer


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (None, SpanAnswer(taken=False, again=True)),
        (302, SpanAnswer(taken=False)),
    ],
)
def test_an_exporter_may_raise_what_its_session_does(
    status: int | None, answer: SpanAnswer
) -> None:
    """The SDK's did up to 1.39: what became of the batch the session knows."""
    session = HttpSession()
    session.mount("http://", Receiver(status, {}, b""))

    class Raises(Grpc):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
            session.post("http://receiver.test/v1/traces", allow_redirects=False)
            return SpanExportResult.SUCCESS

    outlet = OtlpSpans(Raises(grpc.StatusCode.OK), session)

    assert outlet.send(spans("one")) == answer


class Grpc(SpanExporter):
    """Says what the SDK's says of a status: in the log alone."""

    def __init__(self, status: grpc.StatusCode) -> None:
        self._status = status

    def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
        """Fail."""
        logging.getLogger(GRPC_EXPORTER).error(
            "Failed to export %s to %s, error code: %s", "traces", "somewhere", self._status
        )
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """There is nothing to close."""


@pytest.mark.parametrize(
    ("status", "again", "smaller"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, False, False),
        (grpc.StatusCode.UNAUTHENTICATED, False, False),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, True, True),
        (grpc.StatusCode.UNAVAILABLE, True, False),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True, False),
    ],
)
def test_over_grpc_the_status_determines_the_result(
    status: grpc.StatusCode, again: bool, smaller: bool
) -> None:
    """As the exporter logs it; that it does is for the tests with real receivers."""
    answer = OtlpSpans(Grpc(status)).send(spans("one"))

    assert answer == SpanAnswer(taken=False, again=again, smaller=smaller)


def test_that_the_time_was_up_hides_no_reason() -> None:
    """The exporter tries again what is too large, until it has no time left."""

    class TwoTries(Grpc):
        def export(self, spans: Any) -> SpanExportResult:
            super().export(spans)
            self._status = grpc.StatusCode.DEADLINE_EXCEEDED
            return super().export(spans)

    outlet = OtlpSpans(TwoTries(grpc.StatusCode.RESOURCE_EXHAUSTED))

    assert [outlet.send(spans("one")).smaller for _ in range(2)] == [True, False]


@pytest.mark.parametrize("silenced", ["level", "disabled"])
def test_the_log_of_an_exporter_is_read_if_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silenced: str
) -> None:
    """``dictConfig`` switches off every logger that it does not name; nobody else hears more."""
    logger = logging.getLogger(GRPC_EXPORTER)
    # Where another test has loaded the exporter, its own filter drops what was logged before.
    others = [each for each in logger.filters if type(each).__name__ != "DuplicateFilter"]
    monkeypatch.setattr(logger, "filters", others)
    monkeypatch.setattr(logger, "disabled", silenced == "disabled")
    monkeypatch.setattr(logger, "level", logging.CRITICAL if silenced == "level" else 0)
    monkeypatch.setattr(logger, "_cache", {})
    monkeypatch.setattr("latspan._live.otel.export._export_errors._silenced", set[str]())

    exporter = Grpc(grpc.StatusCode.INVALID_ARGUMENT)
    answer = OtlpSpans(exporter).send(spans("one"))
    caplog.clear()
    exporter.export([])

    assert (answer, caplog.messages) == (SpanAnswer(taken=False), [])

    logger.setLevel(logging.INFO)
    exporter.export([])
    assert len(caplog.messages) == 1, "the application wants to hear it after all"


@pytest.mark.parametrize(
    ("status", "again", "smaller"),
    [
        (400, False, False),
        (401, False, False),
        (413, False, True),
        (503, True, False),
        (None, True, False),
    ],
)
def test_the_status_of_an_applications_session_is_read(
    status: int | None, again: bool, smaller: bool
) -> None:
    """One with credentials, for example: the exporter logs the status of what is for good."""
    session = requests.Session()
    session.mount("http://", Receiver(status, {}, b""))
    exporter = OTLPSpanExporter("http://receiver.test/v1/traces", session=session)

    answer = OtlpSpans(exporter).send(spans("one"))

    assert answer == SpanAnswer(taken=False, again=again, smaller=smaller)


def test_an_exporter_that_gives_no_reason_is_asked_again() -> None:
    """The queue is bounded whatever that leads to."""

    class Silent(Grpc):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002
            return SpanExportResult.FAILURE

    answer = OtlpSpans(Silent(grpc.StatusCode.OK)).send(spans("one"))

    assert answer == SpanAnswer(taken=False, again=True)


@pytest.mark.parametrize("signal", ["", "TRACES_"])
def test_a_session_that_somebody_else_makes_is_left_to_them(
    monkeypatch: pytest.MonkeyPatch, signal: str
) -> None:
    """It has the credentials."""
    assert isinstance(http_session("TRACES"), HttpSession)

    monkeypatch.setenv(f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{signal}CREDENTIAL_PROVIDER", "cloud")

    assert http_session("TRACES") is None
