"""Each send of a transport is a try: after a failure, after a refusal, or at the same time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import OPENAI, Driver, openai
from tests.clients.transports import built_on, step

MS = 1_000_000
SCRIPT = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)
PHASES = {"connect_ns": 7 * MS, "send_ns": 3 * MS, "network_ns": 2 * MS}


def totals(record: RequestRecord) -> dict[str, int]:
    """Return the segments' milliseconds, and check that they tile the call."""
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return {total.name: total.duration_ns // MS for total in record.segment_totals}


def tries(seen: Captured) -> list[tuple[object, object]]:
    """Return status and error of each try, as its span has them."""
    attributes = [span.attributes or {} for span in seen.spans if span.name == "POST"]
    return [(of.get("http.response.status_code"), of.get("error.type")) for of in attributes]


def attributes_of(seen: Captured) -> dict[str, Any]:
    """Return what the root span says."""
    (span,) = [span for span in seen.spans if span.parent is None]
    return dict(span.attributes or {})


async def ask(driver: Driver, client: Any) -> None:
    """Read a streamed answer to its end."""
    await driver.read(await driver.create(client, stream=True))


def test_a_refusal_that_a_transport_tries_again(driver: Driver, seen: Captured) -> None:
    """The refused try and the back-off are `retry`; the phases are the last try's."""
    inner = driver.transport([Script.refused(503, after_ms=20), SCRIPT], **PHASES)

    async def handle(request: Any, send: Any) -> Any:
        refused = await send(request)
        await step(driver, refused.aclose() if driver.asynchronous else refused.close())
        driver.clock.advance(250 * MS)
        return await send(request)

    driver.run(built_on(driver, inner, handle), lambda client: ask(driver, client))
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert tries(seen) == [(503, "503"), (200, None)]
    spent = totals(record)
    assert spent["retry"] == 7 + 3 + 2 + 20 + 2 + 250
    assert (spent["connect"], spent["send"]) == (7, 3)
    assert attributes_of(seen)["latspan.attempt.count"] == 2


def test_a_failure_that_a_transport_tries_again(driver: Driver, seen: Captured) -> None:
    """Where it failed is said by the try, and its time is `retry`."""
    inner = driver.transport([Script.unreachable_server(), SCRIPT], **PHASES)

    async def handle(request: Any, send: Any) -> Any:
        try:
            return await send(request)
        except driver.http.ConnectError:
            driver.clock.advance(250 * MS)
            return await send(request)

    driver.run(built_on(driver, inner, handle), lambda client: ask(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    (_, error), *_ = tries(seen)
    assert str(error).endswith(".ConnectError")
    assert totals(record)["retry"] == 7 + 250
    assert totals(record)["connect"] == 7


def test_a_connection_that_httpcore_tries_again(driver: Driver, seen: Captured) -> None:
    """`HTTPTransport(retries=…)` is a retry too, and no long `connect`."""
    transport = driver.transport([Script.unreachable_server(), SCRIPT], **PHASES)
    transport._pool._retries = 1
    driver.run(transport, lambda client: ask(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert [status for status, _ in tries(seen)] == [None, 200]
    assert (totals(record)["retry"], totals(record)["connect"]) == (7, 7)
    assert attributes_of(seen)["latspan.connection.reused"] is False


# asyncio takes an interrupt for itself.
@pytest.mark.parametrize("driver", [(OPENAI, False)], indirect=True, ids=["sync"])
def test_a_back_off_that_is_interrupted(driver: Driver, seen: Captured) -> None:
    """The failed try has ended before: the rest is `retry`."""
    inner = driver.transport(Script.unreachable_server(), **PHASES)

    async def handle(request: Any, send: Any) -> Any:
        try:
            return await send(request)
        except driver.http.ConnectError:
            driver.clock.advance(250 * MS)
            raise KeyboardInterrupt from None

    async def program(client: Any) -> None:
        with pytest.raises(KeyboardInterrupt):
            await ask(driver, client)

    driver.run(built_on(driver, inner, handle), program)
    (record,) = seen.records
    assert record.outcome is Outcome.CANCELLED
    assert totals(record) == {"connect": 7, "retry": 250}


def test_a_failure_comes_up_once(driver: Driver, seen: Captured) -> None:
    """Passed on by the transport it is the end of the call, and nothing comes after it."""
    inner = driver.transport(Script.unreachable_server(), **PHASES)

    async def handle(request: Any, send: Any) -> Any:
        return await send(request)

    async def program(client: Any) -> None:
        with pytest.raises(openai.APIConnectionError):
            await ask(driver, client)

    driver.run(built_on(driver, inner, handle), program)
    (record,) = seen.records
    assert totals(record) == {"connect": 7}


def test_an_answer_from_elsewhere_after_a_failure(driver: Driver, seen: Captured) -> None:
    """A transport that falls back to something of its own has an answer of unknown making."""
    inner = driver.transport(Script.unreachable_server(), **PHASES)

    async def handle(request: Any, send: Any) -> Any:
        try:
            return await send(request)
        except driver.http.ConnectError:
            driver.clock.advance(30 * MS)
            return driver.http.Response(200, json={"id": "1", "model": "m", "choices": []})

    async def program(client: Any) -> None:
        await driver.create(client)

    driver.run(built_on(driver, inner, handle), program)
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert totals(record) == {"retry": 37}


hedging = pytest.mark.parametrize("driver", [(OPENAI, True)], indirect=True, ids=["async"])


@hedging
@pytest.mark.parametrize("first_wins", [True, False])
def test_two_sends_at_the_same_time(driver: Driver, seen: Captured, first_wins: bool) -> None:
    """The time is that of the send whose answer was taken, and nothing is counted twice."""
    inner = driver.transport(SCRIPT, **PHASES)
    slow = driver.transport(Script.unreachable_server())
    gate = asyncio.Event()

    async def stuck(request: Any) -> Any:
        # A send that has begun, and is cancelled before it comes to anything.
        await slow_pool_entered(request)
        await asyncio.Event().wait()

    async def slow_pool_entered(request: Any) -> None:
        with pytest.raises(driver.http.ConnectError):
            await slow.handle_async_request(request)
        gate.set()

    async def handle(request: Any, send: Any) -> Any:
        if first_wins:
            sends = [asyncio.create_task(send(request)), asyncio.create_task(stuck(request))]
        else:
            sends = [asyncio.create_task(stuck(request))]
            await gate.wait()
            driver.clock.advance(100 * MS)
            sends.append(asyncio.create_task(send(request)))
        done, pending = await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.wait(pending)
        (winner,) = done
        return winner.result()

    driver.run(built_on(driver, inner, handle), lambda client: ask(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert attributes_of(seen)["latspan.attempt.count"] == 2
    spent = totals(record)
    assert spent.get("retry", 0) == (0 if first_wins else 100)
    assert (spent["connect"], spent["send"]) == (7, 3)


@pytest.mark.parametrize("kind", ["headers", "extensions"])
def test_what_a_transport_changes_in_a_request_stays_changed(
    driver: Driver, seen: Captured, kind: str
) -> None:
    """Only our trace context comes and goes, and nothing of ours is among the extensions."""
    requests: list[Any] = []

    async def handle(request: Any, send: Any) -> Any:
        requests.append(request)
        json.dumps(request.extensions)
        if kind == "headers":
            assert "traceparent" in request.headers
            request.headers["x-added"] = "by the transport"
        else:
            request.extensions["added"] = "by the transport"
        return await send(request)

    async def program(client: Any) -> None:
        sender = client._client
        request = sender.build_request("GET", "https://tool.test/")
        headers, extensions = request.headers, request.extensions
        await step(driver, sender.send(request))
        assert request.headers is headers
        assert request.extensions is extensions
        assert "traceparent" not in request.headers
        assert ("x-added" in request.headers) is (kind == "headers")
        assert ("added" in request.extensions) is (kind == "extensions")

    driver.run(built_on(driver, driver.transport(Script.refused(404)), handle), program)
    assert len(requests) == len(seen.records) == 1


def test_the_library_under_test_is_instrumented(driver: Driver) -> None:
    """Otherwise the tests above would prove nothing."""
    assert f"latspan_{driver.sdk.library}" in latspan.auto_instrument()
