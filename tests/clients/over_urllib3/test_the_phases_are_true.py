"""Over real sockets a request has the phases that it really had, and no others."""

from __future__ import annotations

import json
import socket
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, ManualClock, RequestRecord
from tests.support.loopback import ConnectionEnding, Loopback, Visit, chunked, whole
from tests.support.tls import CERTIFICATE
from tests.support.traces import OUTCOME, segment, span

MS = 1_000_000


def names(record: RequestRecord) -> list[str]:
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return [segment.name for segment in record.segments]


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> list[str]:
    """A resolver that takes 40 ms, by latspan's clock, and knows the names that end in .test."""
    asked: list[str] = []
    resolve = socket.getaddrinfo

    def slowly(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not str(host).endswith(".test"):
            return resolve(host, *args, **kwargs)
        asked.append(host)
        clock.advance(40 * MS)
        if host == "nowhere.test":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    return asked


def test_a_slow_resolver_is_distinguished_from_tcp(
    clock: ManualClock, seen: Captured, resolver: list[str]
) -> None:
    """By the clock that only the resolver moves, everything is `dns`."""
    with Loopback([whole(), whole()]) as server, requests.Session() as session:
        for _ in range(2):
            session.get(f"http://server.test:{server.port}/", timeout=5)
    first, second = seen.records
    assert {t.name: t.duration_ns for t in first.segment_totals} == {"dns": 40 * MS}
    assert second.duration_ns == 0
    assert resolver == ["server.test"]
    reused = [
        (span.attributes or {})["latspan.connection.reused"]
        for span in seen.spans
        if span.parent is None
    ]
    assert reused == [False, True]


def test_a_name_that_there_is_not(clock: ManualClock, seen: Captured, resolver: list[str]) -> None:
    """The failure's time is where it happened too."""
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get("http://nowhere.test/", timeout=5)
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    assert {t.name: t.duration_ns for t in record.segment_totals} == {"dns": 40 * MS}


def test_a_resolver_of_the_applications_own_is_not_guessed_at(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, seen: Captured
) -> None:
    """Where an application opens sockets itself, the look-up is not told from TCP."""
    with Loopback([whole()]) as server:

        def open_socket(address: Any, *args: Any, **kwargs: Any) -> socket.socket:
            clock.advance(40 * MS)
            return socket.create_connection(("127.0.0.1", server.port))

        monkeypatch.setattr("urllib3.util.connection.create_connection", open_socket)
        requests.get("http://server.test/", timeout=5)
    (record,) = seen.records
    assert {t.name: t.duration_ns for t in record.segment_totals} == {"connect": 40 * MS}


def test_a_unix_socket(tmp_path: Path, watched: Captured) -> None:
    """A connection class that makes its own socket is heard as well, as one `connect`."""
    path = tmp_path / "server"

    class Connection(HTTPConnection):
        def connect(self) -> None:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(path))
            self.sock: Any = sock

    class Pool(HTTPConnectionPool):
        ConnectionCls: Any = Connection

    with Loopback([whole(), whole()], unix=path), Pool("localhost") as pool:
        for _ in range(2):
            assert pool.request("GET", "/").data == b"ok"
    first, second = watched.records
    assert names(first) == [
        "prepare",
        "pool_wait",
        "connect",
        "send",
        "server_wait",
        "unattributed",
    ]
    assert "connect" not in names(second)


def pairs_of(seen: Captured, server: Loopback) -> list[tuple[RequestRecord, Visit]]:
    visits = {visit.request.headers["traceparent"].split("-")[2]: visit for visit in server.visits}
    return [(record, visits[f"{record.span_id:016x}"]) for record in seen.records]


def test_a_handshake_that_fails(watched: Captured) -> None:
    """The server's certificate is nobody's whom the client knows."""
    with Loopback([], secure=True) as server, pytest.raises(requests.exceptions.SSLError):
        requests.get(server.url, timeout=10)
    (record,) = watched.records
    assert record.outcome is Outcome.ERROR
    assert names(record)[-2:] == ["tls", "postprocess"]


def test_through_a_proxy(watched: Captured) -> None:
    """The exchange is with the server, by way of a connection to the proxy."""
    with Loopback([whole()]) as proxy:
        answer = requests.get(
            "http://server.test/path?secret=1", proxies={"http": proxy.url}, timeout=10
        )
        assert answer.content == b"ok"
    (visit,) = proxy.visits
    assert visit.request.path == "http://server.test/path"
    (record,) = watched.records
    (span,) = [span for span in watched.spans if span.parent is None]
    assert (span.attributes or {})["server.address"] == "server.test"
    assert (span.attributes or {})["server.port"] == 80
    assert (span.attributes or {})["url.full"] == "http://server.test:80/path"
    assert {"dns", "tcp"} <= set(names(record))


def test_through_a_tunnel(watched: Captured) -> None:
    """What is not name look-up or TCP alone is not called so: `connect` holds the proxy's part."""
    with Loopback([whole()], secure=True) as server, Loopback([]) as proxy:
        answer = requests.get(
            f"https://127.0.0.1:{server.port}/",
            proxies={"https": proxy.url},
            verify=str(CERTIFICATE),
            timeout=10,
        )
        assert answer.content == b"ok"
    (record,) = watched.records
    assert record.outcome is Outcome.COMPLETED
    assert names(record)[:5] == ["prepare", "pool_wait", "connect", "tls", "send"]
    (span,) = [span for span in watched.spans if span.parent is None]
    assert (span.attributes or {})["server.port"] == server.port


