"""Whatever becomes of a request, it is one span of kind SERVER with one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.instrumentation.utils import suppress_http_instrumentation
from opentelemetry.trace import SpanKind, StatusCode

import latspan
from latspan import Kind
from latspan._live.operations import ModelCall
from latspan._live.process.runtime import current_runtime, override_runtime
from latspan.integrations import Outcome
from latspan.testing import ManualClock, RequestRecord, Side, capture
from latspan_instrumentation.asgi import LatspanMiddleware
from tests.servers.conftest import ASKED, MS, App, Client, Server, answering
from tests.support.traces import span

TRACEPARENT = (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def _only(server: Server) -> RequestRecord:
    (record,) = [record for record in server.seen.records if record.side is Side.SERVER]
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def _span(server: Server) -> Any:
    (span,) = [span for span in server.seen.spans if span.kind is SpanKind.SERVER]
    return span


def test_it_is_a_child_of_the_callers_span_with_the_attributes_of_the_request(
    server: Server,
) -> None:
    """By the conventions' names, without path and query, which may contain a secret."""
    client = server.serve(answering(b"hi"), headers=[TRACEPARENT])

    span, record = _span(server), _only(server)
    assert client.body == b"hi"
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert (span.name, span.status.status_code) == ("POST", StatusCode.UNSET)
    assert dict(span.attributes) == {
        "http.request.method": "POST",
        "url.scheme": "http",
        "server.address": "model.test",
        "server.port": 80,
        "http.response.status_code": 200,
        "latspan.kind": "request",
        "latspan.outcome": "completed",
    }
    assert (record.kind, record.outcome) == (Kind.REQUEST, Outcome.COMPLETED)


def test_a_method_that_a_client_invents_is_in_no_name(server: Server) -> None:
    """Anybody can send any word; the conventions keep it in an attribute of its own."""
    server.serve(answering(b"hi"), scope={"method": "A1B2"})

    span = _span(server)
    assert (span.name, _only(server).name) == ("HTTP", "HTTP")
    assert span.attributes["http.request.method"] == "_OTHER"
    assert span.attributes["http.request.method_original"] == "A1B2"


@pytest.mark.parametrize(
    ("status", "headers", "outcome", "failed"),
    [
        (200, (), Outcome.COMPLETED, False),
        (404, (), Outcome.COMPLETED, False),
        (429, (), Outcome.REJECTED, False),
        (503, [(b"Retry-After", b"1")], Outcome.REJECTED, False),
        (503, (), Outcome.ERROR, True),
        (500, (), Outcome.ERROR, True),
    ],
)
def test_the_status_determines_the_outcome(
    server: Server, status: int, headers: Any, outcome: Outcome, failed: bool
) -> None:
    """A client's mistake is an answer, and who refuses on purpose has not failed."""
    server.serve(answering(b"x", status=status, headers=headers))

    span = _span(server)
    assert _only(server).outcome is outcome
    assert (span.status.status_code is StatusCode.ERROR) is failed
    error_type = span.attributes.get("error.type")
    assert error_type == (None if outcome is Outcome.COMPLETED else str(status))


def test_what_the_application_raises_passes_through(server: Server) -> None:
    """Its type is recorded, and nothing that it says."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise LookupError("secret")

    with pytest.raises(LookupError, match="secret"):
        server.serve(app)

    span = _span(server)
    assert _only(server).outcome is Outcome.ERROR
    assert span.attributes["error.type"] == "LookupError"
    assert "secret" not in span.to_json()


def _leaving(app: App, error: type[BaseException]) -> App:
    async def cut(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        raise error

    return cut


def _unfinished(*parts: bytes, listens: bool = False) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        if listens:
            assert (await receive())["type"] == "http.disconnect"

    return app


def test_a_client_that_leaves_is_no_error(server: Server) -> None:
    """Told by what the application receives."""
    server.serve(_unfinished(b"a", listens=True))
    assert _only(server).outcome is Outcome.CLOSED_EARLY
    assert _span(server).status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("exported", [False, True])
def test_the_path_is_exported_if_it_is_configured(server: Server, *, exported: bool) -> None:
    """A path may be that of a user, or contain a token."""
    runtime = current_runtime()
    assert runtime is not None
    with override_runtime(replace(runtime, export_url_paths=exported)):
        server.serve(answering(b"hi"), path="/reset/token")
    assert _span(server).attributes.get("url.path") == ("/reset/token" if exported else None)


def test_a_response_that_is_completed_for_nobody_was_left(server: Server) -> None:
    """A handler that looks for the disconnect ends its stream in order."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await _unfinished(b"a", listens=True)(scope, receive, send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    server.serve(app)
    assert _only(server).outcome is Outcome.CLOSED_EARLY


