"""What a request over aiohttp spends before its answer is laid where it was spent, exactly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from tests.clients.aiohttp_site import MS, World, aiohttp, chat_events, only, totals, web, world
from tests.support.traces import OUTCOME, call, segment


def _answer(here: World, *, after_ms: int = 20, **response: Any) -> Any:
    async def handle(request: Any) -> Any:
        await request.read()
        here.clock.advance(after_ms * MS)
        return web.Response(**{"text": "an answer", **response})

    return handle


async def test_a_new_connection() -> None:
    """The name is looked up, the socket stands, the server works."""
    with world() as here:
        async with (
            here.site(_answer(here)) as url,
            here.session() as session,
            session.get(f"{url}?secret=1") as response,
        ):
            assert await response.text() == "an answer"
        record = only(here.seen)
        assert (record.kind, record.name, record.outcome) == (
            Kind.HTTP,
            "GET",
            Outcome.COMPLETED,
        )
        assert totals(record) == {"dns": 7, "server_wait": 20}
        (span,) = [span for span in here.seen.spans if span.parent is None]
        assert (span.attributes or {})["url.full"] == url
        assert (span.attributes or {})["latspan.connection.reused"] is False
        assert "secret" not in span.to_json()


async def test_tls_is_distinguished_from_tcp() -> None:
    """The handshake has a segment of its own."""
    with world() as here:
        async with (
            here.site(_answer(here), secure=True) as url,
            here.session() as session,
            session.get(url) as response,
        ):
            await response.read()
        assert totals(only(here.seen)) == {"dns": 7, "tls": 5, "server_wait": 20}


async def test_a_connection_that_is_used_again() -> None:
    """Neither a look-up nor a connect, and the span says so."""
    with world() as here:
        async with here.site(_answer(here)) as url, here.session() as session:
            for _ in range(2):
                async with session.get(url) as response:
                    await response.read()
        _, again = here.seen.records
        assert totals(again) == {"server_wait": 20}
        *_, span = [span for span in here.seen.spans if span.parent is None]
        assert (span.attributes or {})["latspan.connection.reused"] is True


async def test_without_keep_alive() -> None:
    """Each request connects; the second finds its name in the connector's cache."""
    with world() as here:
        async with (
            here.site(_answer(here)) as url,
            here.session(force_close=True) as session,
        ):
            for _ in range(2):
                async with session.get(url) as response:
                    await response.read()
        first, second = here.seen.records
        assert totals(first) == {"dns": 7, "server_wait": 20}
        assert totals(second) == {"server_wait": 20}


async def test_a_wait_for_the_pool() -> None:
    """A session of one connection lets one request through at a time."""
    with world() as here:
        begun = asyncio.Event()
        over = asyncio.Event()

        async def handle(request: Any) -> Any:
            if not begun.is_set():
                begun.set()
                await over.wait()
            return web.Response(text="x")

        async def get(session: Any, url: str) -> None:
            async with session.get(url) as response:
                await response.read()

        queued = asyncio.Event()
        listening = aiohttp.TraceConfig()

        async def hear(*_: Any) -> None:
            queued.set()

        listening.on_connection_queued_start.append(hear)
        session_of_one = here.session(limit=1, trace_configs=[listening])
        async with here.site(handle) as url, session_of_one as session:
            first = asyncio.create_task(get(session, url))
            await begun.wait()
            second = asyncio.create_task(get(session, url))
            await queued.wait()
            here.clock.advance(30 * MS)
            over.set()
            await asyncio.gather(first, second)
        _, waited = here.seen.records
        assert totals(waited) == {"pool_wait": 30}


async def test_a_body_that_takes_its_time_to_send() -> None:
    """The request is sent when the last byte of its body is."""
    with world() as here:

        async def body() -> AsyncGenerator[bytes]:
            for _ in range(3):
                here.clock.advance(4 * MS)
                yield b"piece"

        async with (
            here.site(_answer(here)) as url,
            here.session() as session,
            session.post(url, data=body()) as response,
        ):
            await response.read()
        assert totals(only(here.seen)) == {"dns": 7, "send": 12, "server_wait": 20}


async def test_a_redirect_is_an_exchange_of_its_own() -> None:
    """Each stop has its span, and each request the trace context of its own."""
    with world() as here:
        traceparents: list[str] = []

        async def handle(request: Any) -> Any:
            traceparents.append(request.headers["traceparent"])
            here.clock.advance(20 * MS)
            if len(traceparents) == 1:
                raise web.HTTPFound("/there", text="elsewhere")
            return web.Response(text="here")

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.get(url) as response,
        ):
            assert await response.text() == "here"
            assert len(response.history) == 1
        first, second = here.seen.records
        assert [first.outcome, second.outcome] == [Outcome.COMPLETED, Outcome.COMPLETED]
        assert totals(first) == {"dns": 7, "server_wait": 20}
        assert totals(second) == {"server_wait": 20}
        assert [trace.split("-")[2] for trace in traceparents] == [
            f"{record.span_id:016x}" for record in (first, second)
        ]


