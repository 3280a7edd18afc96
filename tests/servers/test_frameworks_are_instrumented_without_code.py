"""Applications of FastAPI, Starlette, Flask and Django on real servers, without a middleware."""

from __future__ import annotations

import asyncio
import gc
import http.client
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from fastapi import APIRouter, BackgroundTasks, FastAPI, HTTPException, WebSocket
from fastapi.responses import StreamingResponse
from flask import Flask, Response, stream_with_context
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.responses import Response as StarletteResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from werkzeug.middleware.dispatcher import DispatcherMiddleware

import latspan
import latspan_instrumentation.asgi
import latspan_instrumentation.wsgi
from latspan import Kind
from latspan._live.instrument import ServerRequest
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Side, capture
from latspan_instrumentation.asgi import StarletteInstrumentor
from latspan_instrumentation.django import DjangoInstrumentor
from latspan_instrumentation.wsgi import FlaskInstrumentor
from tests.support import django_site
from tests.support.frameworks import instrumented

_DEADLINE_S: Final = 30.0
_INSTRUMENTORS: Final = (StarletteInstrumentor, FlaskInstrumentor, DjangoInstrumentor)

django_site.set_up()


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Switch the instrumentors on, and record in memory."""
    with instrumented(*_INSTRUMENTORS), capture() as captured:
        yield captured


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


@contextmanager
def _wsgi(app: Any) -> Generator[int]:
    """Serve on loopback while the block lasts; yields the port."""
    server: WSGIServer = make_server("127.0.0.1", 0, app, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(_DEADLINE_S)
        server.server_close()


@contextmanager
def _asgi(app: Any) -> Generator[int]:
    """Serve on loopback while the block lasts; yields the port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(_DEADLINE_S)
        listener.close()