def test_a_stage_that_nobody_closes_ends_with_a_request_that_was_left(server: Server) -> None:
    """The generator of a body lives until Python collects it."""
    bodies: list[Iterator[bytes]] = []

    def body() -> Iterator[bytes]:
        with latspan.stage("decode"):
            yield b"a"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        bodies.append(body())
        await _unfinished(next(bodies[0]))(scope, receive, send)
        server.clock.advance(100 * MS)
        assert (await receive())["type"] == "http.disconnect"

    server.serve(app)
    server.clock.advance(4_000 * MS)
    bodies.clear()
    stage, request = server.seen.records
    assert (stage.kind, stage.duration_ns, stage.outcome) == (
        Kind.STAGE,
        100 * MS,
        Outcome.CLOSED_EARLY,
    )
    assert request.duration_ns == 100 * MS


def test_a_client_that_left_is_met_in_a_write(server: Server) -> None:
    """Told by what the server raises, which is the application's to catch."""
    with pytest.raises(OSError, match="gone"):
        server.serve(answering(b"a", b"b", b"c"), Client(server.clock, leaves_after=1))
    assert _only(server).outcome is Outcome.CLOSED_EARLY


def test_an_answer_that_stops_in_the_middle_is_truncated(server: Server) -> None:
    """The application returned, and nobody had left."""
    server.serve(_unfinished(b"a"))
    assert _only(server).outcome is Outcome.TRUNCATED
    assert _span(server).status.status_code is StatusCode.ERROR


def test_no_answer_at_all_is_an_error(server: Server) -> None:
    """Which a server turns into one of its own."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    server.serve(app)
    assert _only(server).outcome is Outcome.ERROR


def test_a_cancelled_request_is_cancelled(server: Server) -> None:
    """By whoever runs the application."""
    with pytest.raises(asyncio.CancelledError):
        server.serve(_leaving(_unfinished(b"a"), asyncio.CancelledError))
    assert _only(server).outcome is Outcome.CANCELLED


def test_what_happens_behind_the_last_byte_is_no_part_of_it(server: Server) -> None:
    """A background task may run on for minutes, and fail."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(b"a")(scope, receive, send)
        server.clock.advance(60_000 * MS)
        raise LookupError

    with pytest.raises(LookupError):
        server.serve(app)
    record = _only(server)
    assert (record.outcome, record.duration_ns) == (Outcome.COMPLETED, 0)


