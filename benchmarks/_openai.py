"""
The OpenAI client over bytes in this process: real client, real pool, no socket and no delay.

The transport is a subclass of httpx2's own with another network beneath its pool, so it is one
that ``latspan_httpx`` patches: httpcore2's events come, and with them every segment. The far end
answers each request with the same bytes.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

import httpcore2
import httpx2
from openai import AsyncOpenAI, OpenAI

__all__ = [
    "HEAD",
    "LAST",
    "MESSAGES",
    "AsyncStream",
    "Far",
    "Stream",
    "async_client",
    "async_client_over",
    "client",
    "client_over",
    "event",
    "framed",
    "stream_of",
]

MESSAGES: Any = [{"role": "user", "content": "Where did the time go?"}]

HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
"""What comes before the body of a streamed answer."""
LAST: Final = b"0\r\n\r\n"
"""The end of a chunked body."""

_CONNECTIONS: Final = 1_000
"""As many at once as the OpenAI client allows by itself."""


def event(delta: dict[str, str] | None, **more: Any) -> bytes:
    """
    Return one event of a streamed chat.

    Args:
        delta: What the chunk brings; empty: it says that the answer stops; ``None``: it has no
            choice.
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
    """Return ``data`` as one piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream_of(tokens: int, *, events_a_read: int = 1) -> list[bytes]:
    """
    Return the reads of a streamed answer: a role, ``tokens`` words, an end, the usage.

    The last chunk carries llama.cpp's timings too, so that every segment is there that a new
    connection without TLS has.

    Args:
        tokens: At least 1.
        events_a_read: How many chunks come in one read.
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
    """The far end of one connection: whatever is sent to it, it answers the same."""

    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer
        self._left: Iterator[bytes] = iter(())

    def receive(self) -> None:
        self._left = iter(self._answer)

    def next_read(self) -> bytes:
        return next(self._left, b"")


class Far(Protocol):
    """The far end of one connection."""

    def receive(self) -> None:
        """Take what is sent to it."""

    def next_read(self) -> bytes:
        """Return what it sends next."""
        ...


class Stream(httpcore2.NetworkStream):
    """One connection to ``far``."""

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
    """The same, asynchronous."""

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
    """Return a client that every request of is answered with ``answer``, one read an element."""
    return client_over(_Backend(answer))


def async_client(answer: Sequence[bytes]) -> AsyncOpenAI:
    """Return the same as :func:`client`, asynchronous."""
    return async_client_over(_AsyncBackend(answer))


def client_over(backend: httpcore2.NetworkBackend, *, retries: int = 0) -> OpenAI:
    """Return a client over another network, which tries ``retries`` times more."""
    return OpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=retries,
        http_client=httpx2.Client(transport=_Transport(backend)),
    )


def async_client_over(backend: httpcore2.AsyncNetworkBackend) -> AsyncOpenAI:
    """Return an asynchronous client over another network, which tries once."""
    return AsyncOpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=_AsyncTransport(backend)),
    )