def test_a_proxy_that_is_not_there(watched: Captured) -> None:
    """urllib3 says that it was the proxy; how it went is what counts."""
    with Loopback([]) as gone:
        url = gone.url
    with pytest.raises(requests.exceptions.ProxyError):
        requests.get("https://server.test/", proxies={"https": url}, timeout=10)
    (record,) = watched.records
    assert record.outcome is Outcome.ERROR


@pytest.mark.parametrize(
    ("method", "reply"),
    [
        ("HEAD", whole(b"")),
        ("GET", whole(b"", status=204)),
        ("GET", whole(b"", status=304)),
        ("GET", whole(b"")),
    ],
)
def test_without_a_body_the_headers_are_the_end(watched: Captured, method: str, reply: Any) -> None:
    """Nobody need read nothing."""
    with Loopback([reply]) as server, requests.Session() as session:
        response = session.request(method, server.url, stream=True, timeout=5)
        (record,) = watched.records
        assert record.outcome is Outcome.COMPLETED
        assert response.content == b""
    assert len(watched.records) == 1


@pytest.mark.parametrize("reply", [whole(b"x" * 100), chunked(b"x" * 60, b"x" * 40)])
def test_the_last_byte_is_the_end(watched: Captured, reply: Any) -> None:
    """A caller who knows how much there is need not ask for more."""
    with Loopback([reply]) as server, urllib3.PoolManager() as manager:
        response = manager.request("GET", server.url, preload_content=False)
        assert len(response.read(60)) == 60
        assert watched.records == ()
        assert len(response.read(100)) == 40
        (record,) = watched.records
        assert record.outcome is Outcome.COMPLETED


def event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


EVENTS = (
    event("message_start", message={"id": "1", "model": "c", "usage": {"input_tokens": 7}}),
    event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hello"}),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": " there"}),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 4}),
    event("message_stop"),
)
"""A stream of Anthropic's."""


def test_a_stream_of_anthropics(watched: Captured) -> None:
    """It is known by its first event."""
    reply = chunked(*EVENTS, gap_s=0.005, content_type="text/event-stream; charset=utf-8")
    with Loopback([reply]) as server:
        body = {"model": "claude", "stream": True}
        with requests.post(server.url, json=body, stream=True, timeout=5) as response:
            assert len(list(response.iter_lines())) == 3 * len(EVENTS)
    (record,) = watched.records
    assert (record.kind, record.outcome, record.name) == (
        Kind.CALL,
        Outcome.COMPLETED,
        "chat claude",
    )
    assert (record.tokens.input, record.tokens.output) == (7, 4)
    assert len(record.chunk_gaps) == 1


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_stream(watched: Captured, coding: str) -> None:
    """Its tokens are those that urllib3 decodes, each when it does."""
    packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    parts = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in EVENTS]
    reply = chunked(
        *parts,
        packer.flush(),
        gap_s=0.005,
        content_type="text/event-stream",
        content_encoding=coding,
    )
    with Loopback([reply]) as server:
        response = requests.post(server.url, json={"model": "c"}, stream=True, timeout=5)
        assert b"".join(response.iter_content(None)) == b"".join(EVENTS)
    (record,) = watched.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert (record.tokens.input, record.tokens.output) == (7, 4)
    assert len(record.chunk_gaps) == 1


@pytest.mark.parametrize("ending", [ConnectionEnding.CLOSE, ConnectionEnding.RESET])
def test_a_body_that_is_cut(watched: Captured, ending: ConnectionEnding) -> None:
    """Through a real socket: an end or a reset in the midst of a body."""
    reply = chunked(b"x" * 10, b"x" * 10, ending=ending, cut=True)
    with Loopback([reply]) as server:
        response = requests.get(server.url, stream=True, timeout=5)
        with pytest.raises(requests.exceptions.ChunkedEncodingError):
            list(response.iter_content(5))
    (record,) = watched.records
    assert (record.kind, record.outcome) == (Kind.HTTP, Outcome.ERROR)


def test_many_threads_of_one_session(watched: Captured) -> None:
    """Each request is its own: what one thread does is no other's."""
    threads, each = 8, 10
    with Loopback([whole()] * (threads * each)) as server, requests.Session() as session:
        session.mount("http://", HTTPAdapter(pool_maxsize=threads))

        def send() -> None:
            for _ in range(each):
                session.get(f"{server.url}/{threading.get_ident()}", timeout=10)

        workers = [threading.Thread(target=send) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        connections = server.connections
    pairs = pairs_of(watched, server)
    assert len(pairs) == threads * each
    assert {record.outcome for record, _ in pairs} == {Outcome.COMPLETED}
    connecting = sum("tcp" in names(record) for record, _ in pairs)
    assert connecting == connections


def test_a_request_as_a_whole_trace(seen: Captured, resolver: list[str]) -> None:
    """The exchange, its phases and how it ended."""
    with Loopback([whole()]) as server, requests.Session() as session:
        session.get(f"http://server.test:{server.port}/", timeout=5)

    assert resolver == ["server.test"]
    assert seen.spans_as_dict(attributes=OUTCOME) == [
        span("GET", "CLIENT", 0, 40, {"latspan.outcome": "completed"}, segment("dns", 0, 40))
    ]
