"""``latspan.warm`` opens connections, says what that saves, and is seen by nobody else."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import latspan
from latspan import WarmupResult
from latspan.errors import ConfigError, InstrumentationError
from latspan.integrations import Outcome
from latspan.testing import Captured, Script, ScriptedServer, capture
from tests.clients.conftest import Driver, http, openai, with_every_sdk
from tests.support.road import Conditions, road_to
from tests.support.tls import trusting_context

MS = 1_000_000
NETWORK = {"connect_ns": 7 * MS, "tls_ns": 11 * MS, "send_ns": 3 * MS, "network_ns": 2 * MS}
BASE_URL = "https://model.test/v1"

# Whether it is awaited depends on the client.
_warm: Any = latspan.warm


async def warmed(client: Any, *arguments: Any, **options: Any) -> WarmupResult:
    """Warm a client of either kind."""
    result = _warm(client, *arguments, **options)
    return await result if inspect.isawaitable(result) else result


def http_client(driver: Driver, **settings: Any) -> Any:
    """Return a client of the HTTP library beneath."""
    return getattr(http, "AsyncClient" if driver.asynchronous else "Client")(**settings)


async def close(client: Any) -> None:
    """Close an HTTP client of either kind."""
    closing = client.aclose() if hasattr(client, "aclose") else client.close()
    if closing is not None:
        await closing


def of_http(
    driver: Driver, program: Callable[[Any], Awaitable[WarmupResult]], **settings: Any
) -> WarmupResult:
    """Run a program with a client of the HTTP library beneath."""

    async def body() -> WarmupResult:
        client = http_client(driver, **settings)
        try:
            return await program(client)
        finally:
            await close(client)

    return asyncio.run(body())


@with_every_sdk
def test_the_first_call_is_connected_already(driver: Driver, seen: Captured) -> None:
    """To the nanosecond what was saved is what the first call no longer has."""

    async def program(client: Any) -> WarmupResult:
        saved = await warmed(client)
        stream = await driver.create(client, stream=True)
        await driver.read(stream)
        return saved

    transport = driver.transport(Script.chat(tokens=3), **NETWORK)
    saved = driver.run(transport, program, base_url=BASE_URL)

    assert saved == WarmupResult(
        server="model.test:443",
        connections=1,
        setup_ns=0,
        connect_ns=7 * MS,
        tls_ns=11 * MS,
    )
    assert saved.saved_ns == 18 * MS
    assert str(saved) == (
        "1 connection to model.test:443 open;"
        " the next call saves 18.0 ms (set-up <0.1 ms, connect 7.0 ms, TLS 11.0 ms)"
    )
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert not {"connect", "dns", "tcp", "tls"} & {segment.name for segment in record.segments}
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert (span.attributes or {})["latspan.connection.reused"] is True


def test_what_it_sends_is_a_bare_head_and_no_telemetry(driver: Driver, seen: Captured) -> None:
    """No credentials of the SDK's, no trace context, no span, no value."""
    transport = driver.transport(Script.chat(), **NETWORK)

    driver.run(transport, warmed, base_url=BASE_URL)

    (request,) = transport.served_requests()
    assert request.raw.startswith(b"HEAD /v1/ HTTP/1.1\r\n")
    assert not {"authorization", "traceparent", "content-length"} & set(request.request_headers)
    assert (seen.spans, seen.records) == ((), ())


def test_connections_are_opened_side_by_side(driver: Driver, seen: Captured) -> None:
    """As many as were asked for, none of them used twice; the next time all are there."""
    transport = driver.transport(Script.chat(), **NETWORK)

    async def program(client: Any) -> list[WarmupResult]:
        return [await warmed(client, connections=3) for _ in range(2)]

    first, again = driver.run(transport, program, base_url=BASE_URL)

    assert sorted({request.connection for request in transport.served_requests()}) == [0, 1, 2]
    assert (first.connections, first.connect_ns, first.tls_ns) == (3, 7 * MS, 11 * MS)
    assert (again.connections, again.connect_ns, again.tls_ns) == (3, None, None)
    assert again.error is None


def test_a_server_that_is_not_there_is_a_result(driver: Driver, seen: Captured) -> None:
    """Nothing is raised, and the error is the client library's own."""
    transport = driver.transport(Script.unreachable_server(), **NETWORK)

    saved = driver.run(transport, warmed, base_url=BASE_URL)

    assert isinstance(saved.error, http.ConnectError)
    assert (saved.connections, saved.connect_ns, saved.tls_ns, saved.saved_ns) == (0, None, None, 0)
    assert str(saved) == (
        "0 connections to model.test:443 open; the next call saves <0.1 ms (set-up <0.1 ms);"
        " ConnectError: connection refused"
    )


