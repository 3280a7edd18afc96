"""One run of one client against a server, and what a program can tell of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from threading import Semaphore
from typing import Any, Final

import pytest

import latspan
from latspan.testing import Script
from latspan.testing._http import LAST_CHUNK, encode_chunk
from latspan_instrumentation.aiohttp import AiohttpInstrumentor
from latspan_instrumentation.anthropic import AnthropicInstrumentor
from latspan_instrumentation.httpx import HTTPX2Instrumentor, HTTPXInstrumentor
from latspan_instrumentation.openai import OpenAIInstrumentor
from latspan_instrumentation.requests import RequestsInstrumentor, URLLib3Instrumentor
from tests.clients.contract.clients import CLIENTS, TIMEOUT_S, Client, settled
from tests.support.answers import play
from tests.support.loopback import Loopback, Reply

_ABSENT: Final = object()
_END_MARK: Final = b"data: [DONE]\n\n"

INTEGRATIONS: Final = (
    OpenAIInstrumentor,
    AnthropicInstrumentor,
    HTTPXInstrumentor,
    HTTPX2Instrumentor,
    AiohttpInstrumentor,
    RequestsInstrumentor,
    URLLib3Instrumentor,
)


def switch_on() -> None:
    """Instrument whatever is there; what is on stays on."""
    for instrumentor in INTEGRATIONS:
        instrumentor().instrument()


def switch_off() -> None:
    """Take all off again, last on first."""
    for instrumentor in reversed(INTEGRATIONS):
        instrumentor().uninstrument()


@contextmanager
def switched_off() -> Generator[None]:
    """Have every library as it came inside the block."""
    switch_off()
    try:
        yield
    finally:
        switch_on()


@pytest.fixture(autouse=True, scope="package")
def _switched_on() -> Iterator[None]:
    """Have every integration on, and those that others have on afterwards as they were."""
    were_on = [each for each in INTEGRATIONS if each().is_instrumented_by_opentelemetry]
    switch_on()
    yield
    switch_off()
    if were_on:
        # Those that still await their library were on too.
        latspan.auto_instrument()


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each client library in turn."""
    client: Client = request.param
    if not client.is_installed:
        pytest.skip(f"one of {', '.join(client.needs)} is not installed")
    return client


@dataclass(frozen=True)
class Here:
    """
    What a program works with.

    Args:
        client: Which kind of client it has.
        made: The client.
        turns: Released for each piece that was read: the server writes none before.
    """

    client: Client
    made: Any
    turns: Semaphore

    async def ask(self, *, stream: bool = True) -> Any:
        """Ask for an answer."""
        return await settled(self.client.ask(self.made, stream=stream))

    async def read(self, answer: Any, visit: Callable[[Any], None] | None = None) -> list[Any]:
        """Return every piece of an answer, after ``visit`` has seen it."""
        pieces = self.client.pieces(answer)
        saw: list[Any] = []

        def see(piece: Any) -> None:
            saw.append(piece)
            if visit is not None:
                visit(piece)
            self.turns.release()

        if isinstance(pieces, AsyncIterator):
            async for piece in pieces:
                see(piece)
        else:
            for piece in pieces:
                see(piece)
        return saw

    async def close(self, answer: Any) -> None:
        """Close an answer that comes in chunks."""
        await settled(self.client.close_answer(answer))


Program = Callable[[Here], Awaitable[Any]]
"""Does something with a client, and says what it saw."""

Runs = Callable[[Coroutine[Any, Any, Any]], Any]
"""Runs a coroutine to its end in an event loop."""


def run(
    client: Client,
    program: Program,
    reply: Reply,
    *,
    timeout_s: float = TIMEOUT_S,
    runs: Runs = asyncio.run,
) -> tuple[Any, list[bytes]]:
    """
    Run a program with a client of its own.

    Args:
        client: Which kind.
        program: What is done.
        reply: What the server answers, a write whenever the program has read one.
        timeout_s: The longest that a read may take, in seconds.
        runs: Runs the coroutine of an asynchronous client.

    Returns:
        What the program saw, with what it left in its context; and the requests, as bytes.
    """
    turns = Semaphore(0)
    with Loopback([replace(reply, turns=turns)]) as server:

        async def visit() -> Any:
            before = copy_context()
            made = client.make(server.url, timeout_s)
            try:
                saw = await program(Here(client, made, turns))
            finally:
                await settled(client.close(made))
            left = {
                variable.name: held
                for variable, held in copy_context().items()
                if held is not before.get(variable, _ABSENT)
            }
            return saw, left

        saw = runs(visit()) if client.asynchronous else _runs_through(visit())
        port = b":%d" % server.port
        return saw, [visit.request.raw.replace(port, b"") for visit in server.visits]


def _runs_through(program: Coroutine[Any, Any, Any]) -> Any:
    """Run the coroutine of a synchronous client, which never waits and needs no event loop."""
    with ExitStack() as at_end:
        at_end.callback(program.close)
        try:
            program.send(None)
        except StopIteration as stop:
            return stop.value
    raise AssertionError("a synchronous client waited")


def answer_of(client: Client, *, stream: bool, parts: int | None = None) -> Reply:
    """
    Return what a model answers: a thought, a word, a tool's name, and the end.

    Args:
        client: Whose API it is in.
        stream: Whether it comes in chunks: one event a write, each of which is one piece to
            whoever reads it.
        parts: How many of those come, where not all do.
    """
    asked: dict[str, Any] = {"stream": True} if stream else {}
    if client.path.endswith("/messages"):
        asked["max_tokens"] = 9
    script = Script.chat(reasoning_tokens=1, tokens=1, tool_call_tokens=1)
    played = play(script, path=client.path, messages=[], **asked)
    if not stream:
        return Reply((played.written,))
    head, *chunks = played.frames
    body = b"".join(chunk.partition(b"\r\n")[2].removesuffix(b"\r\n") for chunk in chunks)
    events = [event + b"\n\n" for event in body.removesuffix(_END_MARK).split(b"\n\n")[:-1]]
    if body.endswith(_END_MARK):
        # The SDK makes no piece of it.
        events[-1] += _END_MARK
    writes = [encode_chunk(event) for event in events]
    return Reply((head + writes[0], *writes[1:-1], writes[-1] + LAST_CHUNK)[:parts])


def without_places(text: str) -> str:
    """Return a text without addresses in memory and on the network, and without trace context."""
    # An HTTP library beneath an SDK says in its errors what it was told to send.
    text = re.sub(r", 'traceparent': '[-0-9a-f]+'", "", text)
    return re.sub(
        r"0x[0-9a-f]+|cancel scope [0-9a-f]+|port=\d+|(127\.0\.0\.1|localhost)(', |:)\d+", "…", text
    )


def without_trace_context(raw: bytes) -> bytes:
    """Return a request as it would have been without latspan's addition."""
    head, blank, body = raw.partition(b"\r\n\r\n")
    ours = (b"traceparent:", b"tracestate:")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(ours)]
    return b"\r\n".join(lines) + blank + body