def _get(port: int, path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    """Return status, body and headers of the response."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, response.read().decode(), headers
    finally:
        connection.close()


def _served(seen: Captured) -> list[RequestRecord]:
    records = [each for each in seen.records if each.side is Side.SERVER]
    for each in records:
        assert sum(segment.duration_ns for segment in each.segments) == each.duration_ns
    return [each for each in records if each.kind is Kind.REQUEST]


def _fastapi() -> FastAPI:
    app = FastAPI()
    router = APIRouter(prefix="/shop")

    @app.get("/items/{item}")
    @router.get("/items/{item}")
    async def item(item: int) -> str:
        with latspan.request("answer"), latspan.stage("retrieve"):
            return f"item {item}"

    @app.get("/fails")
    def fails() -> str:
        raise LookupError("secret")

    @app.get("/busy")
    def busy() -> str:
        raise HTTPException(503)

    @app.get("/chat/{room}")
    async def chat(room: str) -> StreamingResponse:
        async def words() -> AsyncIterator[str]:
            with latspan.stage("decode"):
                for word in ("Hello", "there"):
                    yield word

        return StreamingResponse(words())

    app.include_router(router)
    return app


def _starlette() -> Starlette:
    async def item(request: Request) -> PlainTextResponse:
        with latspan.request("answer"), latspan.stage("retrieve"):
            return PlainTextResponse(f"item {request.path_params['item']}")

    def fails(request: Request) -> PlainTextResponse:
        raise LookupError("secret")

    async def chat(request: Request) -> StreamingResponse:
        async def words() -> AsyncIterator[str]:
            with latspan.stage("decode"):
                for word in ("Hello", "there"):
                    yield word

        return StreamingResponse(words())

    routes = [Route("/items/{item}", item), Route("/fails", fails), Route("/chat/{room}", chat)]
    return Starlette(routes=[*routes, Mount("/shop", routes=routes)])


def _flask() -> Flask:
    app = Flask(__name__)

    @app.get("/items/<int:item>")
    @app.get("/shop/items/<int:item>")
    def item(item: int) -> str:
        with latspan.request("answer"), latspan.stage("retrieve"):
            return f"item {item}"

    @app.get("/fails")
    def fails() -> str:
        raise LookupError("secret")

    @app.get("/chat/<room>")
    def chat(room: str) -> Response:
        def words() -> Iterator[str]:
            with latspan.stage("decode"):
                yield from ("Hello", "there")

        return Response(stream_with_context(words()))

    return app


_BRACES: Final = ("/items/{item}", "/shop/items/{item}", "/chat/{room}", "/fails")
_ANGLES: Final = ("/items/<int:item>", "/shop/items/<int:item>", "/chat/<room>", "/fails")
_SLASHES: Final = tuple(f"{each}/" for each in _ANGLES)

_FRAMEWORKS: Final = {
    "fastapi": (_asgi, _fastapi, _BRACES, "LookupError"),
    "starlette": (_asgi, _starlette, _BRACES, "LookupError"),
    "flask": (_wsgi, _flask, _ANGLES, "500"),
    "django, WSGI": (_wsgi, get_wsgi_application, _SLASHES, "500"),
    "django, ASGI": (_asgi, get_asgi_application, _SLASHES, "500"),
}


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_a_request_is_one_unit_with_its_route(seen: Captured, framework: str) -> None:
    """Its span is named after the route's template, and `latspan.request` inside is a part."""
    serving, application, (item, shop_item, chat, _), _ = _FRAMEWORKS[framework]
    end = "/" if item.endswith("/") else ""
    with serving(application()) as port:
        assert "item 7" in _get(port, f"/items/7{end}")[1]
        assert "item 7" in _get(port, f"/shop/items/7{end}")[1]
        assert _get(port, f"/chat/blue{end}")[1] == "Hellothere"

    records = _served(seen)
    assert [each.name for each in records] == [f"GET {each}" for each in (item, shop_item, chat)]
    assert {each.outcome for each in records} == {Outcome.COMPLETED}
    assert [each.attributes["route"] for each in records] == [item, shop_item, chat]
    assert seen.snapshot().count() == 3
    assert seen.snapshot().count(kind="inner_request") == 2
    assert [each.kind.name for each in seen.spans].count("SERVER") == 3
    assert "decode" in {name for name, _, _ in records[2].segment_totals}
    assert "retrieve" in {name for name, _, _ in records[0].segment_totals}


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_an_exception_and_an_unknown_path(seen: Captured, framework: str) -> None:
    """A failure has its error type, and a path without a route is in no name."""
    serving, application, (*_, fails), error_type = _FRAMEWORKS[framework]
    with serving(application()) as port:
        assert _get(port, fails)[0] == 500
        assert _get(port, "/unknown/7")[0] == 404

    failed, unknown = _served(seen)
    assert (failed.name, failed.outcome) == (f"GET {fails}", Outcome.ERROR)
    assert (unknown.name, unknown.outcome) == ("GET", Outcome.COMPLETED)
    (span,) = [each for each in seen.spans if each.name == f"GET {fails}"]
    assert span.attributes is not None
    assert span.attributes["error.type"] == error_type
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("framework", _FRAMEWORKS)
def test_an_application_that_exists_is_covered_until_it_is_switched_off(framework: str) -> None:
    """Also one that has served a request before, and so has built its middleware."""
    serving, application, (item, *_), _ = _FRAMEWORKS[framework]
    path = f"/items/7{'/' if item.endswith('/') else ''}"
    with capture() as seen, serving(application()) as port:
        _get(port, path)
        for each in _INSTRUMENTORS:
            each().instrument()
            each().instrument()
        try:
            _get(port, path)
        finally:
            for each in _INSTRUMENTORS:
                each().uninstrument()
        _get(port, path)

    assert [each.name for each in _served(seen)] == [f"GET {item}"]


def test_the_classes_are_restored() -> None:
    """Each patched class has the identical methods afterwards."""
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.base import BaseHandler
    from django.core.handlers.wsgi import WSGIHandler

    def methods() -> list[object]:
        owners = (Starlette, FastAPI, Flask, ASGIHandler, WSGIHandler, BaseHandler)
        return [dict(vars(each)) for each in owners]

    before = methods()
    with instrumented(*_INSTRUMENTORS):
        assert methods() != before
    assert methods() == before


@pytest.mark.parametrize("hold_headers", [False, True])
def test_a_middleware_of_the_application_still_reports_timings(
    seen: Captured, hold_headers: bool
) -> None:
    """The request is tracked once, from the outside, and the header is as configured."""
    app = _fastapi()
    app.add_middleware(
        latspan_instrumentation.asgi.LatspanMiddleware,
        server_timing=["retrieve"],
        hold_headers=hold_headers,
    )
    flask = _flask()
    flask.wsgi_app = latspan_instrumentation.wsgi.LatspanMiddleware(
        flask.wsgi_app, server_timing=["retrieve"]
    )
    with _asgi(app) as port:
        assert _get(port, "/items/7")[2]["server-timing"].startswith("retrieve;dur=")
    with _wsgi(flask) as port:
        assert _get(port, "/items/7")[2]["server-timing"].startswith("retrieve;dur=")

    assert [each.name for each in _served(seen)] == ["GET /items/{item}", "GET /items/<int:item>"]


def test_no_header_is_added(seen: Captured) -> None:
    """Instrumentation without code reveals nothing to clients."""
    with _asgi(_fastapi()) as port:
        assert "server-timing" not in _get(port, "/items/7")[2]
    with _wsgi(_flask()) as port:
        assert "server-timing" not in _get(port, "/items/7")[2]

    assert len(_served(seen)) == 2


@pytest.mark.filterwarnings("ignore:starlette.middleware.wsgi is deprecated")
def test_mounted_applications_are_part_of_the_request(seen: Captured) -> None:
    """Of the same framework, and of a framework of the other protocol."""
    from starlette.middleware.wsgi import WSGIMiddleware

    app = FastAPI()
    app.mount("/inner", _fastapi())
    app.mount("/other", WSGIMiddleware(_flask()))
    with _asgi(app) as port:
        assert "item 7" in _get(port, "/inner/items/7")[1]
        assert "item 7" in _get(port, "/other/items/7")[1]

    outer = _flask()
    outer.wsgi_app = DispatcherMiddleware(outer.wsgi_app, {"/inner": _flask()})
    with _wsgi(outer) as port:
        assert "item 7" in _get(port, "/inner/items/7")[1]

    assert [each.name for each in _served(seen)] == [
        "GET /inner/items/{item}",
        "GET /other",
        "GET /inner/items/<int:item>",
    ]
    assert seen.snapshot().count() == 3


def test_a_status_of_the_framework_is_the_error_type(seen: Captured) -> None:
    """An exception that only stands for a status adds nothing to it."""
    with _asgi(_fastapi()) as port:
        assert _get(port, "/busy")[0] == 503

    (span,) = [each for each in seen.spans if each.kind.name == "SERVER"]
    assert span.attributes is not None
    assert span.attributes["error.type"] == "503"


def test_websockets_and_lifespan_pass_through(seen: Captured) -> None:
    """They are not requests, and `latspan.request` inside is a unit of its own."""
    started: list[str] = []

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        started.append("yes")
        yield

    app = FastAPI(lifespan=lifespan)

    @app.websocket("/talk")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        with latspan.request("turn"):
            await socket.send_text(await socket.receive_text())
        await socket.close()

    with TestClient(app) as client, client.websocket_connect("/talk") as session:
        session.send_text("hi")
        assert session.receive_text() == "hi"

    assert started == ["yes"]
    assert [(each.name, each.kind) for each in seen.records] == [("turn", Kind.REQUEST)]


def test_a_background_task_does_not_extend_the_request(seen: Captured) -> None:
    """The response is complete before it runs, and what it does is counted apart."""
    app = FastAPI()

    def summarize() -> None:
        with latspan.request("summarize"):
            pass

    @app.get("/")
    async def index(tasks: BackgroundTasks) -> str:
        tasks.add_task(summarize)
        return "hi"

    with _asgi(app) as port:
        _get(port, "/")

    assert [(each.name, each.kind) for each in seen.records] == [
        ("GET /", Kind.REQUEST),
        ("summarize", Kind.REQUEST),
    ]


@pytest.mark.parametrize(("fails", "outcome"), [(True, Outcome.ERROR), (False, Outcome.COMPLETED)])
def test_an_exception_in_a_body_below_a_middleware(
    seen: Captured, *, fails: bool, outcome: Outcome
) -> None:
    """``BaseHTTPMiddleware`` completes the response before it raises the exception."""

    async def words(_request: Request) -> StreamingResponse:
        async def body() -> AsyncIterator[bytes]:
            yield b"a"
            if fails:
                raise LookupError

        return StreamingResponse(body())

    class Passing(BaseHTTPMiddleware):
        async def dispatch(
            self, request: Request, call_next: RequestResponseEndpoint
        ) -> StarletteResponse:
            return await call_next(request)

    app = Starlette(routes=[Route("/chat", words)], middleware=[Middleware(Passing)])
    client = TestClient(app, raise_server_exceptions=False)
    assert client.get("/chat").content == b"a"
    (served,) = _served(seen)
    assert served.outcome is outcome


def test_a_client_that_leaves_ends_the_request(seen: Captured) -> None:
    """In the middle of a stream, under both protocols."""

    def hang_up(port: int, path: str) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=_DEADLINE_S) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert client.recv(64)

    app = FastAPI()
    flask = Flask(__name__)
    part = b"x" * 65_536

    @app.get("/chat")
    async def chat() -> StreamingResponse:
        async def words() -> AsyncIterator[bytes]:
            while True:
                yield part
                await asyncio.sleep(0)

        return StreamingResponse(words())

    @flask.get("/chat")
    def chat_too() -> Response:
        def words() -> Iterator[bytes]:
            while True:
                yield part

        return Response(words())

    with _asgi(app) as port:
        hang_up(port, "/chat")
    with _wsgi(flask) as port:
        hang_up(port, "/chat")

    assert [each.outcome for each in _served(seen)] == [Outcome.CLOSED_EARLY] * 2


def test_an_unconfigured_process_serves_as_before() -> None:
    """Without a configuration the patches only pass through."""
    with instrumented(*_INSTRUMENTORS):
        for serving, application, (item, *_), _ in _FRAMEWORKS.values():
            with serving(application()) as port:
                end = "/" if item.endswith("/") else ""
                assert "item 7" in _get(port, f"/items/7{end}")[1]


@pytest.mark.parametrize("framework", ["fastapi", "flask", "django, WSGI"])
def test_a_request_is_freed_when_it_has_ended(seen: Captured, framework: str) -> None:
    """Model servers switch Python's garbage collector off, so a request must be no cycle."""
    serving, application, (item, *_), _ = _FRAMEWORKS[framework]
    path = f"/items/7{'/' if item.endswith('/') else ''}"

    def alive() -> int:
        return sum(isinstance(each, ServerRequest) for each in gc.get_objects())

    with serving(application()) as port:
        _get(port, path)
        gc.collect()
        gc.disable()
        try:
            before = alive()
            for _ in range(20):
                _get(port, path)
            assert alive() - before <= 1
        finally:
            gc.enable()
