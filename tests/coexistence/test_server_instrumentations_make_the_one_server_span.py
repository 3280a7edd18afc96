"""OpenTelemetry's own instrumentation of a framework next to latspan: one SERVER span a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import latspan
from latspan import Kind
from latspan.testing import Captured, Side, capture
from latspan_instrumentation.asgi import StarletteInstrumentor
from latspan_instrumentation.django import DjangoInstrumentor
from latspan_instrumentation.wsgi import FlaskInstrumentor
from tests.support.frameworks import instrumented

_WHY: Final = "the official instrumentations of servers are not installed"
_fastapi: Any = pytest.importorskip("opentelemetry.instrumentation.fastapi", reason=_WHY)
_starlette: Any = pytest.importorskip("opentelemetry.instrumentation.starlette", reason=_WHY)
_flask: Any = pytest.importorskip("opentelemetry.instrumentation.flask", reason=_WHY)
_django: Any = pytest.importorskip("opentelemetry.instrumentation.django", reason=_WHY)
_asgi: Any = pytest.importorskip("opentelemetry.instrumentation.asgi", reason=_WHY)
_wsgi: Any = pytest.importorskip("opentelemetry.instrumentation.wsgi", reason=_WHY)

_OURS: Final = (StarletteInstrumentor, FlaskInstrumentor, DjangoInstrumentor)
_TRACEPARENT: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

Answer = tuple[int, bytes]
Serve = Callable[[str], Answer]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Set a global provider for the length of the test, and return what it exports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Switch latspan's instrumentors on, and record in memory."""
    with instrumented(*_OURS), capture() as captured:
        yield captured


def _over_asgi(app: Any) -> Serve:
    """Return a function that serves one request of an ASGI application."""

    async def serve(path: str) -> Answer:
        sent: list[Any] = []
        gone = asyncio.Event()
        asked = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> Any:
            for message in asked:
                return message
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"host", b"shop.test"), (b"traceparent", _TRACEPARENT.encode())],
            "server": ("shop.test", 80),
            "client": ("127.0.0.1", 1),
        }
        # Starlette raises what the application raised, after the response.
        with suppress(LookupError):
            await app(scope, receive, send)
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])

    return lambda path: asyncio.run(serve(path))


def _over_wsgi(app: Any) -> Serve:
    """Return a function that serves one request of a WSGI application."""
    from wsgiref.util import setup_testing_defaults

    def serve(path: str) -> Answer:
        environ: dict[str, Any] = {"PATH_INFO": path, "HTTP_TRACEPARENT": _TRACEPARENT}
        setup_testing_defaults(environ)
        status: list[str] = []

        def start(line: str, _headers: object, *_error: object) -> None:
            status.append(line)

        body = app(environ, start)
        try:
            return int(status[0][:3]), b"".join(body)
        finally:
            getattr(body, "close", lambda: None)()

    return serve


def _routes(app: Any) -> Any:
    """Add two routes to a FastAPI application."""
    from fastapi.responses import StreamingResponse

    @app.get("/items/{item}")
    async def item(item: int) -> StreamingResponse:
        with latspan.request("answer"), latspan.stage("retrieve"):
            pass

        async def words() -> AsyncIterator[str]:
            with latspan.stage("decode"):
                yield "item"

        return StreamingResponse(words())

    @app.get("/fails")
    def fails() -> str:
        raise LookupError("secret")

    return app


def _fastapi_created_later() -> tuple[Serve, Callable[[], None]]:
    import fastapi

    instrumentor = _fastapi.FastAPIInstrumentor()
    instrumentor.instrument()
    return _over_asgi(_routes(fastapi.FastAPI())), instrumentor.uninstrument


def _fastapi_of_one_app() -> tuple[Serve, Callable[[], None]]:
    import fastapi

    app = _routes(fastapi.FastAPI())
    _fastapi.FastAPIInstrumentor.instrument_app(app)
    return _over_asgi(app), lambda: _fastapi.FastAPIInstrumentor.uninstrument_app(app)


def _fastapi_itself() -> tuple[Serve, Callable[[], None]]:
    import fastapi

    pytest.importorskip("fastapi.telemetry", reason="this FastAPI opens no span of its own")
    return _over_asgi(_routes(fastapi.FastAPI())), lambda: None


def _starlette_app() -> Any:
    from starlette import applications
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def item(request: Request) -> PlainTextResponse:
        with latspan.request("answer"), latspan.stage("retrieve"):
            return PlainTextResponse("item")

    def fails(request: Request) -> PlainTextResponse:
        raise LookupError("secret")

    return applications.Starlette(routes=[Route("/items/{item}", item), Route("/fails", fails)])


def _starlette_created_later() -> tuple[Serve, Callable[[], None]]:
    instrumentor = _starlette.StarletteInstrumentor()
    instrumentor.instrument()
    return _over_asgi(_starlette_app()), instrumentor.uninstrument


def _asgi_middleware_inside() -> tuple[Serve, Callable[[], None]]:
    app = _starlette_app()
    app.add_middleware(_asgi.OpenTelemetryMiddleware)
    return _over_asgi(app), lambda: None


def _asgi_middleware_outside() -> tuple[Serve, Callable[[], None]]:
    return _over_asgi(_asgi.OpenTelemetryMiddleware(_starlette_app())), lambda: None


def _flask_app() -> Any:
    import flask

    app = flask.Flask(__name__)

    @app.get("/items/<int:item>")
    def item(item: int) -> str:
        with latspan.request("answer"), latspan.stage("retrieve"):
            return "item"

    @app.get("/fails")
    def fails() -> str:
        raise LookupError("secret")

    return app


