"""Jaeger and Tempo are recognised, asked within bounds, and never believed blindly."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, cast

import pytest

from latspan._study.traces import TraceQuery, read_backend
from latspan.errors import ConfigError, LatspanError, RecordingError
from support.otlp import free_ports

NOW_NS: Final = 1_795_532_000 * 10**9
"""2026-11-24 14:53:20 UTC."""

OFFICIAL: Final = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
SHOP: Final = TraceQuery(service="shop")
Answer = Any


class Backend:
    """
    A backend of traces with fixed answers.

    Args:
        answers: Answer of each path: JSON, bytes, or a status.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""


@contextmanager
def serving(answers: Mapping[str, Answer]) -> Generator[Backend]:
    """Run a backend, and yield it with what it was asked."""
    backend = Backend(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            backend.asked.append((path, dict(urllib.parse.parse_qsl(query))))
            backend.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = answers.get(path, 404)
            if isinstance(answer, int):
                self.send_response(answer)
                self.send_header("Location", "http://login.test/")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as above
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    backend.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield backend
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def message(*numbers: int, service: str = "shop", in_base64: bool = False) -> dict[str, Any]:
    """Return one trace with one call per number."""

    def identifier(number: int, size: int) -> str:
        held = number.to_bytes(size, "big")
        return base64.b64encode(held).decode() if in_base64 else held.hex()

    def attribute(name: str, value: str) -> dict[str, Any]:
        return {"key": name, "value": {"stringValue": value}}

    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [attribute("service.name", service)]},
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": identifier(number, 16),
                                "spanId": identifier(number, 8),
                                "name": f"span {number}",
                                "kind": "SPAN_KIND_CLIENT" if in_base64 else 3,
                                "startTimeUnixNano": f"{NOW_NS}",
                                "endTimeUnixNano": f"{NOW_NS + 10**9}",
                                "attributes": [attribute(*each) for each in OFFICIAL.items()],
                            }
                            for number in numbers
                        ]
                    }
                ],
            }
        ]
    }


def jaeger(*numbers: int, **changed: Answer) -> dict[str, Answer]:
    """Return the answers of Jaeger; `services` and `traces` replace its own."""
    found: Answer = {"result": message(*numbers)} if numbers else 404
    return {
        "/api/services": changed.get("services", {"data": ["shop", "bakery"]}),
        "/api/v3/traces": changed.get("traces", found),
    }


def tempo(*numbers: int, **changed: Answer) -> dict[str, Answer]:
    """Return the answers of Tempo; `search` and `trace_1`, for example, replace its own."""
    return {
        "/api/echo": b"echo",
        "/api/v2/search/tag/resource.service.name/values": {
            "tagValues": [{"type": "string", "value": "shop"}]
        },
        "/api/search": changed.get(
            "search", {"traces": [{"traceID": f"{number:x}"} for number in numbers]}
        ),
        **{
            f"/api/v2/traces/{number:x}": changed.get(
                f"trace_{number}", {"trace": message(number, in_base64=True)}
            )
            for number in numbers
        },
    }


def test_jaeger_is_asked_for_the_service_the_window_and_a_number_of_traces() -> None:
    """The notes state all three."""
    with serving(jaeger(1, 2)) as backend:
        found = read_backend(
            backend.url, TraceQuery(service="shop", since_s=1_800, limit=7), now_ns=NOW_NS
        )

    assert found.format == "jaeger"
    assert [each.name for each in found.records] == ["span 1", "span 2"]
    path, asked = backend.asked[-1]
    assert path == "/api/v3/traces"
    assert asked == {
        "query.service_name": "shop",
        "query.start_time_min": "2026-11-24T14:23:20.000000000Z",
        "query.start_time_max": "2026-11-24T14:53:20.000000000Z",
        "query.num_traces": "7",
        "query.search_depth": "7",
    }
    assert found.about == (
        "Read 2 traces of shop from Jaeger, 2026-11-24 14:23:20 UTC to 2026-11-24 14:53:20 UTC.",
        "Traces that sampling left out are missing, so percentiles are those of kept traces.",
    )


