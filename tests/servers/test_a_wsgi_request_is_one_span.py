"""The same over WSGI: one span of kind SERVER, whatever becomes of the request."""

from __future__ import annotations

import contextvars
import io
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.util import FileWrapper, setup_testing_defaults
from wsgiref.validate import validator

import pytest
from flask import Flask, Response, abort, stream_with_context
from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, StatusCode

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import ManualClock, RequestRecord, Side, capture
from latspan_instrumentation.wsgi import LatspanMiddleware
from tests.servers.conftest import MS, Server

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

App = Callable[[dict[str, Any], Any], Iterable[bytes]]


class Client:
    """The far end of one request, as a WSGI server shows it."""

    def __init__(self, clock: ManualClock, *, takes_ms: int = 0, takes_parts: int = 99) -> None:
        self.clock = clock
        self.takes_ms = takes_ms
        self.takes_parts = takes_parts
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self.parts: list[bytes] = []

    def ask(self, app: App, path: str = "/chat", **environ: Any) -> Client:
        """Serve one request as a server would, and close what it was given."""
        asked: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": "q=secret", **environ}
        setup_testing_defaults(asked)
        body = app(asked, self.start)
        try:
            for part in body:
                self.clock.advance(self.takes_ms * MS)
                self.parts.append(part)
                if len(self.parts) == self.takes_parts:
                    break
        finally:
            close = getattr(body, "close", None)
            if close is not None:
                close()
        return self

    def start(self, status: str, headers: list[tuple[str, str]], *_: Any) -> Any:
        """Take the head of the answer."""
        self.status, self.headers = status, headers


@pytest.fixture
def client(server: Server) -> Client:
    """Give a client that takes whatever comes at once."""
    return Client(server.clock)


def answering(*parts: bytes, status: str = "200 OK", **headers: str) -> App:
    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response(status, [(name.replace("_", "-"), value) for name, value in headers.items()])
        return list(parts)

    return app


def _only(server: Server) -> RequestRecord:
    (record,) = [record for record in server.seen.records if record.kind is Kind.REQUEST]
    assert record.side is Side.SERVER
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def _span(server: Server) -> Any:
    (span,) = [span for span in server.seen.spans if span.kind is SpanKind.SERVER]
    return span


def test_it_is_a_child_of_the_callers_span_with_the_attributes_of_the_request(
    server: Server, client: Client
) -> None:
    """By the conventions' names, and without the query."""
    client.ask(LatspanMiddleware(answering(b"hi")), HTTP_TRACEPARENT=TRACEPARENT)

    span = _span(server)
    assert client.parts == [b"hi"]
    assert f"{span.context.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert f"{span.parent.span_id:016x}" == TRACEPARENT.split("-")[2]
    assert dict(span.attributes) == {
        "http.request.method": "GET",
        "url.scheme": "http",
        "server.address": "127.0.0.1",
        "server.port": 80,
        "http.response.status_code": 200,
        "latspan.kind": "request",
        "latspan.outcome": "completed",
    }
    assert _only(server).outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        ("404 Not Found", {}, Outcome.COMPLETED),
        ("429 Slow Down", {}, Outcome.REJECTED),
        ("503 Busy", {"Retry_After": "1"}, Outcome.REJECTED),
        ("500 Oh", {}, Outcome.ERROR),
    ],
)
def test_the_status_determines_the_outcome(
    server: Server, client: Client, status: str, headers: dict[str, str], outcome: Outcome
) -> None:
    """As over ASGI."""
    client.ask(LatspanMiddleware(answering(b"x", status=status, **headers)))
    assert _only(server).outcome is outcome
    assert (_span(server).status.status_code is StatusCode.ERROR) is (outcome is Outcome.ERROR)


