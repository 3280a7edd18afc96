"""What code inside a served request annotates counts for the request, and so for its route."""

from __future__ import annotations

from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, Side, capture
from latspan_instrumentation.wsgi import LatspanMiddleware as WsgiMiddleware
from tests.servers.conftest import App, Server, answering


def _within(handler: Any) -> App:
    """Return an application that runs the handler, and then answers."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with latspan.request("answer"):
            handler()
        await answering(b"hi")(scope, receive, send)

    return app


def _served(server: Server) -> RequestRecord:
    (record,) = [
        each
        for each in server.seen.records
        if each.kind is Kind.REQUEST and each.side is Side.SERVER
    ]
    return record


def _inner(server: Server) -> RequestRecord:
    (record,) = [each for each in server.seen.records if each.name == "answer"]
    return record


def _attributes(server: Server, name: str) -> dict[str, Any]:
    (span,) = [each for each in server.seen.spans if each.name == name]
    return dict(span.attributes or {})


def test_a_tenant_known_in_the_handler_counts_for_the_served_request(server: Server) -> None:
    """Also from inside a request of the application's; series and spans of both have it."""

    def handler() -> None:
        latspan.annotate(
            {"prompt.version": "7"},
            tenant="acme",
            traffic_class="batch",
            route="/chat/{room}",
            inference_path="support",
        )

    server.serve(_within(handler))

    expected = {
        "tenant": "acme",
        "traffic_class": "batch",
        "route": "/chat/{room}",
        "inference_path": "support",
    }
    assert dict(_served(server).attributes) == dict(_inner(server).attributes) == expected
    for name in ("POST", "answer"):
        assert {
            "latspan.tenant": "acme",
            "latspan.route": "/chat/{room}",
            "prompt.version": "7",
        }.items() <= _attributes(server, name).items()
    served = server.seen.snapshot().where(side="server")
    assert served.count(kind="request", tenant="acme") == 1


def test_the_model_the_tokens_and_the_result_reach_it_too(server: Server) -> None:
    """The conventions' metrics of servers are those of the served request."""

    def handler() -> None:
        latspan.annotate(model="smollm2", provider="acme")
        for _ in latspan.track_tokens(iter("abc")):
            server.clock.advance(1)
        latspan.mark_degraded("output_cut")
        latspan.mark_rejected(retry_after_s=2)

    server.serve(_within(handler))

    for record in (_served(server), _inner(server)):
        assert record.outcome is Outcome.REJECTED
        assert record.attributes["model"] == "smollm2"
        assert record.tokens.output == 3
        assert {"time_to_first_token", "degraded"} <= set(record.metrics)
    assert _served(server).convention["model"] == "smollm2"
    assert not _inner(server).convention


def test_the_routes_own_attributes_are_found_beside_an_annotation(server: Server) -> None:
    """The application's attributes do not replace what latspan knows of the request."""
    server.serve(
        _within(lambda: latspan.annotate({"http.response.status_code": 1, "url.path": "/hidden"}))
    )

    attributes = _attributes(server, "POST")
    assert attributes["http.response.status_code"] == 200
    assert attributes["url.path"] == "/hidden"


def test_an_annotation_reaches_no_request_further_out() -> None:
    """A job of many requests is not about one of their tenants."""
    with capture() as seen, latspan.request("job"):
        for tenant in ("acme", "bolt"):
            with latspan.request(tenant):
                latspan.annotate(tenant=tenant)
        with latspan.stage("report"):
            latspan.annotate({"size": 3})

    tenants = {each.name: each.attributes.get("tenant") for each in seen.records}
    assert tenants == {"acme": "acme", "bolt": "bolt", "report": None, "job": None}
    (job,) = [each for each in seen.spans if each.name == "job"]
    assert dict(job.attributes or {})["size"] == 3


def test_an_annotation_overrides_the_attributes_around_it(server: Server) -> None:
    """It is the more specific one; what it leaves out stays."""
    with latspan.attributes({"arm": "a", "kept": 1}, tenant="unknown", traffic_class="batch"):
        server.serve(_within(lambda: latspan.annotate({"arm": "b"}, tenant="acme")))

    assert {"tenant": "acme", "traffic_class": "batch"}.items() <= dict(
        _served(server).attributes
    ).items()
    attributes = _attributes(server, "POST")
    assert (attributes["arm"], attributes["kept"]) == ("b", 1)


@pytest.mark.parametrize("series", [(), ("prompt.version",)])
def test_series_of_a_served_request_have_configured_attributes(series: tuple[str, ...]) -> None:
    """They come from its handler, as those of WSGI servers do."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        latspan.annotate({"prompt.version": "7"})
        start_response("200 OK", [])
        return [b"hi"]

    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "wsgi.url_scheme": "http"}
    with capture(series_attributes=series) as seen:
        answer: Any = WsgiMiddleware(app)(environ, lambda *_: None)  # pyright: ignore[reportArgumentType]
        list(answer)
        answer.close()

    (record,) = [each for each in seen.records if each.kind is Kind.REQUEST]
    assert record.attributes.get("prompt.version") == ("7" if series else None)
