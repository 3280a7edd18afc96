"""An aiohttp client and a site on loopback in one event loop, both on one manual clock."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from latspan.testing import Captured, ManualClock, RequestRecord, capture
from tests.support.tls import server_context, trusting_context

# The types of one version are not those of another, and an environment may have none.
aiohttp: Any = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
web: Any = pytest.importorskip("aiohttp.web")

MS: Final = 1_000_000

Handler = Callable[[Any], Awaitable[Any]]


@contextmanager
def instrumented() -> Generator[Any]:
    """Have aiohttp instrumented inside the block, whatever it was before."""
    from latspan_instrumentation.aiohttp import AiohttpInstrumentor

    instrumentor = AiohttpInstrumentor()
    was_on = instrumentor.is_instrumented_by_opentelemetry
    if not was_on:
        instrumentor.instrument()
    try:
        yield instrumentor
    finally:
        if not was_on:
            instrumentor.uninstrument()


@contextmanager
def taken_off() -> Generator[Any]:
    """Have aiohttp as it came inside the block, and instrumented behind it."""
    with instrumented() as instrumentor:
        instrumentor.uninstrument()
        try:
            yield instrumentor
        finally:
            # Does nothing where it is on again already.
            instrumentor.instrument()


class _Resolver(aiohttp.abc.AbstractResolver):
    """
    Finds every name on loopback, after 7 ms; that of ``nowhere.test`` not at all.

    Args:
        clock: What it advances.
    """

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    async def resolve(self, host: str, port: int = 0, *_: object, **__: object) -> Any:
        """Look ``host`` up."""
        self._clock.advance(7 * MS)
        if host == "nowhere.test":
            raise OSError(1, "no such name")
        found = {"hostname": host, "host": "127.0.0.1", "port": port}
        return [{**found, "family": socket.AF_INET, "proto": 0, "flags": 0}]

    async def close(self) -> None:
        """Do nothing: nothing is held."""


@dataclass
class World:
    """
    Everything that a test moves.

    Args:
        seen: What latspan records.
        clock: What latspan reads; the site advances it.
        turns: The client says here that it waits for the next piece.
    """

    seen: Captured
    clock: ManualClock
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    @asynccontextmanager
    async def site(self, handler: Handler, *, secure: bool = False) -> AsyncGenerator[Any]:
        """Serve ``handler`` on a free port; gives the site's URL, of the host ``model.test``."""
        # A handler whose client has gone may wait for ever.
        runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.01)
        await runner.setup()
        context = None
        if secure:
            context = server_context()
            # Called in the middle of a handshake.
            context.sni_callback = self._shake_hands
        tcp = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await tcp.start()
        port = tcp._server.sockets[0].getsockname()[1]
        try:
            yield f"{'https' if secure else 'http'}://model.test:{port}/v1/chat/completions"
        finally:
            await runner.cleanup()

    def _shake_hands(self, *_: object) -> None:
        self.clock.advance(5 * MS)

    @asynccontextmanager
    async def session(
        self,
        *,
        trace_configs: list[Any] | None = None,
        request_class: Any = aiohttp.ClientRequest,
        response_class: Any = aiohttp.ClientResponse,
        **options: Any,
    ) -> AsyncGenerator[Any]:
        """Give a session whose look-ups take 7 ms; options are its connector's."""
        connector = aiohttp.TCPConnector(
            resolver=_Resolver(self.clock), ssl=trusting_context(), **options
        )
        async with aiohttp.ClientSession(
            connector=connector,
            trace_configs=trace_configs,
            request_class=request_class,
            response_class=response_class,
        ) as session:
            yield session

    def streaming(self, *pieces: bytes, gap_ms: int = 10, status: int = 200) -> Handler:
        """Return a handler that writes a piece whenever the client waits for one."""

        async def handle(request: Any) -> Any:
            await request.read()
            response = web.StreamResponse(
                status=status, headers={"content-type": "text/event-stream"}
            )
            await response.prepare(request)
            for piece in pieces:
                await self.turns.acquire()
                self.clock.advance(gap_ms * MS)
                await response.write(piece)
            await self.turns.acquire()
            return response

        return handle


@contextmanager
def world() -> Generator[World]:
    """Give a world of one's own, aiohttp instrumented in it."""
    clock = ManualClock()
    with instrumented(), capture(clock=clock) as seen:
        yield World(seen, clock)


def chat_events(*texts: str, done: bool = True) -> list[bytes]:
    """Return the events of a chat answer: one a text, the finish, and ``[DONE]``."""

    def event(delta: dict[str, str], reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        body = {"object": "chat.completion.chunk", "model": "m", "choices": [choice]}
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    events = [event({"content": text}, None) for text in texts]
    return [*events, event({}, "stop"), b"data: [DONE]\n\n"] if done else events


def only(seen: Captured) -> RequestRecord:
    """Return the one record, after making sure that there is one whole span of one outcome."""
    (record,) = seen.records
    (span,) = [span for span in seen.spans if span.name == record.name and span.parent is None]
    assert (span.attributes or {})["latspan.outcome"] == record.outcome
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == record.duration_ns
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def totals(record: RequestRecord) -> dict[str, float]:
    """Return the milliseconds of each segment."""
    return {total.name: total.duration_ns / MS for total in record.segment_totals}
