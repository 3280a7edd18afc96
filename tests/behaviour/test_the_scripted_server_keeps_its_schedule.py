"""The scripted server keeps its schedule, however its clients read, wait or leave."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from latspan.testing import PayloadPart, Script, ScriptedServer, ScriptStep

openai = pytest.importorskip("openai", reason="the openai client is not installed")

MS = 1_000_000
HELLO: Any = [{"role": "user", "content": "hello"}]


def _client(server: ScriptedServer) -> Any:
    return openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)


def test_a_slow_reader_does_not_slow_the_server() -> None:
    """The server has written everything while its client is still busy with the first chunk."""
    script = Script.chat(tokens=6, prefill_ms=5, gap_ms=10)
    with ScriptedServer(script) as server, _client(server) as client:
        stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
        next(stream)
        (served,) = server.served_requests()  # Returns when the response has ended.
        resumed_ns = time.perf_counter_ns()
        rest = list(stream)

    assert served.end_ns is not None
    assert served.end_ns < resumed_ns
    assert len(rest) == 7


def test_a_reader_that_never_reads_does_not_slow_the_server() -> None:
    """Data that exceeds the kernel's buffers is kept in the server's memory."""
    text = "x" * 100_000
    steps = tuple(ScriptStep(PayloadPart.TEXT, gap_ns=MS, text=text, tokens=1) for _ in range(100))
    request = json.dumps({"messages": [], "stream": True}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(request)
    with ScriptedServer(Script(steps=steps)) as server:
        port = int(server.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head + request)
            (served,) = server.served_requests(requests=1)

    assert len(served.token_ns) == 100
    assert served.cancelled_ns is None


def test_a_client_that_leaves_is_recorded() -> None:
    """The response ends when the client closes the connection."""
    with ScriptedServer(Script.chat(tokens=3, prefill_ms=5, gap_ms=60_000)) as server:
        with _client(server) as client:
            with client.chat.completions.create(model="m", messages=HELLO, stream=True) as stream:
                next(stream)
            left_ns = time.perf_counter_ns()
        (served,) = server.served_requests()

    assert served.end_ns is None
    assert served.cancelled_ns is not None
    assert len(served.token_ns) == 1
    assert served.accepted_ns < served.cancelled_ns
    assert served.token_ns[0] < left_ns


def test_requests_beyond_the_slots_wait() -> None:
    """With one slot, a request starts when the previous one has ended."""
    script = Script.chat(tokens=3, queue_ms=5, prefill_ms=5, gap_ms=5)
    with ScriptedServer(script, slots=1) as server:
        with _client(server) as client, ThreadPoolExecutor(3) as threads:
            asked = [
                threads.submit(
                    lambda: list(
                        client.chat.completions.create(model="m", messages=HELLO, stream=True)
                    )
                )
                for _ in range(3)
            ]
            for answer in asked:
                answer.result()
        served = server.served_requests()

    for before, after in pairwise(served):
        assert before.accepted_ns < after.accepted_ns
        assert before.end_ns is not None
        assert after.slot_ns is not None
        # The script's own queue is added to the wait for the slot.
        assert after.slot_ns - before.end_ns >= 5 * MS


def test_served_requests_can_be_read_without_waiting() -> None:
    """A response in flight is recorded up to that moment; waiting for its end has a timeout."""
    script = Script.chat(tokens=2, prefill_ms=0, gap_ms=60_000)
    with (
        ScriptedServer(script) as server,
        _client(server) as client,
        client.chat.completions.create(model="m", messages=HELLO, stream=True) as stream,
    ):
        next(stream)
        (served,) = server.served_requests(timeout_s=0)
        with pytest.raises(TimeoutError, match="in flight"):
            server.served_requests(timeout_s=0.01)

    assert len(served.token_ns) == 1
    assert served.end_ns is None
    assert served.cancelled_ns is None