def test_what_the_application_raises_passes_through(server: Server, client: Client) -> None:
    """Before its answer and in the course of it."""

    def raising(environ: Any, start_response: Any) -> Iterable[bytes]:
        raise LookupError("secret")

    def breaking(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"a"
        raise LookupError("secret")

    for app in (raising, breaking):
        with pytest.raises(LookupError, match="secret"):
            client.ask(LatspanMiddleware(app))
    assert [record.outcome for record in server.seen.records] == [Outcome.ERROR] * 2
    assert "secret" not in "".join(span.to_json() for span in server.seen.spans)


def test_a_client_that_leaves_is_no_error(server: Server) -> None:
    """The server takes no more of the body, and closes it."""
    Client(server.clock, takes_parts=1).ask(LatspanMiddleware(answering(b"a", b"b")))
    assert _only(server).outcome is Outcome.CLOSED_EARLY
    assert _span(server).status.status_code is StatusCode.UNSET


def test_a_body_that_is_not_read_does_not_change_the_outcome(
    server: Server, client: Client
) -> None:
    """Of the answer to a HEAD, say."""
    body = LatspanMiddleware(answering(b"a"))({"REQUEST_METHOD": "HEAD"}, client.start)
    body.close()  # type: ignore[attr-defined]
    assert _only(server).outcome is Outcome.COMPLETED


def test_a_file_is_the_servers_own_to_send(server: Server, client: Client) -> None:
    """In a way of its own, for which it must see it."""
    file = FileWrapper(io.BytesIO(b"abc"))

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return file

    environ = {"REQUEST_METHOD": "GET", "wsgi.file_wrapper": FileWrapper}
    assert LatspanMiddleware(app)(environ, client.start) is file
    assert _only(server).outcome is Outcome.COMPLETED


def test_the_applications_body_is_closed_and_its_length_known(
    server: Server, client: Client
) -> None:
    """A server that knows there is one part says how long it is."""

    class Parts(list[bytes]):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    parts = Parts([b"a", b"b"])

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        return parts

    body: Any = LatspanMiddleware(app)({"REQUEST_METHOD": "GET"}, client.start)
    assert len(body) == 2
    assert list(body) == parts
    body.close()
    assert parts.closed == 1

    def streaming(environ: Any, start_response: Any) -> Iterable[bytes]:
        return iter(())

    streamed: Any = LatspanMiddleware(streaming)({"REQUEST_METHOD": "GET"}, client.start)
    with pytest.raises(TypeError):
        len(streamed)
    assert list(streamed) == []
    streamed.close()


def test_stages_inside_the_body_are_beneath_it(server: Server) -> None:
    """It is made while the server takes it; what the server takes is the network's."""

    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        with latspan.stage("queue"):
            server.clock.advance(20 * MS)
        start_response("200 OK", [])
        with latspan.stage("decode"):
            server.clock.advance(10 * MS)
        yield b"a"
        yield b"b"

    Client(server.clock, takes_ms=5).ask(LatspanMiddleware(app))
    record = _only(server)
    assert [(each.name, each.duration_ns // MS) for each in record.segments] == [
        ("queue", 20),
        ("decode", 10),
        ("send_stream", 10),
    ]
    assert record.metrics["time_to_first_chunk"].value == 35 * MS
    parents = {span.parent.span_id for span in server.seen.spans if span.parent}
    assert parents == {_span(server).context.span_id}


def test_stages_are_sent_only_if_requested(server: Server, client: Client) -> None:
    """What was over when the head left."""

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        with latspan.stage("queue"):
            server.clock.advance(20 * MS)
        start_response("200 OK", [("x", "y")])
        return [b"a"]

    assert client.ask(LatspanMiddleware(app)).headers == [("x", "y")]
    told = client.ask(LatspanMiddleware(app, server_timing=True)).headers
    assert told == [("x", "y"), ("server-timing", "queue;dur=20.000, total;dur=20.000")]


def test_nothing_is_left_behind_in_the_thread(server: Server, client: Client) -> None:
    """Which serves another request next."""
    before = context.get_current()
    client.ask(LatspanMiddleware(answering(b"a")), HTTP_TRACEPARENT=TRACEPARENT)
    assert context.get_current() == before
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_body_that_another_thread_takes_leaves_that_thread_alone(
    server: Server, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """What was attached in one cannot be detached in another."""

    def serve() -> None:
        body: Any = LatspanMiddleware(answering(b"a"))({"REQUEST_METHOD": "GET"}, client.start)
        taking = threading.Thread(target=lambda: (list(body), body.close()))
        taking.start()
        taking.join()
        client.ask(LatspanMiddleware(answering(b"a")), "/next")

    # Here nobody leaves what this thread attached.
    contextvars.copy_context().run(serve)
    assert [record.outcome for record in server.seen.records] == [Outcome.COMPLETED] * 2
    assert [span.parent for span in server.seen.spans] == [None, None]
    assert not caplog.records


def test_it_is_followed_once_however_often_the_middleware_stands_there(
    server: Server, client: Client
) -> None:
    """Around the application and around what it hands on to."""
    client.ask(LatspanMiddleware(LatspanMiddleware(answering(b"a"))))
    _only(server)


def test_when_nothing_is_configured_the_application_is_called_as_it_is() -> None:
    """With the very function of the server, and the very body."""
    parts = [b"a"]
    heard: list[Any] = []

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        heard.append(start_response)
        return parts

    client = Client(ManualClock())
    start = client.start
    assert LatspanMiddleware(app)({"REQUEST_METHOD": "GET"}, start) is parts
    assert heard == [start]


def _flask() -> Flask:
    app = Flask(__name__)

    @app.get("/items/<int:item>")
    def item(item: int) -> Response:
        if item == 0:
            abort(503)

        def words() -> Iterator[str]:
            with latspan.stage("decode"):
                yield "a"
                yield "b"

        return Response(stream_with_context(words()))

    app.wsgi_app = LatspanMiddleware(app.wsgi_app)  # type: ignore[method-assign]
    return app


def test_flask_names_it_for_its_route(server: Server, client: Client) -> None:
    """The template; where there is none the method alone."""
    app = _flask()
    for path in ("/items/42", "/items/0", "/none"):
        client.ask(app, path)
    named = [
        (span.name, span.attributes) for span in server.seen.spans if span.kind is SpanKind.SERVER
    ]
    assert [name for name, _ in named] == ["GET /items/<int:item>", "GET /items/<int:item>", "GET"]
    assert client.parts[:2] == [b"a", b"b"]
    outcomes = [each.outcome for each in server.seen.records if each.kind is Kind.REQUEST]
    assert outcomes == [Outcome.COMPLETED, Outcome.ERROR, Outcome.COMPLETED]


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def test_a_real_server_finds_nothing_against_it() -> None:
    """By the validator of the standard library, on both sides of the middleware."""
    import urllib.request

    def app(environ: Any, start_response: Any) -> Iterable[bytes]:
        environ["wsgi.input"].read(0)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"one ", b"two"]

    with (
        capture() as seen,
        make_server(
            "127.0.0.1", 0, validator(LatspanMiddleware(validator(app))), handler_class=_Quiet
        ) as server,
    ):
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/a") as answer:
            assert answer.read() == b"one two"
        serving.join()
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.REQUEST, Outcome.COMPLETED)


def test_a_body_knows_its_length_where_the_applications_own_does(server: Server) -> None:
    """Servers ask whatever has the method, and a stream has not."""

    def streaming(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        return (part for part in [b"a", b"b"])

    client = Client(server.clock)
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    for app, length in ((answering(b"a", b"b"), 2), (streaming, None)):
        body: Any = LatspanMiddleware(app)({**environ}, client.start)
        assert bool(body)
        assert (len(body) if hasattr(body, "__len__") else None) == length
        assert [*body] == [b"a", b"b"]
        body.close()


def test_a_request_whose_url_is_excluded(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served as ever, and has neither a span nor values; its query is searched as Flask's."""
    monkeypatch.setenv("OTEL_PYTHON_FLASK_EXCLUDED_URLS", r"/health\?")

    def app(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        del environ
        start_response("200 OK", [])
        return [b"ok"]

    clock = ManualClock()
    with capture(clock=clock) as seen:
        for path in ("/health", "/chat"):
            assert Client(clock).ask(LatspanMiddleware(app), path).parts == [b"ok"]
    assert (len(seen.records), len(seen.spans)) == (1, 1)
