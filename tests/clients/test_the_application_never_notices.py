"""What httpx and the SDKs over it send and hand back, beside what holds for every client."""

from __future__ import annotations

from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan._live.operations import ModelCall
from latspan.integrations import Outcome, open_call
from latspan.integrations.formats import OPENAI_CHAT
from latspan.testing import Captured, Script
from tests.clients.conftest import LIBRARY, Driver, with_every_sdk

MS = 1_000_000


def test_both_layers_are_on() -> None:
    """The integration of the SDK and that of the HTTP library beneath it."""
    assert {"latspan_openai", f"latspan_{LIBRARY}"} <= set(latspan.auto_instrument())


def _sent(driver: Driver, **more: Any) -> bytes:
    """Return the request of a chat that is read to its end."""
    transport = driver.transport(Script.chat(tokens=2))

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True, **more))

    driver.run(transport, program)
    return transport.served_requests()[0].raw


@with_every_sdk
def test_traceparent_names_the_calls_span(driver: Driver, seen: Captured) -> None:
    """So a server's own spans hang beneath it."""
    raw = _sent(driver)
    (record,) = seen.records
    expected = f"00-{record.trace_id:032x}-{record.span_id:016x}-"
    _, _, flags = raw.partition(f"\r\ntraceparent: {expected}".encode())
    assert int(flags[:2], 16) & 1, "sampled"


@with_every_sdk
def test_a_trace_context_of_the_callers_own_is_left_alone(driver: Driver, seen: Captured) -> None:
    """Never doubled, never replaced."""
    own = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    raw = _sent(driver, extra_headers={"traceparent": own})
    assert raw.count(b"traceparent:") == 1
    assert own.encode() in raw


def test_an_exchange_outside_any_call_is_one_of_its_own(driver: Driver, seen: Captured) -> None:
    """A plain HTTP request has a span of its own; its query stays in the process."""
    transport = driver.transport(Script.refused(404, after_ms=20), connect_ns=7 * MS)

    async def program(client: Any) -> None:
        url = "https://user:pass@tool.test/search?q=secret"
        if driver.asynchronous:
            await client._client.get(url)
        else:
            client._client.get(url)

    driver.run(transport, program)
    (record,) = seen.records
    assert record.kind is Kind.HTTP
    assert record.name == "GET"
    assert record.outcome is Outcome.ERROR
    assert {t.name: t.duration_ns for t in record.segment_totals}["connect"] == 7 * MS
    (span,) = [span for span in seen.spans if span.name == "GET"]
    assert (span.attributes or {})["url.full"] == "https://tool.test:443/search"
    assert "secret" not in span.to_json()


def _exchange(driver: Driver, script: Script, use: Any, **times: int) -> None:
    """Send a plain request, and use its open response."""

    async def program(client: Any) -> None:
        http_client = client._client
        request = http_client.build_request("POST", URL, json=BODY)
        if driver.asynchronous:
            response = await http_client.send(request, stream=True)
            await use(response, request, http_client)
        else:
            response = http_client.send(request, stream=True)
            await use(response, request, http_client)

    driver.run(driver.transport(script, **times), program)


URL = "https://model.test/v1/chat/completions"
BODY = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


async def _read(response: Any, *_: Any) -> None:
    await response.aread() if hasattr(response.stream, "aclose") else response.read()


async def _close(response: Any, *_: Any) -> None:
    if hasattr(response.stream, "aclose"):
        await response.aclose()
    else:
        response.close()


@pytest.mark.parametrize(
    ("script", "use", "outcome"),
    [
        (Script.chat(tokens=3), _close, Outcome.CLOSED_EARLY),
        (Script.refused(429), _read, Outcome.REJECTED),
        (Script.refused(503, retry_after_s=1), _read, Outcome.REJECTED),
        (Script.refused(503), _read, Outcome.ERROR),
    ],
    ids=["closed unread", "429", "503 with Retry-After", "503"],
)
def test_an_exchange_ends_with_its_response(
    driver: Driver, seen: Captured, script: Script, use: Any, outcome: Outcome
) -> None:
    """Read to its end, closed unread, or refused."""
    _exchange(driver, script, use)
    (record,) = seen.records
    assert record.kind is Kind.HTTP
    assert record.outcome is outcome


