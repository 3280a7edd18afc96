"""Streams that are left in every possible way have their spans and leave no memory behind."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from tests.clients import conftest
from tests.clients.conftest import MESSAGES, Driver, Leave, openai

from latspan._live.otel.spans import ApiSink
from latspan._live.process.runtime import Runtime, current_runtime, override_runtime
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import Script, ScriptedServer

# Fixtures are found by their names in the module.
_instrumented = conftest._instrumented  # pyright: ignore[reportPrivateUsage]
driver = conftest.driver

SCRIPT = Script.chat(tokens=3, prefill_ms=20, gap_ms=10, flavor="plain")
BATCHES = 24
ROUNDS = 30
"""Streams per way and batch; with both kinds of client, 10,080 in total."""

LEFT_BY_A_STREAM = 0.02
"""Maximum number of objects left per stream: caches may fill, but streams must not leak."""


class _Counts(SpanProcessor):
    """Counts ended spans without keeping them."""

    def __init__(self) -> None:
        self.outcomes: Counter[object] = Counter()

    def on_end(self, span: ReadableSpan) -> None:
        """Count the span of a call."""
        if span.name == "chat m":
            self.outcomes[(span.attributes or {})["latspan.outcome"]] += 1


@contextmanager
def _switched_on(driver: Driver) -> Generator[_Counts]:
    """Run latspan with an application's provider."""
    counting = _Counts()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(counting)
    runtime = Runtime(
        clock=driver.clock,
        recorder=Recorder(driver.clock),
        sink=lambda: ApiSink(provider.get_tracer("latspan")),
        strict=True,
    )
    with override_runtime(runtime):
        yield counting


class _Reader(Exception):  # noqa: N818 - what the caller's own code raises
    """Error raised by the code that reads a stream."""


def _leave(chunk: Any) -> None:
    raise Leave


def _fail(chunk: Any) -> None:
    raise _Reader


async def _unread(driver: Driver, client: Any) -> None:
    await driver.create(client, stream=True)


async def _broken_off(driver: Driver, client: Any) -> None:
    await driver.read(await driver.create(client, stream=True), _leave)


async def _closed(driver: Driver, client: Any) -> None:
    await driver.close(await driver.create(client, stream=True))


async def _closed_after_a_break(driver: Driver, client: Any) -> None:
    stream = await driver.create(client, stream=True)
    await driver.read(stream, _leave)
    await driver.close(stream)


async def _left_inside_with(driver: Driver, client: Any) -> None:
    async with driver.entered(await driver.create(client, stream=True)) as stream:
        await driver.read(stream, _leave)


async def _reader_raised(driver: Driver, client: Any) -> None:
    stream = await driver.create(client, stream=True)
    with suppress(_Reader):
        await driver.read(stream, _fail)


async def _raw_unread(driver: Driver, client: Any) -> None:
    asked = client.chat.completions.with_raw_response.create(
        model="m", messages=MESSAGES, stream=True
    )
    if driver.asynchronous:
        await asked


WAYS: dict[Callable[[Driver, Any], Awaitable[None]], Outcome] = {
    _unread: Outcome.ABANDONED,
    _broken_off: Outcome.CLOSED_EARLY,
    _closed: Outcome.CLOSED_EARLY,
    _closed_after_a_break: Outcome.CLOSED_EARLY,
    _left_inside_with: Outcome.CLOSED_EARLY,
    _reader_raised: Outcome.CLOSED_EARLY,
    _raw_unread: Outcome.ABANDONED,
}


def _everything() -> int:
    """Return the number of objects that could be part of a leak."""
    runtime = current_runtime()
    if runtime is not None:
        # The latest records are counted together later.
        runtime.recorder.drain()
    gc.collect()
    registry: Any = getattr(weakref.finalize, "_registry")  # noqa: B009 - it has no public name
    return len(gc.get_objects()) + len(registry)


def _grown(driver: Driver) -> float:
    """Leave streams in every way, and return the number of leaked objects per stream."""

    async def program(client: Any) -> None:
        for _ in range(ROUNDS):
            for leave in WAYS:
                await leave(driver, client)
        if driver.asynchronous:
            # The loop closes dropped streams in tasks of its own.
            while others := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.gather(*others, return_exceptions=True)

    marks: list[int] = []
    for batch in range(BATCHES):
        # With or without latspan, a stream that is neither read nor closed keeps its connection.
        transport = driver.transport(SCRIPT)
        transport._pool._max_connections = ROUNDS * len(WAYS)
        driver.run(transport, program)
        # Caches that the first tenth fills once are not leaks.
        if batch in {BATCHES // 10, BATCHES - 1}:
            marks.append(_everything())
    then, now = marks
    return (now - then) / (BATCHES * ROUNDS * len(WAYS))


@pytest.mark.repetitive
def test_ten_thousand_streams_leave_no_span_task_or_memory(driver: Driver) -> None:
    """5,040 synchronous and 5,040 asynchronous streams, in process."""
    with _switched_on(driver) as counts:
        grown = _grown(driver)
    ends = Counter({outcome.value: 0 for outcome in WAYS.values()})
    for outcome in WAYS.values():
        ends[outcome.value] += ROUNDS * BATCHES
    assert counts.outcomes == ends
    assert grown < LEFT_BY_A_STREAM
    assert context.get_current() == {}


def test_streams_left_on_real_sockets_leave_no_socket(driver: Driver) -> None:
    """Nor an open call."""
    descriptors = Path("/proc/self/fd")

    async def program(base_url: str) -> None:
        kind = "Async" if driver.asynchronous else ""
        client: Any = getattr(openai, f"{kind}OpenAI")(
            base_url=base_url, api_key="none", max_retries=0
        )
        for leave in WAYS:
            for _ in range(10):
                await leave(driver, client)
        if driver.asynchronous:
            await client.close()
        else:
            client.close()

    with ScriptedServer(Script.chat(tokens=3, prefill_ms=1, gap_ms=1)) as server:
        asyncio.run(program(server.base_url))
        gc.collect()
        before = len(list(descriptors.iterdir()))
        asyncio.run(program(server.base_url))
        gc.collect()
        assert len(list(descriptors.iterdir())) <= before
