"""Which attributes apply to the stages of a streamed body, which runs after its handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from flask import Flask, Response, stream_with_context
from starlette.testclient import TestClient

import latspan
from latspan import Kind
from latspan.testing import Captured, capture
from latspan_instrumentation.asgi import StarletteInstrumentor
from latspan_instrumentation.wsgi import FlaskInstrumentor
from tests.support.frameworks import instrumented

_INSTRUMENTORS: Final = (StarletteInstrumentor, FlaskInstrumentor)


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Switch the instrumentors on, and record in memory."""
    with instrumented(*_INSTRUMENTORS), capture() as captured:
        yield captured


async def parts() -> AsyncIterator[str]:
    with latspan.stage("outside"):
        pass
    with latspan.attributes(tenant="body"):
        with latspan.stage("inside"):
            pass
        yield "1"
        with latspan.stage("inside, later"):
            pass
        yield "2"


def plain_parts() -> Iterator[str]:
    with latspan.stage("outside"):
        pass
    with latspan.attributes(tenant="body"):
        with latspan.stage("inside"):
            pass
        yield "1"
        with latspan.stage("inside, later"):
            pass
        yield "2"


def annotating_parts() -> Iterator[str]:
    latspan.annotate(tenant="body")
    yield "1"


def fastapi() -> FastAPI:
    app = FastAPI()

    @app.get("/chat/{body}")
    async def chat(body: str) -> StreamingResponse:
        if body == "annotates":
            return StreamingResponse(annotating_parts())
        latspan.annotate(tenant="handler")
        with latspan.attributes(traffic_class="block"):
            return StreamingResponse(parts() if body == "async" else plain_parts())

    return app


def flask() -> Flask:
    app = Flask(__name__)

    @app.get("/chat/<body>")
    def chat(body: str) -> Response:
        if body == "annotates":
            return Response(stream_with_context(annotating_parts()))
        latspan.annotate(tenant="handler")
        with latspan.attributes(traffic_class="block"):
            return Response(stream_with_context(plain_parts()))

    return app


def tenants(seen: Captured) -> dict[str, str | None]:
    """Return the tenant of each stage and of the served request, all of which have the route."""
    server = [each for each in seen.records if each.side == "server"]
    assert {each.attributes["route"] for each in server} <= {"/chat/{body}", "/chat/<body>"}
    assert all("traffic_class" not in each.attributes for each in server)
    return {
        "request" if each.kind is Kind.REQUEST else each.name: each.attributes.get("tenant")
        for each in server
    }


def test_a_block_in_an_async_body_applies_to_all_of_it(seen: Captured) -> None:
    """The handler's own block has ended; its annotation is the request's alone."""
    TestClient(fastapi()).get("/chat/async")

    assert tenants(seen) == {
        "request": "handler",
        "outside": None,
        "inside": "body",
        "inside, later": "body",
    }


def test_a_block_in_a_plain_body_of_asgi_ends_at_its_next_step(seen: Captured) -> None:
    """Starlette runs each step of such a generator in a copy of the context."""
    TestClient(fastapi()).get("/chat/plain")

    assert tenants(seen) == {
        "request": "handler",
        "outside": None,
        "inside": "body",
        "inside, later": None,
    }


def test_a_block_in_a_body_of_flask_applies_to_all_of_it(seen: Captured) -> None:
    """Its generator has one context."""
    with flask().test_client() as client:
        assert client.get("/chat/plain", buffered=True).data == b"12"

    assert tenants(seen) == {
        "request": "handler",
        "outside": None,
        "inside": "body",
        "inside, later": "body",
    }


def test_a_body_annotates_its_request(seen: Captured) -> None:
    """The request is open until its last byte."""
    TestClient(fastapi()).get("/chat/annotates")
    with flask().test_client() as client:
        assert client.get("/chat/annotates", buffered=True).data == b"1"

    requests = [each for each in seen.records if each.kind is Kind.REQUEST]
    assert [each.attributes["tenant"] for each in requests] == ["body", "body"]
