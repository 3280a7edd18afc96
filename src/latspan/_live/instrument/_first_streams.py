"""
The bytes of the first streams that an SDK reads from a server.

An SDK hides two facts that the bytes show. It builds the classes of an API when it reads the first
stream, which takes time after the bytes have arrived. And it keeps ``[DONE]`` to itself: if a
server sends no finish reason, only ``[DONE]`` shows that a stream is complete.

To look at the bytes of every stream would cost each of them time. So latspan looks at the streams
of an API format and server until two have ended with a finish reason, and again after each one that
has ended without.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import AsyncGenerator, Generator
from typing import Final

from latspan._live.instrument._bodies import follows_bodies
from latspan._live.operations import Operation

_WATCH: Final = "_latspan_watch"
"""Attribute of a response that holds the watch of its bytes."""

_DONE: Final = re.compile(rb"(?:^|\n)data: ?\[DONE\]")
_TAIL_BYTES: Final = len(b"\ndata: [DONE]")

_MAX_ARRIVALS: Final = 64
"""Maximum number of arrivals kept, the last ones: only those after the last token matter."""


class _Watch:
    """
    Watch of the bytes of one stream.

    Args:
        operation: The open call that the stream belongs to.
        ends_with_done: Whether ``[DONE]`` ends streams of its API format.
    """

    __slots__ = ("_ends_with_done", "_operation", "_tail")

    def __init__(self, operation: Operation, *, ends_with_done: bool) -> None:
        self._operation = operation
        self._ends_with_done = ends_with_done
        self._tail = b"\n"

    def received(self, data: bytes) -> None:
        """Record that the transport has returned a part of the body."""
        operation = self._operation
        reads = operation.reads
        if operation.finished or reads is None:
            return
        if reads.arrivals is not None:
            reads.arrivals.append(operation.now())
        if self._ends_with_done:
            seen = self._tail + data
            self._tail = seen[-_TAIL_BYTES:]
            if _DONE.search(seen):
                operation.end_marked = True


def watch_stream(operation: Operation, response: object) -> None:
    """
    Watch the body of ``response`` if the stream is one of those to look at.

    Args:
        operation: An open call, whose client library reads the body as its own stream.
        response: The response of the transport, on which an attribute is set.
    """
    reads, api_format = operation.reads, operation.api_format
    if reads is None or api_format is None or not follows_bodies(response):
        return
    if not operation.runtime.watches_streams(operation.server, api_format.name):
        return
    reads.arrivals = deque[int](maxlen=_MAX_ARRIVALS)
    stream = api_format.stream
    ends_with_done = stream is not None and stream.closes is None and not stream.unmarked
    setattr(response, _WATCH, _Watch(operation, ends_with_done=ends_with_done))


def iter_watched(source: Generator[bytes], response: object) -> Generator[bytes]:
    """Return ``source``, the client library's iteration over a body, watched if it is to be."""
    watch: _Watch | None = getattr(response, _WATCH, None)
    return source if watch is None else _iter_watched(source, watch)


def _iter_watched(source: Generator[bytes], watch: _Watch) -> Generator[bytes]:
    try:
        for data in source:
            watch.received(data)
            yield data
    finally:
        source.close()


def aiter_watched(source: AsyncGenerator[bytes], response: object) -> AsyncGenerator[bytes]:
    """Return ``source``, as :func:`iter_watched` does."""
    watch: _Watch | None = getattr(response, _WATCH, None)
    return source if watch is None else _aiter_watched(source, watch)


async def _aiter_watched(source: AsyncGenerator[bytes], watch: _Watch) -> AsyncGenerator[bytes]:
    try:
        async for data in source:
            watch.received(data)
            yield data
    finally:
        await source.aclose()