@pytest.mark.skipif(
    tuple(map(int, aiohttp.__version__.split(".")[:2])) < (3, 10),
    reason="this version of aiohttp does not try again",
)
async def test_a_connection_that_had_gone_stale_is_a_failed_exchange() -> None:
    """What aiohttp tries a second time, unasked, is seen as two."""
    with world() as here:
        connections: list[Any] = []

        async def handle(request: Any) -> Any:
            here.clock.advance(20 * MS)
            connections.append(request.transport)
            if len(connections) == 2:
                request.transport.abort()
            return web.Response(text="x")

        async with here.site(handle) as url, here.session() as session:
            for _ in range(2):
                async with session.get(url) as response:
                    assert await response.text() == "x"
        assert [record.outcome for record in here.seen.records] == [
            Outcome.COMPLETED,
            Outcome.ERROR,
            Outcome.COMPLETED,
        ]


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (429, {}, Outcome.REJECTED),
        (503, {"Retry-After": "1"}, Outcome.REJECTED),
        (503, {}, Outcome.ERROR),
        (404, {}, Outcome.ERROR),
    ],
)
@pytest.mark.parametrize("raising", [False, True])
async def test_a_refusal_has_the_outcome_of_its_status(
    status: int, headers: dict[str, str], outcome: Outcome, raising: bool
) -> None:
    """Whether the caller lets aiohttp raise it or not."""
    raised = pytest.raises(aiohttp.ClientResponseError) if raising else nullcontext()
    with world() as here:
        handle = _answer(here, status=status, headers=headers)
        async with here.site(handle) as url, here.session() as session:
            with raised:
                async with session.get(url, raise_for_status=raising) as response:
                    await response.read()
        assert only(here.seen).outcome is outcome


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body_ends_with_its_headers(status: int) -> None:
    """Nobody needs to read or close it."""
    with world() as here:
        async with (
            here.site(_answer(here, status=status, text=None)) as url,
            here.session() as session,
        ):
            response = await session.get(url)
            assert only(here.seen).outcome is Outcome.COMPLETED
            response.release()


async def test_a_connection_that_is_refused() -> None:
    """The time is where it was spent."""
    with world() as here:
        async with here.site(_answer(here)) as url:
            pass
        async with here.session() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(url)
        record = only(here.seen)
        assert record.outcome is Outcome.ERROR
        assert totals(record) == {"dns": 7}
        assert here.seen.spans[-1].attributes is not None
        assert here.seen.spans[-1].attributes["error.type"] == (
            "aiohttp.client_exceptions.ClientConnectorError"
        )


async def test_a_name_that_cannot_be_resolved() -> None:
    """A failed look-up is time of ``dns``."""
    with world() as here:
        async with here.session() as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://nowhere.test/")
        assert totals(only(here.seen)) == {"dns": 7}


@pytest.mark.parametrize(
    "limits",
    [{"total": 0.05}, {"sock_read": 0.05}],
    ids=["total", "sock_read"],
)
async def test_a_time_limit_of_aiohttps_before_the_headers(limits: dict[str, float]) -> None:
    """It cancels the task, which is not what the caller sees."""
    with world() as here:
        over = asyncio.Event()

        async def handle(request: Any) -> Any:
            await over.wait()
            return web.Response()

        async with here.site(handle) as url, here.session() as session:
            with pytest.raises(asyncio.TimeoutError):
                await session.get(url, timeout=aiohttp.ClientTimeout(**limits))
            over.set()
        assert only(here.seen).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("limit", ["total", "connect"])
async def test_a_time_limit_of_aiohttps_in_the_pool(limit: str) -> None:
    """The same while the request waits for a connection."""
    with world() as here:
        begun, over = asyncio.Event(), asyncio.Event()

        async def handle(request: Any) -> Any:
            begun.set()
            await over.wait()
            return web.Response()

        async with here.site(handle) as url, here.session(limit=1) as session:
            first = asyncio.create_task(session.get(url))
            await begun.wait()
            with pytest.raises(asyncio.TimeoutError):
                await session.get(url, timeout=aiohttp.ClientTimeout(**{limit: 0.05}))
            assert only(here.seen).outcome is Outcome.TIMEOUT
            over.set()
            (await first).release()


async def test_a_task_that_is_cancelled_before_the_headers() -> None:
    """Cancelled by the application, and neither a time limit nor an error."""
    with world() as here:
        begun, over = asyncio.Event(), asyncio.Event()

        async def handle(request: Any) -> Any:
            begun.set()
            await over.wait()
            return web.Response()

        async with here.site(handle) as url, here.session() as session:
            task = asyncio.create_task(session.get(url))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            over.set()
        assert only(here.seen).outcome is Outcome.CANCELLED


async def test_a_websocket_is_an_exchange_that_ends_when_the_protocol_is_switched() -> None:
    """What is said over it is no body of a response."""
    with world() as here:

        async def handle(request: Any) -> Any:
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            await socket.send_str("hello")
            await socket.close()
            return socket

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.ws_connect(url) as socket,
        ):
            assert only(here.seen).outcome is Outcome.COMPLETED
            assert await socket.receive_str() == "hello"
        assert only(here.seen).duration_ns == 7 * MS


async def test_a_streamed_chat_as_a_whole_trace() -> None:
    """The call, its phases and how it ended."""
    with world() as here:
        async with (
            here.site(here.streaming(*chat_events("a", "b"))) as url,
            here.session() as session,
            session.post(url, json={"model": "m", "stream": True}) as response,
        ):
            here.turns.release()
            async for _ in response.content.iter_any():
                here.turns.release()
        assert here.seen.spans_as_dict(attributes=OUTCOME) == [
            call(
                0,
                47,
                "completed",
                segment("dns", 0, 7),
                segment("server_wait", 7, 17),
                segment("decode", 17, 27),
                segment("stream_close", 27, 47),
            )
        ]
