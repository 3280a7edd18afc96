"""What is special to urllib3 and requests, beside what holds for every client."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import requests
import urllib3
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from latspan.integrations import Outcome
from latspan.testing import Captured, capture
from latspan_instrumentation.requests import RequestsInstrumentor, URLLib3Instrumentor
from tests.support.loopback import Loopback, Reply, chunked, whole

OWN = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


def switch_on() -> None:
    URLLib3Instrumentor().instrument()
    RequestsInstrumentor().instrument()


def take_off() -> None:
    RequestsInstrumentor().uninstrument()
    URLLib3Instrumentor().uninstrument()


@contextmanager
def taken_off() -> Generator[None]:
    take_off()
    try:
        yield
    finally:
        switch_on()


Program = Callable[[str], list[Any]]
"""Asks something of the server at a URL, and says what it saw."""


def shown(response: Any) -> list[Any]:
    """Return what a program can tell of a response."""
    return [type(response), sorted(dict(response.headers).items()), response.headers]


def gets(url: str) -> list[Any]:
    response = requests.get(url, headers={"x-mine": "1"}, timeout=5)
    assert isinstance(response, requests.Response)
    request = response.request
    return [repr(response), *shown(response), response.text, dict(request.headers)]


def posts(url: str) -> list[Any]:
    response = requests.post(url, json={"a": [1, 2]}, timeout=5)
    return [repr(response), *shown(response), response.content]


def streams(url: str) -> list[Any]:
    with requests.post(url, data="text", stream=True, timeout=5) as response:
        return [*shown(response), list(response.iter_content(7)), response.raw.closed]


def sends_a_file(url: str) -> list[Any]:
    with urllib3.PoolManager() as manager:
        response = manager.request("POST", url, fields={"file": ("a.txt", b"content")})
        return [*shown(response), response.data, response.status]


def reads_raw(url: str) -> list[Any]:
    with urllib3.PoolManager() as manager:
        response = manager.request("GET", url, preload_content=False)
        parts = list(iter(lambda: response.read(6), b""))
        return [*shown(response), parts, response.closed]


def uses_a_pool(url: str) -> list[Any]:
    with urllib3.connection_from_url(url) as pool:
        response = pool.urlopen("GET", "/path?query", None, {"x-mine": "1"})
        return [*shown(response), response.data, pool.num_connections, pool.num_requests]


REPLIES = [
    whole(b"x" * 20, x_theirs="1"),
    chunked(b"x" * 10, b"x" * 10),
    whole(b"refused", status=404),
]


def asked(program: Program, reply: Reply) -> tuple[list[Any], bytes]:
    """Return what ``program`` saw and what it sent, whatever the port was."""
    with Loopback([reply]) as server:
        saw = program(server.url)
        (visit,) = server.visits
        return saw, visit.request.raw.replace(b":%d" % server.port, b"")


def without_trace_context(raw: bytes) -> bytes:
    head, blank, body = raw.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(b"traceparent:")]
    return b"\r\n".join(lines) + blank + body


@pytest.fixture(autouse=True)
def _boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form's boundary that is the same each time."""
    monkeypatch.setattr("urllib3.filepost.choose_boundary", lambda: "boundary")


@pytest.mark.parametrize("program", [gets, posts, streams, sends_a_file, reads_raw, uses_a_pool])
@pytest.mark.parametrize("reply", REPLIES, ids=["whole", "chunked", "refused"])
def test_results_and_bytes_are_the_same_with_and_without(
    monkeypatch: pytest.MonkeyPatch, program: Program, reply: Reply
) -> None:
    """Trace context is the one thing added to a request, and it is not even that when off."""
    with taken_off():
        bare = asked(program, reply)
    assert asked(program, reply) == bare, "not configured"
    with capture():
        saw, sent = asked(program, reply)
        assert sent.count(b"\r\ntraceparent: 00-") == 1
        assert (saw, without_trace_context(sent)) == bare
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    with capture():
        assert asked(program, reply) == bare, "without propagation"


def no_such_scheme(url: str) -> Any:
    return requests.get("nothing://here", timeout=5)


def no_url(url: str) -> Any:
    pool: Any = urllib3.connection_from_url(url)
    return pool.urlopen("GET")


def another_host(url: str) -> Any:
    return urllib3.connection_from_url(url).urlopen("GET", "http://elsewhere.test/")


def bad_port(url: str) -> Any:
    return urllib3.connection_from_url(url).urlopen("GET", "http://host:nothing/")


def bad_header(url: str) -> Any:
    return urllib3.PoolManager().request("GET", url, headers={"x": "a\nb"})


MISTAKES: list[Program] = [no_such_scheme, no_url, another_host, bad_port, bad_header]


def chain(program: Program) -> list[tuple[type, int, bool, str]]:
    """Return what ``program`` raises: every error of the chain, whatever port and address."""
    errors: list[tuple[type, int, bool, str]] = []
    with Loopback([]) as server:
        try:
            program(server.url)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it must stay the same
            error: BaseException | None = raised
            while error is not None:
                said = re.sub(r"0x[0-9a-f]+|port=\d+|127.0.0.1:\d+", "…", str(error))
                errors.append((type(error), len(error.args), error.__suppress_context__, said))
                error = error.__cause__ or error.__context__
    return errors