def _flask_created_later() -> tuple[Serve, Callable[[], None]]:
    instrumentor = _flask.FlaskInstrumentor()
    instrumentor.instrument()
    return _over_wsgi(_flask_app()), instrumentor.uninstrument


def _flask_of_one_app() -> tuple[Serve, Callable[[], None]]:
    app = _flask_app()
    _flask.FlaskInstrumentor().instrument_app(app)
    return _over_wsgi(app), lambda: _flask.FlaskInstrumentor().uninstrument_app(app)


def _wsgi_middleware_inside() -> tuple[Serve, Callable[[], None]]:
    app = _flask_app()
    app.wsgi_app = _wsgi.OpenTelemetryMiddleware(app.wsgi_app)
    return _over_wsgi(app), lambda: None


def _wsgi_middleware_outside() -> tuple[Serve, Callable[[], None]]:
    return _over_wsgi(_wsgi.OpenTelemetryMiddleware(_flask_app())), lambda: None


def _django_over(protocol: str) -> Callable[[], tuple[Serve, Callable[[], None]]]:
    def set_up() -> tuple[Serve, Callable[[], None]]:
        from django.core.asgi import get_asgi_application
        from django.core.wsgi import get_wsgi_application

        from tests.support import django_site

        django_site.set_up()
        instrumentor = _django.DjangoInstrumentor()
        instrumentor.instrument()
        if protocol == "ASGI":
            serve = _over_asgi(get_asgi_application())
        else:
            serve = _over_wsgi(get_wsgi_application())
        return lambda path: serve(f"{path}/"), instrumentor.uninstrument

    return set_up


_CASES: Final = {
    "FastAPI, created later": _fastapi_created_later,
    "FastAPI, one application": _fastapi_of_one_app,
    "FastAPI, without an instrumentation": _fastapi_itself,
    "Starlette, created later": _starlette_created_later,
    "ASGI middleware inside": _asgi_middleware_inside,
    "ASGI middleware outside": _asgi_middleware_outside,
    "Flask, created later": _flask_created_later,
    "Flask, one application": _flask_of_one_app,
    "WSGI middleware inside": _wsgi_middleware_inside,
    "WSGI middleware outside": _wsgi_middleware_outside,
    "Django, WSGI": _django_over("WSGI"),
    "Django, ASGI": _django_over("ASGI"),
}


def _server_spans(spans: Any) -> list[ReadableSpan]:
    return [each for each in spans if each.kind is SpanKind.SERVER]


@pytest.mark.parametrize("case", _CASES)
def test_theirs_is_the_only_server_span(
    theirs: InMemorySpanExporter, seen: Captured, case: str
) -> None:
    """It is a child of the caller's, has latspan's attributes, and the stages are under it."""
    serve, switch_off = _CASES[case]()
    try:
        status, body = serve("/items/7")
    finally:
        switch_off()

    assert (status, body[:4]) == (200, b"item")
    (server,) = _server_spans(theirs.get_finished_spans())
    assert _server_spans(seen.spans) == []
    assert server.context is not None
    assert server.parent is not None
    assert f"{server.parent.span_id:016x}" == _TRACEPARENT.split("-")[2]
    assert server.attributes is not None
    assert server.attributes["latspan.kind"] == "request"
    assert server.attributes["latspan.outcome"] == "completed"
    assert str(server.attributes["latspan.route"]).startswith("/items/")
    (answer,) = [each for each in seen.spans if each.name == "answer"]
    assert answer.parent is not None
    # FastAPI itself opens a span around its endpoint, inside its SERVER span.
    between = [each.parent for each in theirs.get_finished_spans() if each.context == answer.parent]
    assert server.context in (answer.parent, *between)
    (record,) = [each for each in seen.records if each.kind is Kind.REQUEST]
    assert (record.side, record.span_id) == (Side.SERVER, server.context.span_id)
    assert "retrieve" in {name for name, _, _ in record.segment_totals}


@pytest.mark.parametrize("case", _CASES)
def test_a_failure_is_in_their_span(
    theirs: InMemorySpanExporter, seen: Captured, case: str
) -> None:
    """The outcome of the request is known before their span ends."""
    serve, switch_off = _CASES[case]()
    try:
        assert serve("/fails")[0] == 500
    finally:
        switch_off()

    (server,) = _server_spans(theirs.get_finished_spans())
    assert server.attributes is not None
    assert server.attributes["latspan.outcome"] == "error"
    assert seen.snapshot().count(outcome="error") == 1


@pytest.mark.parametrize("case", _CASES)
def test_their_classes_are_restored(
    theirs: InMemorySpanExporter, seen: Captured, case: str
) -> None:
    """Nothing of latspan stays in OpenTelemetry's middleware once it is switched off."""

    def theirs_now() -> list[object]:
        classes: list[type] = [_asgi.OpenTelemetryMiddleware, _wsgi.OpenTelemetryMiddleware]
        return [dict(vars(each)) for each in classes]

    before = theirs_now()
    serve, switch_off = _CASES[case]()
    try:
        serve("/items/7")
    finally:
        for each in _OURS:
            each().uninstrument()
        switch_off()

    assert theirs_now() == before


@pytest.mark.parametrize("case", [each for each in _CASES if "middleware" not in each])
def test_without_a_provider_the_span_is_latspans(seen: Captured, case: str) -> None:
    """OpenTelemetry's instrumentation records nothing then, so there is no span to add to."""
    serve, switch_off = _CASES[case]()
    try:
        serve("/items/7")
    finally:
        switch_off()

    (server,) = _server_spans(seen.spans)
    assert server.attributes is not None
    assert server.attributes["latspan.outcome"] == "completed"
    assert seen.snapshot().count() == 1