def test_the_body_of_an_exchange_has_no_segments_of_a_model(driver: Driver, seen: Captured) -> None:
    """The caller reads it, unseen: after the headers the time is as much theirs."""

    async def slowly(response: Any, *_: Any) -> None:
        driver.clock.advance(400 * MS)
        await _read(response)

    _exchange(driver, Script.refused(404, after_ms=20), slowly)
    (record,) = seen.records
    totals = {total.name: total for total in record.segment_totals}
    assert totals["server_wait"].duration_ns == 20 * MS
    assert totals["unattributed"].duration_ns == 400 * MS


def test_a_bare_http_client_on_a_model_server_makes_a_call(driver: Driver, seen: Captured) -> None:
    """A body that is a model's stream of events gets token marks, and the span says whose."""
    _exchange(driver, Script.chat(tokens=3, prefill_ms=30, gap_ms=10), _read)
    (record,) = seen.records
    assert (record.kind, record.name) == (Kind.CALL, "chat m")
    assert record.outcome is Outcome.COMPLETED
    assert record.metrics["time_to_first_token"].value == 30 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS, 10 * MS]
    assert (record.attributes["model"], record.attributes["provider"]) == ("m", "openai")
    (span,) = [span for span in seen.spans if span.parent is None]
    attributes = span.attributes or {}
    assert span.name == "chat m"
    assert attributes["latspan.kind"] == "call"
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["url.full"] == "https://model.test:443"


def test_the_callers_request_is_as_it_was_and_carries_no_old_trace(
    driver: Driver, seen: Captured
) -> None:
    """Sent a second time it is a second exchange, with an identity of its own."""
    transport = driver.transport(Script.chat(tokens=2))

    async def program(client: Any) -> None:
        request = client._client.build_request("POST", URL, json=BODY)
        for _ in range(2):
            headers, extensions = dict(request.headers), request.extensions
            sent = client._client.send(request)
            if driver.asynchronous:
                await sent
            assert dict(request.headers) == headers
            assert request.extensions is extensions

    driver.run(transport, program)
    sent = [served.request_headers["traceparent"] for served in transport.served_requests()]
    assert len(set(sent)) == 2


def test_what_a_call_sends_to_another_port_is_no_try_of_it(driver: Driver, seen: Captured) -> None:
    """A token that a client library fetches meanwhile is an exchange of its own."""

    async def program(client: Any) -> None:
        call = open_call(
            operation="chat",
            provider="openai",
            model="m",
            api_format=OPENAI_CHAT,
            server=("model.test", 8000),
        )
        assert isinstance(call, ModelCall)
        with call.active():
            sent = client._client.get("https://model.test:9000/token")
            if driver.asynchronous:
                await sent
        call.end(Outcome.COMPLETED)
        assert call.attempts == []

    driver.run(driver.transport(Script.refused(404)), program)
    assert [record.kind for record in seen.records] == [Kind.HTTP, Kind.CALL]


def test_a_raw_response_is_handed_over_untouched(driver: Driver, seen: Captured) -> None:
    """Its call ends where latspan loses sight of it, with the headers."""

    async def program(client: Any) -> None:
        raw = client.chat.completions.with_raw_response
        answer = raw.create(model="m", messages=[{"role": "user", "content": "hi"}])
        response = await answer if driver.asynchronous else answer
        assert response.parse().choices[0].message.content

    driver.run(driver.transport(Script.chat(tokens=3)), program)
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED


def test_the_first_asynchronous_call_of_a_process_does_not_wait_for_the_pool() -> None:
    """What the HTTP library imports lazily is preparation, not a wait."""
    import subprocess
    import sys

    program = """
import asyncio, sys, openai, latspan
from latspan.testing import Script, ScriptedServer, _capture, capture
_capture.watches_loops = False
latspan.auto_instrument()
async def main(url):
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        stream = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True)
        async for chunk in stream:
            pass
with ScriptedServer(Script.chat(tokens=2)) as server, capture() as seen:
    lazy = "anyio._backends._asyncio"
    assert lazy not in sys.modules
    asyncio.run(main(server.base_url))
    assert lazy in sys.modules
(record,) = seen.records
totals = {total.name: total.duration_ns for total in record.segment_totals}
imported = totals["prepare"]
print(totals["pool_wait"], imported)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    pool_wait_ns, prepare_ns = map(int, ran.stdout.split())
    assert pool_wait_ns < prepare_ns
