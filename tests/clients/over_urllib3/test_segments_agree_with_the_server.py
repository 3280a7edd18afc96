"""Over real sockets every segment agrees with what the server wrote down of itself."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import requests
import urllib3

from latspan.recording import RequestRecord
from latspan.segments import Kind, Outcome, Source
from latspan.testing import Script, ScriptedServer, ServedRequest, capture
from tests.conftest import Measured
from tests.support.loopback import Loopback, whole
from tests.support.tls import CERTIFICATE

MS = 1_000_000

REQUESTS = 30
WARM_UP = 3
MEDIAN_LIMIT_MS = 2.0
HANDSHAKE_LIMIT_MS = 5.0
"""With TLS both ends compute, and share the machine's cores for it."""

BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


def total(record: RequestRecord, name: str) -> int:
    return sum(segment.duration_ns for segment in record.segments if segment.name == name)


def served_by_script(
    script: Script, send: Callable[[str, int], None]
) -> list[tuple[RequestRecord, ServedRequest]]:
    """Return each record beside what the server wrote down of the same request."""
    with ScriptedServer(script) as server:
        url = f"{server.base_url}/chat/completions"
        send(url, WARM_UP)
        with capture() as seen:
            send(url, REQUESTS)
        served = {
            request.request_headers["traceparent"].split("-")[2]: request
            for request in server.truth(requests=WARM_UP + REQUESTS)
            if "traceparent" in request.request_headers
        }
    assert len(seen.records) == REQUESTS
    return [(record, served[f"{record.span_id:016x}"]) for record in seen.records]


def with_requests(url: str, count: int) -> None:
    with requests.Session() as session:
        for _ in range(count):
            with session.post(url, json=BODY, stream=True, timeout=10) as response:
                for _line in response.iter_lines():
                    pass


def without_keep_alive(url: str, count: int) -> None:
    for _ in range(count):
        with requests.post(
            url, json=BODY, stream=True, timeout=10, headers={"Connection": "close"}
        ) as response:
            for _line in response.iter_lines():
                pass


def with_urllib3(url: str, count: int) -> None:
    body = json.dumps(BODY).encode()
    with urllib3.PoolManager() as manager:
        for _ in range(count):
            response = manager.request("POST", url, body=body, preload_content=False, timeout=10)
            for _part in response.stream():
                pass


@pytest.mark.parametrize("send", [with_requests, without_keep_alive, with_urllib3])
def test_a_stream_agrees_with_the_server(
    send: Callable[[str, int], None], measured: Measured
) -> None:
    """The wait, the generation and its gaps, from a server that says nothing of itself."""
    script = Script.chat(tokens=8, queue_ms=12, prefill_ms=25, gap_ms=6, dialect="plain")
    pairs = served_by_script(script, send)

    errors: dict[str, list[float]] = {"server_wait": [], "decode": [], "stream_close": []}
    gap_errors: list[float] = []
    for record, served in pairs:
        assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
        assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
        first, last, end = served.token_ns[0], served.token_ns[-1], served.end_ns
        assert end is not None
        truth = {
            "server_wait": first - served.accepted_ns,
            "decode": last - first,
            "stream_close": end - last,
        }
        for name, true in truth.items():
            errors[name].append(abs(total(record, name) - true) / MS)
        written = served.token_ns
        gap_errors += [
            abs(gap.value - (later - earlier)) / MS
            for gap, earlier, later in zip(record.chunk_gaps, written, written[1:], strict=False)
            if gap.source is Source.MEASURED
        ]
    for name, of in errors.items():
        assert measured(f"error of {name}", of) <= MEDIAN_LIMIT_MS, name
    assert measured("error of chunk_gap", gap_errors) <= MEDIAN_LIMIT_MS


def test_a_handshake_agrees_with_the_server(measured: Measured) -> None:
    """TLS begins when the connection stands, and is over when the server says so."""
    count = 10
    replies = [whole(after_s=0.01)] * count
    with Loopback(replies, secure=True, handshake_s=0.03) as server, capture() as seen:
        for _ in range(count):
            answer = requests.get(server.url, verify=str(CERTIFICATE), timeout=10)
            assert answer.content == b"ok"
    tls: list[float] = []
    waits: list[float] = []
    for record, visit in zip(seen.records, server.visits, strict=True):
        assert f"{record.span_id:016x}" in visit.request.headers["traceparent"]
        assert visit.handshake_ns is not None
        begun_ns, over_ns = visit.handshake_ns
        tls.append(abs(total(record, "tls") - (over_ns - begun_ns)) / MS)
        true_ns = visit.written_ns[0] - visit.accepted_ns
        waits.append(abs(total(record, "server_wait") - true_ns) / MS)
    assert measured("error of tls", tls) <= HANDSHAKE_LIMIT_MS
    assert measured("error of server_wait", waits) <= HANDSHAKE_LIMIT_MS