def test_stages_split_it_and_the_rest_is_the_applications(server: Server) -> None:
    """Nobody but the application knows what it does."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with latspan.stage("queue"):
            server.clock.advance(20 * MS)
        server.clock.advance(1 * MS)
        with latspan.stage("prefill"):
            server.clock.advance(30 * MS)
        await answering(b"a")(scope, receive, send)

    server.serve(app)
    (record,) = [each for each in server.seen.records if each.kind is Kind.REQUEST]
    assert [(each.name, each.duration_ns // MS) for each in record.segments] == [
        ("queue", 20),
        ("application", 1),
        ("prefill", 30),
    ]
    assert {each.side for each in server.seen.records} == {Side.SERVER}
    snapshot = server.seen.snapshot()
    assert snapshot.where(kind="request", side="server").metric("duration").count() == 1
    assert snapshot.where(kind="stage", side="server").segment("queue").count() == 1
    assert record.metrics["time_to_first_chunk"].value == 51 * MS
    span = _span(server)
    beneath = [each for each in server.seen.spans if each.parent and each is not span]
    assert [each.name for each in beneath] == ["queue", "prefill"]
    assert {each.parent.span_id for each in beneath if each.parent} == {span.context.span_id}


def test_time_in_writes_that_are_held_up_is_the_networks(server: Server) -> None:
    """And is reported once, by the request."""
    server.serve(answering(b"a", b"b"), Client(server.clock, takes_ms=5))

    record = _only(server)
    assert [(each.name, each.duration_ns // MS) for each in record.segments] == [
        ("send_stream", 15)
    ]
    snapshot = server.seen.snapshot()
    assert snapshot.segment("send_stream").count() == 1


def test_it_is_followed_once_however_often_the_middleware_stands_there(server: Server) -> None:
    """Around the application and around one that is mounted in it."""
    server.serve(LatspanMiddleware(LatspanMiddleware(answering(b"a"))))
    _only(server)
    _span(server)


def test_nothing_is_left_behind_in_the_callers_context(server: Server) -> None:
    """Neither a span nor what was said."""

    async def serve() -> None:
        before = context.get_current()
        client = Client(server.clock)
        scope = {**ASKED, "headers": [TRACEPARENT]}
        await LatspanMiddleware(answering(b"a"))(scope, client.receive, client.send)
        assert context.get_current() == before
        assert not trace.get_current_span().get_span_context().is_valid

    asyncio.run(serve())


def test_a_body_that_is_sent_from_another_task(server: Server) -> None:
    """As Starlette sends its streams."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.create_task(answering(b"a")(scope, receive, send))  # type: ignore[arg-type]
        assert trace.get_current_span().get_span_context().is_valid

    server.serve(app)
    assert _only(server).outcome is Outcome.COMPLETED


def test_what_is_no_http_is_left_alone(server: Server) -> None:
    """A WebSocket, or the server's own start."""
    asked: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["type"])

    for kind in ("lifespan", "websocket"):
        server.serve(app, scope={"type": kind})
    assert asked == ["lifespan", "websocket"]
    assert not server.seen.records


def test_where_http_instrumentation_is_suppressed_there_is_no_span(server: Server) -> None:
    """By the key that all instrumentations honour."""

    async def serve() -> None:
        client = Client(server.clock)
        await LatspanMiddleware(answering(b"a"))(dict(ASKED), client.receive, client.send)

    with suppress_http_instrumentation():
        asyncio.run(serve())
    assert not server.seen.records


def test_when_nothing_is_configured_the_application_is_called_as_it_is() -> None:
    """With the very functions of the server."""
    heard: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.extend((receive, send))

    client = Client(ManualClock())
    receive, send = client.receive, client.send
    asyncio.run(LatspanMiddleware(app)(dict(ASKED), receive, send))
    assert heard == [receive, send]