def test_tempo_is_searched_and_then_asked_for_each_trace() -> None:
    """Its identifiers are in base64, and of a search without leading zeros."""
    with serving(tempo(1, 0xABC)) as backend:
        found = read_backend(
            f"{backend.url}/", TraceQuery(service="shop", route='/a"b', limit=5), now_ns=NOW_NS
        )

    asked = dict(backend.asked)
    assert asked["/api/search"] == {
        "q": '{ resource.service.name = "shop" && (span.latspan.route = "/a\\"b"'
        ' || span.http.route = "/a\\"b") }',
        "start": "1795528400",
        "end": "1795532000",
        "limit": "5",
        "spss": "1",
    }
    assert found.format == "tempo"
    # Neither call has the route, which is checked again.
    assert found.records == ()

    with serving(tempo(1, 0xABC)) as backend:
        found = read_backend(backend.url, SHOP, now_ns=NOW_NS)

    assert sorted(each.trace_id for each in found.records) == [1, 0xABC]


@pytest.mark.parametrize(("answers", "name"), [(jaeger(1, 2), "Jaeger"), (tempo(1, 2), "Tempo")])
def test_a_result_that_may_have_been_cut_is_stated(answers: dict[str, Answer], name: str) -> None:
    """The backend returned as many traces as were asked for."""
    with serving(answers) as backend:
        found = read_backend(backend.url, TraceQuery(service="shop", limit=2), now_ns=NOW_NS)

    assert found.about[1] == (
        f"{name} returned as many traces as were asked for: there may be more in this window, and"
        " which ones it left out is unknown. Use a shorter --since or a larger --limit."
    )


def test_traces_of_tempo_that_are_incomplete_or_gone_are_stated() -> None:
    """A trace may be too large, or deleted between the search and the request."""
    partial = {"trace": message(1, in_base64=True), "status": "PARTIAL"}
    answers = tempo(1, 2, 3, trace_1=partial, trace_2=404)
    with serving(answers) as backend:
        found = read_backend(backend.url, SHOP, now_ns=NOW_NS)

    assert len(found.records) == 2
    assert found.about[2:] == (
        "Tempo returned 1 trace without all of its spans.",
        "Tempo found 1 trace that it could not return.",
    )