@pytest.mark.parametrize("program", MISTAKES)
def test_errors_are_the_same_with_and_without(program: Program) -> None:
    """Their classes, their words and their causes."""
    with taken_off():
        bare = chain(program)
    assert bare
    with capture():
        assert chain(program) == bare


def test_the_callers_headers_stay_as_they_were(watched: Captured) -> None:
    """Those of a request, of a session and of a pool, which are sent more than once."""
    with Loopback([whole()] * 5) as server, requests.Session() as session:
        prepared = session.prepare_request(requests.Request("GET", server.url))
        before = dict(prepared.headers), dict(session.headers)
        for _ in range(2):
            assert session.send(prepared).request is prepared
        assert (dict(prepared.headers), dict(session.headers)) == before
        with urllib3.connection_from_url(server.url, headers={"x": "y"}) as pool:
            pool.urlopen("GET", "/")
            pool.urlopen("GET", "/")
            assert pool.headers == {"x": "y"}
        sent = [visit.request.headers["traceparent"] for visit in server.visits]
        assert len(set(sent)) == 4
        assert server.visits[-1].request.headers["x"] == "y"


@pytest.mark.parametrize("name", ["traceparent", "Traceparent", "TRACEPARENT"])
def test_a_trace_context_of_the_callers_own_is_left_alone(watched: Captured, name: str) -> None:
    """Never doubled, never replaced, however it is written."""
    with Loopback([whole()] * 2) as server:
        requests.get(server.url, headers={name: OWN}, timeout=5)
        with urllib3.PoolManager() as manager:
            manager.request("GET", server.url, headers={name: OWN})
    for visit in server.visits:
        assert visit.request.headers["traceparent"] == OWN
    assert len(watched.records) == 2


def test_the_export_of_spans_is_not_traced(watched: Captured) -> None:
    """OTLP over HTTP goes through requests, under suppression."""
    with Loopback([whole(b"")]) as server:
        provider = TracerProvider(shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{server.url}/v1/traces")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("t").start_span("s").end()
        provider.shutdown()
    (visit,) = server.visits
    assert visit.request.path == "/v1/traces"
    assert "traceparent" not in visit.request.headers
    assert watched.records == ()


def test_the_query_and_credentials_stay_in_the_process(watched: Captured) -> None:
    """An address says where a request went, and no more."""
    with Loopback([whole()]) as server:
        address = server.url.replace("://", "://user:password@")
        requests.get(f"{address}/path?key=secret#part", timeout=5)
    (span,) = [span for span in watched.spans if span.parent is None]
    assert (span.attributes or {})["url.full"] == f"{server.url}/path"
    assert "secret" not in span.to_json()
    assert "password" not in span.to_json()


@pytest.mark.parametrize(
    ("library", "instrumentor", "ours_outside", "exchanges"),
    [
        ("requests", "RequestsInstrumentor", True, 0),
        ("requests", "RequestsInstrumentor", False, 0),
        ("urllib3", "URLLib3Instrumentor", True, 2),
        ("urllib3", "URLLib3Instrumentor", False, 0),
    ],
)
def test_beside_the_official_instrumentation(
    watched: Captured, library: str, instrumentor: str, ours_outside: bool, exchanges: int
) -> None:
    """
    One trace context on the wire, and no second span of ours.

    The official ones suppress HTTP instrumentation beneath them, and that is honoured.
    """
    module = pytest.importorskip(f"opentelemetry.instrumentation.{library}")
    theirs = getattr(module, instrumentor)()
    with ExitStack() as order:
        # Last on, first off, so that each puts back what it found.
        if ours_outside:
            order.enter_context(taken_off())
        theirs.instrument(tracer_provider=TracerProvider(shutdown_on_exit=False))
        order.callback(theirs.uninstrument)
        if ours_outside:
            switch_on()
            order.callback(take_off)
        with Loopback([whole(status=302, location="/there"), whole()]) as server:
            assert requests.get(server.url, timeout=5).content == b"ok"
    sent = [visit.request.raw.count(b"traceparent:") for visit in server.visits]
    assert sent == [1, 1]
    assert [record.outcome for record in watched.records] == [Outcome.COMPLETED] * exchanges


@pytest.mark.skipif(
    urllib3.__version__.startswith("1."), reason="urllib3 1 makes its responses of http.client's"
)
@pytest.mark.parametrize("status", ["200", "503", 200])
def test_a_response_may_have_any_status(status: Any) -> None:
    """A pool of the application's own answers as it likes."""

    class Pool(urllib3.HTTPConnectionPool):
        def _make_request(self, *_args: Any, **_kwargs: Any) -> Any:
            return urllib3.HTTPResponse(body=b"x", headers={}, status=status, preload_content=False)

    with capture() as seen:
        response: Any = Pool("model.test").urlopen("GET", "/", retries=False)
        assert (response.status, response.data) == (status, b"x")
        response.close()

    assert len(seen.records) == 1
