"""The load client on real sockets: connections are reused, replaced and stamped."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager

import pytest

from latspan import Kind
from latspan._load._chat_client import ChatClient
from latspan._load._endpoint import Endpoint
from latspan._wire import DONE, encode_event
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, capture
from latspan_aiohttp import AiohttpInstrumentor
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