@pytest.mark.parametrize("in_base64", [False, True], ids=["Jaeger", "Tempo"])
def test_spans_without_a_known_time_are_left_out_and_counted(in_base64: bool) -> None:
    """A span that was not ended has no end."""
    told = message(1, 2, in_base64=in_base64)
    del told["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["endTimeUnixNano"]
    answers = tempo(1, trace_1={"trace": told}) if in_base64 else jaeger(traces={"result": told})
    with serving(answers) as backend:
        found = read_backend(backend.url, SHOP, now_ns=NOW_NS)

    assert [each.duration_ns for each in found.records] == [10**9]
    assert found.notes[-1] == "1 span was left out: its end is missing."


@pytest.mark.parametrize("answers", [jaeger(), tempo(), jaeger(traces={"result": {}})])
def test_an_empty_window_is_no_error(answers: dict[str, Answer]) -> None:
    """The notes state that it is empty, and how to ask for more."""
    with serving(answers) as backend:
        found = read_backend(backend.url, SHOP, now_ns=NOW_NS)

    assert found.records == ()
    assert found.about[1:] == ("There is none in this window: use a longer one with --since.",)


def test_spans_of_other_services_in_the_same_traces_are_no_records() -> None:
    """A backend returns whole traces."""
    both = message(1)["resourceSpans"] + message(2, service="bakery")["resourceSpans"]
    with serving(jaeger(traces={"result": {"resourceSpans": both}})) as backend:
        found = read_backend(backend.url, SHOP, now_ns=NOW_NS)

    assert [each.name for each in found.records] == ["span 1"]


@pytest.mark.parametrize(
    ("service", "services", "message", "hint"),
    [
        ("shpo", ["bakery", "shop"], "has no service 'shpo'", "it has bakery, shop"),
        (None, ["bakery", "shop"], "several services", "use --service with one of bakery, shop"),
        (None, [], "has no traces of any service", "latspan doctor"),
        ("shop", None, "has no traces of any service", "latspan doctor"),
    ],
)
def test_a_service_that_is_not_there_is_an_error_with_those_that_are(
    service: str | None, services: list[str] | None, message: str, hint: str
) -> None:
    """A misspelt name would otherwise be an empty window."""
    with (
        serving(jaeger(services={"data": services})) as backend,
        pytest.raises(ConfigError, match=message) as raised,
    ):
        read_backend(backend.url, TraceQuery(service=service))

    assert hint in (raised.value.hint or "")


def test_the_only_service_need_not_be_named() -> None:
    """There is nothing to choose."""
    with serving(tempo(1)) as backend:
        assert len(read_backend(backend.url, TraceQuery(), now_ns=NOW_NS).records) == 1


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "is neither Jaeger nor Tempo"),
        ({"/api/services": b"<html>"}, "is neither Jaeger nor Tempo"),
        ({"/api/services": []}, "is neither Jaeger nor Tempo"),
        ({"/api/echo": b"hello"}, "is neither Jaeger nor Tempo"),
        ({"/api/services": 302}, "redirects to http://login.test/"),
        (jaeger(services={"data": 3}), "does not answer as Jaeger does"),
        (jaeger(traces=b"<html>"), "does not answer as Jaeger or Tempo does"),
        (jaeger(traces=[]), "does not answer as Jaeger does"),
        (jaeger(traces={"result": [1]}), "does not answer as Jaeger does"),
        (jaeger(traces=500), "answered 500"),
        (tempo(search={"traces": [1]}), "does not answer as Tempo does"),
        (tempo(1, trace_1=[1]), "does not answer as Tempo does"),
        (tempo(1, trace_1=503), "answered 503"),
    ],
)
def test_an_answer_of_another_form_is_one_error(answers: dict[str, Answer], message: str) -> None:
    """With the address that is expected, and never a traceback."""
    with serving(answers) as backend, pytest.raises(ConfigError, match=message) as raised:
        read_backend(backend.url, SHOP)

    assert raised.value.message.startswith(backend.url)
    assert "http://localhost:16686" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "spans", [[{}], [3], [{"traceId": "zz", "spanId": "1"}], {"a": 1}, [{"traceId": "\x00" * 24}]]
)
def test_a_span_of_another_form_is_one_error(spans: Any) -> None:
    """A trace whose spans cannot be read proves nothing."""
    held = {"result": {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}}
    with (
        serving(jaeger(traces=held)) as backend,
        pytest.raises(LatspanError) as raised,
    ):
        read_backend(backend.url, SHOP)

    assert isinstance(raised.value, ConfigError | RecordingError)


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://127.0.0.1:port"])
def test_an_address_that_is_none(url: str) -> None:
    """Like one at which nothing listens."""
    with pytest.raises(ConfigError):
        read_backend(url, SHOP)


def test_an_address_at_which_nothing_listens() -> None:
    """The error names it."""
    (port,) = free_ports(1)
    with pytest.raises(ConfigError, match="does not answer") as raised:
        read_backend(f"http://127.0.0.1:{port}", SHOP)

    assert f"127.0.0.1:{port}" in raised.value.message


def test_credentials_are_sent_and_never_shown() -> None:
    """Those of the address as basic authentication; headers as they are."""
    query = TraceQuery(service="nope", headers={"X-Scope-OrgID": "team-7"})
    with serving(jaeger(1)) as backend:
        url = backend.url.replace("http://", "http://user:s%40cret@")
        with pytest.raises(ConfigError) as raised:
            read_backend(url, query)

    expected = base64.b64encode(b"user:s@cret").decode()
    for headers in backend.headers:
        assert headers["authorization"] == f"Basic {expected}"
        assert headers["x-scope-orgid"] == "team-7"
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"since_s": 0.0}, {"since_s": float("nan")}])
def test_a_query_without_a_bound_is_refused(wrong: dict[str, Any]) -> None:
    """The number of traces and the window are limited."""
    with pytest.raises(ConfigError):
        TraceQuery(**cast("Any", wrong))
