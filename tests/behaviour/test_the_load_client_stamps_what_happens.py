"""The load client on real sockets: connections are reused, replaced and stamped."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager

import pytest

from latspan import Kind, Source
from latspan._load._chat_client import ChatClient
from latspan._load._endpoint import Endpoint
from latspan._model.wire import DONE, encode_event
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, capture
from latspan_instrumentation.aiohttp import AiohttpInstrumentor
from support.tls import CERTIFICATE, server_context

_BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}]}).encode()
_EVENT = encode_event(
    '{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}'
)
_STOP = (
    encode_event(
        '{"object":"chat.completion.chunk",'
        '"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
    )
    + DONE
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_RESPONSE = _HEAD + _chunk(_EVENT) + _chunk(_STOP) + b"0\r\n\r\n"

_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]
_PassOn = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


@asynccontextmanager
async def _server(serve: _Serve, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """Serve each connection with its number, and yield the URL."""
    number = -1

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        number += 1
        try:
            await serve(reader, writer, number)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"{'http' if tls is None else 'https'}://localhost:{port}/v1"
    finally:
        server.close()


@pytest.fixture(autouse=True)
def instrumented() -> Generator[None]:
    """Instrument aiohttp, as ``latspan measure`` does."""
    instrumentor = AiohttpInstrumentor()
    instrumentor.instrument()
    yield
    instrumentor.uninstrument()


def _calls(captured: Captured) -> list[RequestRecord]:
    return [record for record in captured.records if record.kind is Kind.CALL]


async def test_a_connection_is_reused_and_stamped() -> None:
    """The first request connects, the second one does not."""

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        while True:
            await _read_request(reader)
            writer.write(_RESPONSE)

    with capture() as captured:
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answers = [await client.ask(_BODY, 10) for _ in range(2)]
            await client.close()
    assert [answer.outcome for answer in answers] == [Outcome.COMPLETED] * 2
    assert all(answer.first_token_ns for answer in answers)
    first, second = ({each.name for each in call.segments} for call in _calls(captured))
    assert {"dns", "tcp"} <= first
    assert not {"dns", "tcp"} & second


async def test_a_request_that_met_a_closed_connection_is_sent_again() -> None:
    """A server may close an idle connection at the moment at which a request is sent on it."""
    requests: list[int] = []

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)
        requests.append(number)
        writer.write(_RESPONSE)
        await _read_request(reader)
        requests.append(number)
        # No response: the connection is closed.

    with capture() as captured:
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answers = [await client.ask(_BODY, 10) for _ in range(2)]
            await client.close()
    assert [answer.outcome for answer in answers] == [Outcome.COMPLETED] * 2
    assert requests == [0, 0, 1]
    assert "retry" in {each.name for each in _calls(captured)[1].segments}


async def test_a_new_connection_that_is_closed_is_an_error() -> None:
    """It is not tried again: the server has had the request."""

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)

    with capture() as captured:
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answer = await client.ask(_BODY, 10)
            await client.close()
    assert answer.outcome is Outcome.ERROR
    (call,) = _calls(captured)
    assert call.outcome is Outcome.ERROR


async def test_a_cut_stream_is_an_error() -> None:
    """The connection ends inside the body."""

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)
        writer.write(_HEAD + _chunk(_EVENT))

    with capture():
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answer = await client.ask(_BODY, 10)
            await client.close()
    assert answer.outcome is Outcome.ERROR
    assert answer.first_token_ns is not None


async def test_new_connections_can_be_required() -> None:
    """Then each request opens one, and closes it."""
    numbers: list[int] = []

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        while True:
            await _read_request(reader)
            numbers.append(number)
            writer.write(_RESPONSE)

    with capture():
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m", reuse_connections=False)
            for _ in range(3):
                await client.ask(_BODY, 10)
            await client.close()
    assert numbers == [0, 1, 2]


async def test_a_long_request_is_sent_when_the_kernel_has_all_of_it() -> None:
    """A prompt of 8 MB does not fit into the buffers of a socket."""
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "a" * 8_000_000}]}
    ).encode()

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)
        writer.write(_RESPONSE)

    with capture() as captured:
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answer = await client.ask(body, 30)
            await client.close()
    assert answer.outcome is Outcome.COMPLETED
    (call,) = _calls(captured)
    assert "send" in {each.name for each in call.segments}


async def test_tls_is_verified_and_stamped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A certificate of an unknown authority is an error, one that is trusted is not."""

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)
        writer.write(_RESPONSE)

    with capture() as captured:
        async with _server(serve, server_context()) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            refused = await client.ask(_BODY, 10)
            await client.close()
            monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
            client = ChatClient(Endpoint.from_url(url), "m")
            trusted = await client.ask(_BODY, 10)
            await client.close()
    assert isinstance(refused.error, ssl.SSLCertVerificationError)
    assert trusted.outcome is Outcome.COMPLETED
    assert "tls" in {each.name for each in _calls(captured)[1].segments}


