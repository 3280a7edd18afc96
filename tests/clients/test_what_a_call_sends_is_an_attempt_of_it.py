"""One SDK call is one call, wherever its request ends; what else is sent meanwhile is not of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import Driver, with_every_sdk
from tests.clients.transports import built_on, step

MS = 1_000_000
SCRIPT = Script.chat(tokens=3, prefill_ms=300, gap_ms=10)

pytestmark = with_every_sdk


def only_call(seen: Captured) -> RequestRecord:
    """Return the record of the call: there is one, whatever else there is."""
    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    return record


def totals(record: RequestRecord) -> dict[str, int]:
    """Return the segments' milliseconds, and check that they tile the call."""
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return {total.name: total.duration_ns // MS for total in record.segment_totals}


def attempts_of(seen: Captured) -> int:
    """Return how many attempts the call's span counts."""
    (span,) = [span for span in seen.spans if (span.attributes or {}).get("latspan.kind") == "call"]
    return int(str((span.attributes or {})["latspan.attempt.count"]))


def exchanges(seen: Captured) -> int:
    """Return how many HTTP exchanges of their own there were."""
    return sum(record.kind is Kind.HTTP for record in seen.records)


@pytest.mark.parametrize("status", [303, 307, 308])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    "place", ["https://other.test", "http://model.test", "https://model.test:8443"]
)
def test_a_redirect_to_another_place(
    driver: Driver, seen: Captured, status: int, stream: bool, place: str
) -> None:
    """Followed wherever it leads, it is the second attempt of the one call."""

    async def handle(request: Any, send: Any) -> Any:
        if not request.url.path.startswith("/there"):
            driver.clock.advance(20 * MS)
            location = f"{place}/there{request.url.path}?x=y"
            return driver.http.Response(status, headers={"location": location})
        # A server that is asked by GET, too, as a 303 wants it.
        return await send(
            driver.http.Request("POST", request.url, json={**driver.sdk.asks, "stream": stream})
        )

    async def program(client: Any) -> None:
        client._client.follow_redirects = True
        answer = await driver.create(client, stream=stream)
        if stream:
            await driver.read(answer)

    driver.run(built_on(driver, driver.transport(SCRIPT), handle), program)
    assert only_call(seen).outcome is Outcome.COMPLETED
    assert (exchanges(seen), attempts_of(seen)) == (0, 2)
    assert totals(only_call(seen))["retry"] == 20
    assert "postprocess" not in totals(only_call(seen))


def test_an_address_that_a_hook_rewrites(driver: Driver, seen: Captured) -> None:
    """The request is the SDK's own, wherever it goes."""

    def rewrite(request: Any) -> None:
        request.url = request.url.copy_with(
            host="other.test", port=9000, path=f"/there{request.url.path}"
        )

    async def arewrite(request: Any) -> None:
        rewrite(request)

    async def program(client: Any) -> None:
        client._client.event_hooks = {"request": [arewrite if driver.asynchronous else rewrite]}
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(SCRIPT), program)
    assert only_call(seen).outcome is Outcome.COMPLETED
    assert (exchanges(seen), attempts_of(seen)) == (0, 1)


@pytest.mark.parametrize("prefix", ["", "/there"], ids=["same path", "other path"])
def test_a_transport_built_on_a_second_client(driver: Driver, seen: Captured, prefix: str) -> None:
    """What carries the request on to another host is a part of the attempt."""
    inner = driver.transport(SCRIPT, connect_ns=7 * MS)
    second = getattr(driver.http, "AsyncClient" if driver.asynchronous else "Client")(
        transport=inner
    )

    async def handle(request: Any, send: Any) -> Any:
        del send
        forwarded = second.build_request(
            request.method,
            request.url.copy_with(host="other.test", path=prefix + request.url.path),
            headers=request.headers,
            content=request.content,
        )
        return await step(driver, second.send(forwarded, stream=True))

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(built_on(driver, inner, handle), program)
    assert only_call(seen).outcome is Outcome.COMPLETED
    assert (exchanges(seen), attempts_of(seen)) == (0, 1)
    assert totals(only_call(seen))["connect"] == 7


def test_a_token_that_an_auth_requests(driver: Driver, seen: Captured) -> None:
    """It is an exchange of its own, of the same host and before each attempt."""
    http = driver.http

    class Bearer(http.Auth):
        def auth_flow(self, request: Any) -> Generator[Any, Any]:
            response: Any = yield http.Request("POST", request.url.join("/token"), data={"a": "b"})
            driver.clock.advance(5 * MS)
            request.headers["authorization"] = f"Bearer {response.status_code}"
            yield request

    async def program(client: Any) -> None:
        client._client.auth = Bearer()
        await driver.read(await driver.create(client, stream=True))

    async def handle(request: Any, send: Any) -> Any:
        if request.url.path == "/token":
            driver.clock.advance(40 * MS)
            return driver.http.Response(200, json={})
        return await send(request)

    driver.run(built_on(driver, driver.transport(SCRIPT), handle), program)
    assert only_call(seen).outcome is Outcome.COMPLETED
    assert (exchanges(seen), attempts_of(seen)) == (1, 1)
    assert "retry" not in totals(only_call(seen))


def test_a_challenge_that_an_auth_answers(driver: Driver, seen: Captured) -> None:
    """The SDK's request, sent once more, is a second attempt."""
    http = driver.http

    class Challenged(http.Auth):
        def auth_flow(self, request: Any) -> Generator[Any, Any]:
            response: Any = yield request
            if response.status_code == 401:
                yield request

    async def program(client: Any) -> None:
        client._client.auth = Challenged()
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport([Script.refused(401, after_ms=40), SCRIPT]), program)
    assert (exchanges(seen), attempts_of(seen)) == (0, 2)
    assert totals(only_call(seen))["retry"] == 40


def test_what_a_hook_asks_on_the_way(driver: Driver, seen: Captured) -> None:
    """Another question to the same model, by another client, is not the call's own."""
    inner = driver.transport(Script.refused(404, after_ms=30))
    second = getattr(driver.http, "AsyncClient" if driver.asynchronous else "Client")(
        transport=inner
    )

    def ask(request: Any) -> None:
        second.post(request.url, json={"model": "guard"})

    async def aask(request: Any) -> None:
        await second.post(request.url, json={"model": "guard"})

    async def program(client: Any) -> None:
        client._client.event_hooks = {"request": [aask if driver.asynchronous else ask]}
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(SCRIPT), program)
    assert (exchanges(seen), attempts_of(seen)) == (1, 1)
    assert "retry" not in totals(only_call(seen))
