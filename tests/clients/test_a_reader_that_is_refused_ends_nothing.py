"""A second reader of a body that the client library refuses leaves the call to the first."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured
from tests.clients.conftest import Driver
from tests.clients.test_a_stream_is_recognised_by_its_content import ASKS, NAMED


async def _next(driver: Driver, iterator: Any) -> Any:
    return await anext(iterator) if driver.asynchronous else next(iterator)


def _iterating(driver: Driver, response: Any, what: str) -> Any:
    return getattr(response, f"aiter_{what}" if driver.asynchronous else f"iter_{what}")()


def _sent(driver: Driver, client: Any) -> Any:
    request = client._client.build_request("POST", "https://model.test/v1/any", json=ASKS)
    return client._client.send(request, stream=True)


def _waiting(driver: Driver, wait: Callable[[], Awaitable[object]]) -> Any:
    """Return a transport that answers with the stream, and waits before each piece."""

    class Stream(driver.http.AsyncByteStream):
        async def __aiter__(self) -> Any:
            for piece in NAMED:
                await wait()
                yield piece

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=headers, stream=Stream())

    return driver.http.MockTransport(answer)


@pytest.mark.parametrize("entered", [True, False], ids=["in a block", "outside"])
@pytest.mark.parametrize("end", ["read on", "left"])
def test_a_consumed_stream_is_the_first_readers(
    driver: Driver, seen: Captured, end: str, *, entered: bool
) -> None:
    """The second one gets the library's exception, and the first reads on, or leaves."""

    async def use(response: Any) -> None:
        first = _iterating(driver, response, "lines")
        await _next(driver, first)
        with pytest.raises(driver.http.StreamConsumed):
            await _next(driver, _iterating(driver, response, "raw"))
        gc.collect()
        assert seen.records == ()
        if end == "read on":
            await driver.read(first)
        elif driver.asynchronous:
            await first.aclose()
            # The event loop closes what it was made of.
            for _ in range(5):
                await asyncio.sleep(0)
        else:
            first.close()

    async def program(client: Any) -> None:
        if entered:
            asked = client._client.stream("POST", "https://model.test/v1/any", json=ASKS)
            async with driver.entered(asked) as response:
                await use(response)
        else:
            sent = _sent(driver, client)
            response = await sent if driver.asynchronous else sent
            await use(response)
            if end == "left":
                assert [each.outcome for each in seen.records] == [Outcome.CLOSED_EARLY]

    driver.run(driver.sending(NAMED), program)
    (record,) = seen.records
    assert record.kind is Kind.CALL
    assert record.outcome is (Outcome.COMPLETED if end == "read on" else Outcome.CLOSED_EARLY)


def test_a_reader_that_is_refused_while_the_first_waits(seen: Captured, driver: Driver) -> None:
    """Also before the first has given anything."""
    if not driver.asynchronous:
        pytest.skip("two readers wait only in an event loop")
    go = asyncio.Event()

    async def program(client: Any) -> None:
        asked = client._client.stream("POST", "https://model.test/v1/any", json=ASKS)
        async with asked as response:
            first = asyncio.create_task(driver.read(response.aiter_lines()))
            await asyncio.sleep(0)
            for what in ("raw", "lines"):
                with pytest.raises(driver.http.StreamConsumed):
                    await anext(_iterating(driver, response, what))
            gc.collect()
            go.set()
            await first

    driver.run(_waiting(driver, go.wait), program)
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.tokens.output == 2


def test_a_read_that_is_refused_while_another_read_of_the_sdks_stream_waits(
    driver: Driver, seen: Captured
) -> None:
    """Neither reader iterates: each asks the stream for its next chunk."""
    if not driver.asynchronous:
        pytest.skip("two readers wait only in an event loop")

    async def chunks(stream: Any) -> int:
        read = 0
        while True:
            try:
                await anext(stream)
            except StopAsyncIteration:
                return read
            read += 1

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        first = asyncio.create_task(chunks(stream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already running"):
            await anext(stream)
        assert await first == 4

    driver.run(_waiting(driver, lambda: asyncio.sleep(0)), program)
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.tokens.output == 2


def test_a_reader_that_comes_after_the_first_left_is_an_error(
    driver: Driver, seen: Captured
) -> None:
    """Nobody reads on, and the exception is all that the caller gets."""

    async def program(client: Any) -> None:
        asked = client._client.stream("POST", "https://model.test/v1/any", json=ASKS)
        async with driver.entered(asked) as response:
            first = _iterating(driver, response, "raw")
            await _next(driver, first)
            await (first.aclose() if driver.asynchronous else asyncio.to_thread(first.close))
            with pytest.raises(driver.http.StreamConsumed):
                await _next(driver, _iterating(driver, response, "raw"))

    driver.run(driver.sending(NAMED), program)
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
