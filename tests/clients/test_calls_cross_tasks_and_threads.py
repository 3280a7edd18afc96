"""A call is begun here, read there and left elsewhere: it is recorded, where its context says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import pytest
from opentelemetry import context

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import ANTHROPIC, OPENAI, Driver
from tests.clients.transports import built_on

MS = 1_000_000
SCRIPT = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)

asynchronous = pytest.mark.parametrize(
    "driver", [(OPENAI, True), (ANTHROPIC, True)], indirect=True, ids=["openai", "anthropic"]
)
synchronous = pytest.mark.parametrize(
    "driver", [(OPENAI, False), (ANTHROPIC, False)], indirect=True, ids=["openai", "anthropic"]
)


def call_of(seen: Captured) -> RequestRecord:
    """Return the one record of a call."""
    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    return record


def parent_of(seen: Captured) -> str | None:
    """Return the name of the span that the call's hangs beneath."""
    (span,) = [span for span in seen.spans if span.name == call_of(seen).name]
    names = {each.context.span_id: each.name for each in seen.spans if each.context is not None}
    return None if span.parent is None else names[span.parent.span_id]


async def elsewhere(step: Any) -> Any:
    """Await something in a task of its own."""

    async def awaits() -> Any:
        return await step

    return await asyncio.create_task(awaits())


async def chunks_of(driver: Driver, client: Any) -> AsyncGenerator[Any]:
    """Give what a model says, as an application's own generator does."""
    async with await driver.create(client, stream=True) as stream:
        async for chunk in stream:
            yield chunk


async def chunks_in_a_request(driver: Driver, client: Any) -> AsyncGenerator[Any]:
    """Give the same as one request."""
    with latspan.request("answer"):
        async for chunk in chunks_of(driver, client):
            yield chunk


@asynchronous
@pytest.mark.parametrize("generator", [chunks_of, chunks_in_a_request])
def test_a_generator_that_another_task_closes(
    driver: Driver, seen: Captured, caplog: pytest.LogCaptureFixture, generator: Any
) -> None:
    """As a server does with what its client has left: one call, and no context left attached."""

    async def program(client: Any) -> Any:
        chunks = generator(driver, client)
        await elsewhere(anext(chunks))
        await elsewhere(chunks.aclose())
        return context.get_current()

    assert driver.run(driver.transport(SCRIPT), program) == {}
    assert call_of(seen).outcome is Outcome.CLOSED_EARLY
    assert parent_of(seen) == ("answer" if generator is chunks_in_a_request else None)
    assert [record.outcome for record in seen.records] == [Outcome.CLOSED_EARLY] * len(seen.records)
    assert caplog.records == []


@asynchronous
def test_each_chunk_is_read_in_another_task(driver: Driver, seen: Captured) -> None:
    """The marks are those of one stream."""

    async def program(client: Any) -> None:
        chunks = aiter(await driver.create(client, stream=True))
        while await elsewhere(anext(chunks, None)) is not None:
            pass

    driver.run(driver.transport(SCRIPT), program)
    assert call_of(seen).outcome is Outcome.COMPLETED
    assert [gap.value for gap in call_of(seen).chunk_gaps] == [10 * MS, 10 * MS]


@asynchronous
def test_a_stream_that_another_task_closes(driver: Driver, seen: Captured) -> None:
    """Its call ends with that."""

    async def program(client: Any) -> None:
        stream = await elsewhere(driver.create(client, stream=True))
        await elsewhere(anext(aiter(stream)))
        await elsewhere(driver.close(stream))

    driver.run(driver.transport(SCRIPT), program)
    assert call_of(seen).outcome is Outcome.CLOSED_EARLY


@asynchronous
@pytest.mark.parametrize("late", [True, False], ids=["while the stream is open", "before"])
def test_a_task_that_is_begun_inside_a_call_asks_the_same_host(
    driver: Driver, seen: Captured, late: bool
) -> None:
    """Its request is an exchange of its own, whether the call has returned or not."""
    tasks: list[asyncio.Task[Any]] = []
    begun = asyncio.Event()
    inner, other = driver.transport(SCRIPT), driver.transport(Script.refused(404, after_ms=200))

    async def ask(sender: Any, url: Any) -> None:
        if late:
            await begun.wait()
        await sender.post(url, json={"model": "another"})
        begun.set()

    async def handle(request: Any, send: Any) -> Any:
        sender = driver.http.AsyncClient(transport=other)
        tasks.append(asyncio.create_task(ask(sender, request.url)))
        if not late:
            await begun.wait()
        return await send(request)

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        begun.set()
        await tasks[0]
        await driver.read(stream)

    driver.run(built_on(driver, inner, handle), program)
    assert [record.kind for record in seen.records] == [Kind.HTTP, Kind.CALL]
    call = call_of(seen)
    assert call.outcome is Outcome.COMPLETED
    assert "retry" not in {total.name for total in call.segment_totals}
    (span,) = [span for span in seen.spans if span.name == call.name]
    assert (span.attributes or {})["latspan.attempt.count"] == 1


@synchronous
@pytest.mark.parametrize("carried", [True, False], ids=["carried", "not carried"])
def test_a_call_on_a_pool_of_threads(driver: Driver, seen: Captured, carried: bool) -> None:
    """It is recorded either way; beneath the request, where its context was carried along."""

    async def program(client: Any) -> None:
        def ask() -> None:
            for _ in driver.sdk.resource_of(client).create(**driver.sdk.asks, stream=True):
                pass

        with latspan.request("answer"), ThreadPoolExecutor() as pool:
            run = copy_context().run if carried else Context().run
            pool.submit(run, ask).result()

    driver.run(driver.transport(SCRIPT), program)
    assert call_of(seen).outcome is Outcome.COMPLETED
    assert parent_of(seen) == ("answer" if carried else None)


@synchronous
def test_a_stream_that_another_thread_reads(driver: Driver, seen: Captured) -> None:
    """One thread asks, another reads, a third closes."""

    async def program(client: Any) -> None:
        with ThreadPoolExecutor() as first, ThreadPoolExecutor() as second:
            ask = driver.sdk.resource_of(client).create
            stream = first.submit(ask, **driver.sdk.asks, stream=True).result()
            second.submit(next, iter(stream)).result()
            stream.close()

    driver.run(driver.transport(SCRIPT), program)
    assert call_of(seen).outcome is Outcome.CLOSED_EARLY