def test_a_url_can_be_given(driver: Driver, seen: Captured) -> None:
    """A client of an HTTP library has often no base address."""
    transport = driver.transport(Script.chat(), **NETWORK)

    async def program(client: Any) -> WarmupResult:
        assert isinstance((await warmed(client)).error, ValueError)
        return await warmed(client, "http://model.test:8000/health")

    saved = of_http(driver, program, transport=transport)

    assert (saved.server, saved.connections, saved.tls_ns) == ("model.test:8000", 1, None)
    (request,) = transport.served_requests()
    assert request.raw.startswith(b"HEAD /health HTTP/1.1\r\n")


def test_a_connection_that_the_server_closes_is_not_claimed(driver: Driver) -> None:
    """And where the transport tells no times there are none."""

    def answer(request: Any) -> Any:
        return http.Response(401, headers={"connection": "close"})

    saved = of_http(driver, warmed, transport=http.MockTransport(answer), base_url=BASE_URL)

    assert saved == WarmupResult(server="model.test:443", connections=0)
    assert str(saved) == "0 connections to model.test:443 open"


def test_the_applications_hooks_and_cookies_are_left_alone(driver: Driver) -> None:
    """They are for its own requests."""

    def hook(_: Any) -> None:
        raise AssertionError

    async def ahook(_: Any) -> None:
        raise AssertionError

    def answer(request: Any) -> Any:
        return http.Response(302, headers={"set-cookie": "a=b", "location": "/elsewhere"})

    heard = ahook if driver.asynchronous else hook

    async def program(client: Any) -> WarmupResult:
        saved = await warmed(client)
        assert not client.cookies
        return saved

    saved = of_http(
        driver,
        program,
        transport=http.MockTransport(answer),
        base_url=BASE_URL,
        event_hooks={"request": [heard], "response": [heard]},
    )

    assert (saved.connections, saved.error) == (1, None)


def test_a_closed_client_stays_closed(driver: Driver) -> None:
    """Its pool would connect again, and nobody would close that."""

    async def program(client: Any) -> WarmupResult:
        await close(client)
        return await warmed(client)

    saved = of_http(driver, program, base_url=BASE_URL)

    assert saved.connections == 0
    assert "closed" in str(saved.error)


def test_a_cancelled_warming_lets_go_of_what_it_holds() -> None:
    """The cancellation is the caller's, and no connection is lost for it."""
    closed: list[bool] = []

    class Body(http.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for nothing in ():
                yield nothing

        async def aclose(self) -> None:
            closed.append(True)

    class Stuck(http.AsyncBaseTransport):
        def __init__(self) -> None:
            self.asked = asyncio.Event()
            self.answers = iter([http.Response(404, stream=Body())])

        async def handle_async_request(self, request: Any) -> Any:
            del request
            for answer in self.answers:
                return answer
            self.asked.set()
            return await asyncio.Event().wait()

    async def program() -> None:
        transport = Stuck()
        async with http.AsyncClient(transport=transport, base_url=BASE_URL) as client:
            warming = asyncio.ensure_future(warmed(client, connections=2))
            await transport.asked.wait()
            warming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await warming

    asyncio.run(program())
    assert closed == [True]


def test_an_unknown_client_is_reported_in_the_result() -> None:
    """No exception is raised: the application starts without a warm connection."""
    saved = _warm(object())

    assert isinstance(saved.error, InstrumentationError)
    assert str(saved).startswith("0 connections open; ")
    assert "'builtins.object'" in str(saved)


@pytest.mark.parametrize("wrong", [{"connections": 0}, {"timeout_s": 0}, {"timeout_s": -1}])
def test_what_cannot_work_is_refused(driver: Driver, wrong: dict[str, Any]) -> None:
    """At once, asynchronous or not."""
    with pytest.raises(ConfigError):
        _warm(http_client(driver), **wrong)


def test_over_real_tls_the_first_call_neither_connects_nor_shakes_hands(driver: Driver) -> None:
    """One handshake, and it is not the call's."""
    with (
        ScriptedServer(Script.chat(tokens=3)) as server,
        road_to(server.url, Conditions(secure=True)) as road,
    ):

        async def program() -> WarmupResult:
            client = getattr(openai, "AsyncOpenAI" if driver.asynchronous else "OpenAI")(
                base_url=f"{road.url}/v1",
                api_key="none",
                max_retries=0,
                http_client=http_client(driver, verify=trusting_context(), trust_env=False),
            )
            saved = await warmed(client)
            stream = await driver.create(client, stream=True)
            await driver.read(stream)
            await driver.close(client)
            return saved

        with capture() as seen:
            saved = asyncio.run(program())

        assert (saved.connections, saved.error, len(road.handshakes_ns)) == (1, None, 1)
        assert saved.connect_ns is not None
        assert saved.tls_ns is not None
        assert min(saved.connect_ns, saved.tls_ns) > 0
        (record,) = seen.records
        assert record.outcome is Outcome.COMPLETED
        assert not {"connect", "tls"} & {segment.name for segment in record.segments}
        assert [request.raw[:4] for request in server.served_requests(requests=2)] == [
            b"HEAD",
            b"POST",
        ]
