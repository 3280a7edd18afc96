"""What is special to a program over aiohttp, beside what holds for every client."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest
from opentelemetry import trace

from latspan import Kind
from latspan.integrations import Outcome
from tests.clients.aiohttp_site import (
    MS,
    aiohttp,
    taken_off,
    totals,
    web,
    world,
)

ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\nx-own: 1\r\n\r\na\nb\nc\n"
)


@asynccontextmanager
async def _recording(heard: list[bytes]) -> AsyncGenerator[str]:
    """Serve one answer to everybody, and write down what came over the wire."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not reader.at_eof():
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                (int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == _LENGTH), 0
            )
            heard.append(head + await reader.readexactly(length))
            writer.write(ANSWER)

    async def serve_until_gone(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve_until_gone, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path"


_LENGTH = b"content-length:"


def _listening(heard: list[str]) -> Any:
    """Return a trace configuration of an application's own, which writes down every signal."""
    config = aiohttp.TraceConfig()
    for name in dir(config):
        if name.startswith("on_"):

            async def hear(_session: Any, _context: Any, _params: Any, name: str = name) -> None:
                heard.append(name)

            getattr(config, name).append(hear)
    return config


async def _program(url: str, heard: list[str], headers: dict[str, str]) -> list[Any]:
    """Do what a program does, and return everything that it can see of it."""
    saw: list[Any] = []
    config = _listening(heard)
    async with aiohttp.ClientSession(trace_configs=[config]) as session:
        saw.append([each is config for each in session.trace_configs])
        for _ in range(2):
            async with session.post(url, json={"a": 1}, headers=headers) as response:
                lines = [line async for line in response.content]
                saw.append(lines)
                saw.append(type(response) is aiohttp.ClientResponse)
                saw.append((type(response.content), type(response.content.iter_any())))
                saw.append(repr(response).replace(url, ""))
                saw.append(dict(response.headers))
                info = response.request_info
                saw.append({**info.headers, "Host": ""})
    return saw


async def _run(headers: dict[str, str] | None = None) -> tuple[list[bytes], list[str], list[Any]]:
    wire: list[bytes] = []
    signals: list[str] = []
    async with _recording(wire) as url:
        saw = await _program(url, signals, headers or {})
        host = url.split("/")[2].encode()
    return [raw.replace(host, b"") for raw in wire], signals, saw


def _without_trace_context(raw: bytes) -> bytes:
    return b"\r\n".join(line for line in raw.split(b"\r\n") if not line.startswith(b"traceparent"))


async def test_objects_signals_and_bytes_are_the_same_with_and_without() -> None:
    """Trace context is the one thing added to what is sent."""
    with taken_off():
        wire, signals, saw = await _run()
    with world() as here:
        watched_wire, watched_signals, watched_saw = await _run()
        assert len(here.seen.records) == 2
    assert watched_saw == saw
    assert watched_signals == signals
    assert [_without_trace_context(raw) for raw in watched_wire] == wire
    assert all(raw.count(b"\r\ntraceparent: 00-") == 1 for raw in watched_wire)


async def test_a_trace_context_of_the_callers_own_is_left_alone() -> None:
    """Never doubled, never replaced."""
    own = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    with world():
        wire, _, saw = await _run({"traceparent": own})
    for raw in wire:
        assert raw.count(b"traceparent:") == 1
        assert own.encode() in raw
    assert saw[6]["traceparent"] == own


async def test_a_session_that_was_there_before_is_instrumented_too() -> None:
    """And one that is left when it is taken off works on."""
    heard: list[bytes] = []
    async with _recording(heard) as url, aiohttp.ClientSession() as session:

        async def get() -> None:
            async with session.get(url) as response:
                assert await response.read() == b"a\nb\nc\n"

        with world() as here:
            await get()
            assert len(here.seen.records) == 1
        await get()
        assert len(here.seen.records) == 1


async def test_what_is_instrumented_in_the_middle_of_a_request_does_no_harm() -> None:
    """The request goes on as it began, and nothing is recorded of half of it."""
    with world() as here, taken_off() as instrumentor:

        async def handle(request: Any) -> Any:
            instrumentor.instrument()
            return web.Response(text="x")

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.get(url) as response,
        ):
            assert await response.text() == "x"
        assert here.seen.records == ()


async def test_beside_the_official_instrumentation() -> None:
    """The span is theirs and so is the trace context, once; latspan records all the same."""
    official: Any = pytest.importorskip(
        "opentelemetry.instrumentation.aiohttp_client",
        reason="the official instrumentation of aiohttp is not installed",
    )
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    instrumentor = official.AioHttpClientInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        with world() as here:
            wire: list[bytes] = []
            async with (
                _recording(wire) as url,
                aiohttp.ClientSession() as session,
                session.get(url) as response,
            ):
                await response.read()
            (record,) = here.seen.records
    finally:
        instrumentor.uninstrument()
    (theirs,) = exporter.get_finished_spans()
    assert (record.kind, record.outcome) == (Kind.HTTP, Outcome.COMPLETED)
    assert here.seen.spans == ()
    assert wire[0].count(b"traceparent:") == 1
    assert f"{theirs.context.span_id:016x}".encode() in wire[0]
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_two_requests_at_once_do_not_mix() -> None:
    """Each is laid by its own events."""
    with world() as here:
        gates = [asyncio.Event(), asyncio.Event()]
        arrived = asyncio.Semaphore(0)

        async def handle(request: Any) -> Any:
            arrived.release()
            await gates[int(request.query["gate"])].wait()
            return web.Response(text="x")

        async def get(session: Any, url: str) -> None:
            async with session.get(url) as response:
                await response.read()

        async with here.site(handle) as url, here.session() as session:
            tasks = [asyncio.create_task(get(session, f"{url}?gate={number}")) for number in (0, 1)]
            for _ in tasks:
                await arrived.acquire()
            for task, gate in zip(tasks, gates, strict=True):
                here.clock.advance(10 * MS)
                gate.set()
                await task
        assert [totals(record)["server_wait"] for record in here.seen.records] == [10, 20]


async def test_a_request_that_takes_no_attribute_is_sent_unfollowed() -> None:
    """A fake with a fixed set of attributes, or a class of the application's."""

    class Closed(aiohttp.ClientRequest):  # pyright: ignore[reportUntypedBaseClass]
        def __setattr__(self, name: str, value: object) -> None:
            if name.startswith("_latspan"):
                raise AttributeError(name)
            object.__setattr__(self, name, value)

    async def handle(request: Any) -> Any:
        return web.Response(text="x")

    with world() as here:
        async with (
            here.site(handle) as url,
            here.session(request_class=Closed) as session,
            session.get(url) as response,
        ):
            assert await response.text() == "x"
        assert here.seen.records == ()


def test_a_fake_that_has_every_attribute_is_not_followed() -> None:
    """What it gives under our name is not ours."""
    from latspan_instrumentation.aiohttp import _attempt

    assert _attempt.of(Mock()) is None


async def test_a_body_that_is_cancelled_before_it_is_written_warns_of_nothing() -> None:
    """The library's coroutine inside ours is closed with it."""

    class Refused(aiohttp.ClientResponse):  # pyright: ignore[reportUntypedBaseClass]
        async def start(self, connection: Any) -> Any:  # noqa: ARG002 - aiohttp's signature
            raise LookupError

    async def handle(request: Any) -> Any:
        return web.Response(text="x")

    with world() as here:
        async with (
            here.site(handle) as url,
            here.session(response_class=Refused) as session,
        ):
            with pytest.raises(LookupError):
                await session.post(url, data=b"body")
        gc.collect()