def test_a_call_inside_is_beneath_it_and_of_its_route(server: Server) -> None:
    """Which the framework finds only when the request is on its way."""
    from latspan.integrations import open_call
    from latspan.integrations.formats import OPENAI_CHAT

    class Route:
        path = "/chat/{room}"

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = Route()
        server.clock.advance(2 * MS)
        call = open_call(operation="chat", provider="p", model="m", api_format=OPENAI_CHAT)
        assert isinstance(call, ModelCall)
        server.clock.advance(7 * MS)
        call.returned()
        call.end(Outcome.COMPLETED)
        await answering(b"a")(scope, receive, send)

    server.serve(app, path="/chat/42")
    (call,) = [record for record in server.seen.records if record.kind is Kind.CALL]
    served = _only(server)
    assert call.attributes["route"] == served.attributes["route"] == "/chat/{room}"
    assert call.trace_id == served.trace_id
    assert served.name == _span(server).name == "POST /chat/{room}"
    assert _span(server).attributes["http.route"] == "/chat/{room}"
    assert [(each.name, each.duration_ns // MS) for each in served.segments] == [
        ("application", 2),
        ("unattributed", 7),
    ]


def test_another_instrumentations_span_is_the_requests(server: Server) -> None:
    """One span of kind SERVER, whoever opened it; what it says of itself stands."""
    from opentelemetry.sdk.trace import TracerProvider

    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("theirs")

    async def served(client: Client) -> None:
        with tracer.start_as_current_span("theirs", kind=SpanKind.SERVER) as span:
            await LatspanMiddleware(answering(b"a"))(dict(ASKED), client.receive, client.send)
        assert (span.attributes or {})["latspan.outcome"] == "completed"  # type: ignore[attr-defined]
        assert span.name == "theirs"  # type: ignore[attr-defined]

    asyncio.run(served(Client(server.clock)))
    _only(server)
    assert not [span for span in server.seen.spans if span.kind is SpanKind.SERVER]


def test_capture_is_the_real_one() -> None:
    """The clock of a capture without one is the machine's."""
    with capture() as seen:
        client = Client(ManualClock())
        asyncio.run(LatspanMiddleware(answering(b"a"))(dict(ASKED), client.receive, client.send))
        (record,) = seen.records
    assert record.duration_ns > 0


@pytest.mark.parametrize("told", [True, False])
def test_headers_that_can_be_read_once_reach_the_server(server: Server, told: bool) -> None:
    """The specification asks for an iterable, no more."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = iter([(b"x-a", b"1")])
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"a"})

    assert server.serve(app, server_timing=told).headers == {b"x-a": b"1"}


@pytest.mark.parametrize("wrong", [{}, {"status": "200"}, {"status": None}])
def test_the_server_reports_an_invalid_head(server: Server, wrong: dict[str, Any]) -> None:
    """Not the middleware: it may be that the server minds less."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "headers": [], **wrong})
        await send({"type": "http.response.body", "body": b"a"})

    assert server.serve(app).body == b"a"
    assert len(server.seen.spans) == 1


def test_a_client_that_leaves_before_the_head(server: Server) -> None:
    """It is as gone as one that leaves before the body."""

    async def gone(message: Any) -> None:
        raise OSError("the client has gone")

    client = Client(server.clock)
    asking = LatspanMiddleware(answering(b"a"))(dict(ASKED), client.receive, gone)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(asking)
    (record,) = server.seen.records
    assert record.outcome is Outcome.CLOSED_EARLY


def test_a_request_whose_url_is_excluded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is served as ever, and has neither a span nor values."""
    monkeypatch.setenv("OTEL_PYTHON_FASTAPI_EXCLUDED_URLS", "/health$")
    for path in ("/health", "/chat"):
        assert server.serve(answering(b"ok"), path=path).body == b"ok"
    (record,) = server.seen.records
    assert record.kind is Kind.REQUEST
    assert len(server.seen.spans) == 1


def test_a_served_request_as_a_whole_trace(server: Server) -> None:
    """Stages of the application, and the sending of the answer, inside the caller's trace."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        with latspan.stage("retrieve"):
            server.clock.advance(8 * MS)
        server.clock.advance(3 * MS)
        await answering(b"one", b"two")(scope, receive, send)

    server.serve(app, Client(server.clock, takes_ms=5), headers=[TRACEPARENT])

    assert server.seen.spans_as_dict() == [
        {
            **span(
                "POST",
                "SERVER",
                0,
                26,
                {
                    "http.request.method": "POST",
                    "http.response.status_code": 200,
                    "latspan.kind": "request",
                    "latspan.outcome": "completed",
                    "latspan.application.after": 0.003,
                    "latspan.application.before": 0.0,
                    "latspan.application.between": 0.0,
                    "latspan.application.duration": 0.003,
                    "server.address": "model.test",
                    "server.port": 80,
                    "url.scheme": "http",
                },
                span(
                    "retrieve",
                    "INTERNAL",
                    0,
                    8,
                    {
                        "latspan.kind": "stage",
                        "latspan.outcome": "completed",
                        "latspan.segment": "retrieve",
                        "latspan.source": "measured",
                        "latspan.stage.kind": "retrieve",
                    },
                ),
                span(
                    "send_stream",
                    "INTERNAL",
                    11,
                    26,
                    {"latspan.segment": "send_stream", "latspan.source": "measured"},
                ),
            ),
            "remote_parent": 0xB7AD6B7169203331,
        }
    ]
