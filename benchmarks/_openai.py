"""
The real OpenAI client with its real connection pool, over bytes in memory: no socket, no delay.

The transport is a subclass of httpx2's own, with a different network backend under its pool. So
``latspan_instrumentation.httpx`` patches it, and latspan receives httpcore2's events, and from them
every segment. The simulated server answers each request with the same bytes.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import httpcore2
import httpx2
from openai import AsyncOpenAI, OpenAI

MESSAGES: Any = [{"role": "user", "content": "Where did the time go?"}]

HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
"""Status line and headers of a streamed response."""
LAST: Final = b"0\r\n\r\n"
"""The end of a chunked body."""

_CONNECTIONS: Final = 1_000
"""Maximum number of simultaneous connections, which is the OpenAI client's own default."""


def event(delta: dict[str, str] | None, **more: Any) -> bytes:
    """
    Return one event of a streamed chat completion.

    Args:
        delta: Delta of the chunk's choice. If it is empty, the choice has the finish reason
            ``stop``. If it is ``None``, the chunk has no choice.
        more: Further fields of the chunk.
    """
    choices: list[dict[str, Any]] = []
    if delta is not None:
        finish = None if delta else "stop"
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    body = {
        "id": "chatcmpl-B7Yx2mUQd3kQp0cR5n1s8Zt4",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "gpt-4o-mini-2024-07-18",
        "system_fingerprint": "fp_0392822090",
        "choices": choices,
    }
    return f"data: {json.dumps({**body, **more})}\n\n".encode()


def framed(data: bytes) -> bytes:
    """Return ``data`` as one chunk of a body with chunked transfer encoding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_of(tokens: int, *, events_a_read: int = 1) -> list[bytes]:
    """
    Return the reads of a streamed response: a role, ``tokens`` words, a finish reason, the usage.

    The last chunk also contains llama.cpp's timings, so that the call has every segment of a call
    on a new connection without TLS.

    Args:
        tokens: Number of words, at least 1.
        events_a_read: Number of events per read.
    """
    usage = {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}
    timings = {"prompt_n": 12, "prompt_ms": 0.02, "predicted_n": tokens, "predicted_ms": 0.02}
    events = [
        event({"role": "assistant", "content": ""}),
        *[event({"content": f" word{number:05}"}) for number in range(tokens)],
        event({}),
        event(None, usage=usage, timings=timings),
        b"data: [DONE]\n\n",
    ]
    reads = [
        b"".join(events[begin : begin + events_a_read])
        for begin in range(0, len(events), events_a_read)
    ]
    return [HEAD, *map(framed, reads), LAST]


class _Far:
    """Server side of one connection; it answers everything with the same bytes."""

    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer
        self._left: Iterator[bytes] = iter(())

    def receive(self) -> None:
        self._left = iter(self._answer)

    def next_read(self) -> bytes:
        return next(self._left, b"")


class Far(Protocol):
    """Server side of one connection."""

    def receive(self) -> None:
        """Receive a request."""

    def next_read(self) -> bytes:
        """Return the next bytes of the response."""
        ...


class Stream(httpcore2.NetworkStream):
    """
    Client side of one connection.

    Args:
        far: Server side of the connection.
    """

    def __init__(self, far: Far) -> None:
        self._far = far

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._far.next_read()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._far.receive()

    def close(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:  # noqa: ARG002
        return Stream(_Far(self._answer))


class AsyncStream(httpcore2.AsyncNetworkStream):
    """
    Client side of one connection, for asynchronous clients.

    Args:
        far: Server side of the connection.
    """

    def __init__(self, far: Far) -> None:
        self._far = far

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109
        return self._far.next_read()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        self._far.receive()

    async def aclose(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


class _AsyncBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:  # noqa: ARG002
        return AsyncStream(_Far(self._answer))


class _Transport(httpx2.HTTPTransport):
    def __init__(self, backend: httpcore2.NetworkBackend) -> None:
        super().__init__(verify=_no_authorities())
        self._pool = httpcore2.ConnectionPool(network_backend=backend)


class _AsyncTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, backend: httpcore2.AsyncNetworkBackend) -> None:
        super().__init__(verify=_no_authorities())
        self._pool = httpcore2.AsyncConnectionPool(
            network_backend=backend, max_connections=_CONNECTIONS
        )


def _no_authorities() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(answer: Sequence[bytes]) -> OpenAI:
    """Return a client whose requests are all answered with ``answer``; each element is a read."""
    return client_over(_Backend(answer))


def async_client(answer: Sequence[bytes]) -> AsyncOpenAI:
    """Return the asynchronous variant of :func:`client`."""
    return async_client_over(_AsyncBackend(answer))


def client_over(backend: httpcore2.NetworkBackend, *, retries: int = 0) -> OpenAI:
    """Return a client on the given network, with at most ``retries`` retries per call."""
    return OpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=retries,
        http_client=httpx2.Client(transport=_Transport(backend)),
    )


def async_client_over(backend: httpcore2.AsyncNetworkBackend) -> AsyncOpenAI:
    """Return an asynchronous client on the given network, without retries."""
    return AsyncOpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=_AsyncTransport(backend)),
    )