async def test_a_time_limit_is_a_timeout_and_closes_the_connection() -> None:
    """The server sees that the client no longer reads."""
    closed = asyncio.Event()

    async def serve(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await _read_request(reader)
        writer.write(_HEAD + _chunk(_EVENT))
        await reader.read()
        closed.set()

    with capture() as captured:
        async with _server(serve) as url:
            client = ChatClient(Endpoint.from_url(url), "m")
            answer = await client.ask(_BODY, 0.05)
            await closed.wait()
            await client.close()
    assert answer.outcome is Outcome.TIMEOUT
    (call,) = _calls(captured)
    assert call.outcome is Outcome.TIMEOUT
    assert "time_to_first_token" in call.metrics


_CHUNKS = 16
_CHUNK_S = 0.025
_TIMINGS = {"prompt_n": 1, "prompt_ms": 1.0, "predicted_n": _CHUNKS}


async def _generate(writer: asyncio.StreamWriter) -> None:
    """Send a stream of llama.cpp's form, which reports how long its tokens took."""
    loop = asyncio.get_running_loop()
    writer.write(_HEAD)
    begun_s = loop.time()
    for number in range(_CHUNKS):
        await asyncio.sleep(begun_s + number * _CHUNK_S - loop.time())
        writer.write(_chunk(_EVENT))
    timings = {**_TIMINGS, "predicted_ms": (loop.time() - begun_s) * 1000}
    last: dict[str, object] = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "timings": timings,
    }
    writer.write(_chunk(encode_event(json.dumps(last)) + DONE) + b"0\r\n\r\n")


async def _serve_honestly(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
) -> None:
    while True:
        await _read_request(reader)
        await _generate(writer)


@asynccontextmanager
async def _proxy(pass_on: _PassOn) -> AsyncGenerator[str]:
    """Serve through a proxy in front of an honest server, and yield the proxy's URL."""
    async with _server(_serve_honestly) as upstream:
        port = int(upstream.rpartition(":")[2].removesuffix("/v1"))

        async def serve(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
        ) -> None:
            while True:
                request = await _read_request(reader)
                from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
                to_server.write(request)
                await pass_on(from_server, writer)
                to_server.close()

        async with _server(serve) as url:
            yield url


async def _hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass a response on when it is complete."""
    writer.write(await reader.readuntil(b"0\r\n\r\n"))


async def _coalesce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass four chunks on every 150 ms."""
    loop = asyncio.get_running_loop()
    head, last = await reader.readuntil(b"\r\n\r\n"), len(_chunk(_EVENT))
    begun_s = loop.time()
    for tick in range(1, 1 + _CHUNKS // 4):
        clump = await reader.readexactly(4 * last)
        await asyncio.sleep(begun_s + tick * 0.15 - loop.time())
        writer.write(head + clump)
        head = b""
    writer.write(await reader.readuntil(b"0\r\n\r\n"))


async def _measured(url: str, requests: int, in_flight: int = 8) -> list[RequestRecord]:
    with capture() as captured:
        client = ChatClient(Endpoint.from_url(url), "m")
        left = iter(range(requests))

        async def user() -> None:
            for _ in left:
                answer = await client.ask(_BODY, 30)
                assert answer.outcome is Outcome.COMPLETED

        await asyncio.gather(*(user() for _ in range(in_flight)))
        await client.close()
    calls = _calls(captured)
    assert len(calls) == requests
    return calls


async def test_a_stream_that_a_proxy_held_is_marked() -> None:
    """It arrives in one read, in which each of its chunks has an arrival of its own."""
    async with _proxy(_hold) as url:
        calls = await _measured(url, 40)
    marked = [call for call in calls if "buffered" in call.metrics]
    assert len(marked) >= 0.95 * len(calls)
    assert all(call.chunk_gaps == () for call in marked)
    assert {call.metrics["time_to_first_token"].source for call in marked} == {Source.ESTIMATED}


async def test_a_stream_that_no_proxy_held_is_not_marked() -> None:
    """Its chunks arrive as they are generated."""
    async with _server(_serve_honestly) as url:
        calls = await _measured(url, 40)
    assert not [call for call in calls if "buffered" in call.metrics]
    assert {len(call.chunk_gaps) for call in calls} == {_CHUNKS - 1}


async def test_the_chunks_of_a_clump_arrive_together() -> None:
    """The gaps show how a proxy passes a stream on."""
    async with _proxy(_coalesce) as url:
        calls = await _measured(url, 4, in_flight=1)
    for call in calls:
        assert "buffered" not in call.metrics
        gaps_ms = [gap.value / 1e6 for gap in call.chunk_gaps]
        assert len(gaps_ms) == _CHUNKS - 1
        assert [gap_ms > 75 for gap_ms in gaps_ms] == ([False] * 3 + [True]) * 3 + [False] * 3
        together = [gap_ms for gap_ms in gaps_ms if gap_ms <= 75]
        assert together.count(0) >= 0.75 * len(together)
