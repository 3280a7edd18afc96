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
from typing import Any

import httpcore2
import httpx2
from openai import AsyncOpenAI, OpenAI

__all__ = ["MESSAGES", "async_client", "client", "stream_of"]

MESSAGES: Any = [{"role": "user", "content": "Where did the time go?"}]

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(delta: dict[str, str] | None, **more: Any) -> bytes:
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
        _chunk({"role": "assistant", "content": ""}),
        *[_chunk({"content": f" word{number:05}"}) for number in range(tokens)],
        _chunk({}),
        _chunk(None, usage=usage, timings=timings),
        b"data: [DONE]\n\n",
    ]
    reads = [
        b"".join(events[begin : begin + events_a_read])
        for begin in range(0, len(events), events_a_read)
    ]
    return [_HEAD, *[b"%x\r\n%b\r\n" % (len(read), read) for read in reads], b"0\r\n\r\n"]


class _Far:
    """The far end of one connection: whatever is sent to it, it answers the same."""

    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer
        self._left: Iterator[bytes] = iter(())

    def hear(self) -> None:
        self._left = iter(self._answer)

    def say(self) -> bytes:
        return next(self._left, b"")


class _Stream(httpcore2.NetworkStream):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._far = _Far(answer)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        return self._far.say()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        self._far.hear()

    def close(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer

    def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.NetworkStream:  # noqa: ARG002
        return _Stream(self._answer)


class _AsyncStream(httpcore2.AsyncNetworkStream):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._far = _Far(answer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109
        return self._far.say()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        self._far.hear()

    async def aclose(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:  # noqa: ARG002
        return None


class _AsyncBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, answer: Sequence[bytes]) -> None:
        self._answer = answer

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:  # noqa: ARG002
        return _AsyncStream(self._answer)


class _Transport(httpx2.HTTPTransport):
    def __init__(self, answer: Sequence[bytes]) -> None:
        super().__init__(verify=_no_authorities())
        self._pool = httpcore2.ConnectionPool(network_backend=_Backend(answer))


class _AsyncTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, answer: Sequence[bytes]) -> None:
        super().__init__(verify=_no_authorities())
        self._pool = httpcore2.AsyncConnectionPool(network_backend=_AsyncBackend(answer))


def _no_authorities() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def client(answer: Sequence[bytes]) -> OpenAI:
    """Return a client that every request of is answered with ``answer``, one read an element."""
    return OpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.Client(transport=_Transport(answer)),
    )


def async_client(answer: Sequence[bytes]) -> AsyncOpenAI:
    """Return the same as :func:`client`, asynchronous."""
    return AsyncOpenAI(
        base_url="http://model.test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx2.AsyncClient(transport=_AsyncTransport(answer)),
    )
