"""A stream that was left and is read on is one call, which ends where reading ended."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import latspan
from latspan._live.operations import ModelCall, end_left_operations
from latspan._live.process.runtime import current_runtime
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import LIBRARY, Driver, Leave, with_every_sdk

MS = 1_000_000
SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


def _leave(_: Any) -> None:
    raise Leave


def _only(seen: Captured) -> RequestRecord:
    (record,) = seen.records
    assert [span.name for span in seen.spans if span.name == "chat m"] == ["chat m"]
    return record


async def _begun(driver: Driver, stream: Any) -> Any:
    """Return a new iterator over a stream that has given a chunk."""
    iterator: Any = aiter(stream) if driver.asynchronous else iter(stream)
    _ = await anext(iterator) if driver.asynchronous else next(iterator)
    return iterator


async def _read_on(driver: Driver, iterator: Any) -> None:
    """Read what an iterator has left."""
    if driver.asynchronous:
        async for _ in iterator:
            pass
    else:
        for _ in iterator:
            pass


async def _peek(driver: Driver, stream: Any) -> None:
    """Take a chunk of a stream by an iterator that is dropped."""
    await _begun(driver, stream)


@with_every_sdk
@pytest.mark.parametrize("peeks", [1, 3])
def test_a_stream_that_is_peeked_at_and_then_read_is_completed(
    driver: Driver, seen: Captured, peeks: int
) -> None:
    """Every chunk is recorded, by whichever iterator it was read."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        for _ in range(peeks):
            await _peek(driver, stream)
        driver.clock.advance(7 * MS)
        await driver.read(stream)

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 4
    assert record.duration_ns == 100 * MS


@with_every_sdk
def test_a_stream_that_is_read_on_by_next_is_completed(driver: Driver, seen: Captured) -> None:
    """By the stream's own `next`, after a loop was left."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave)
        while (
            await anext(stream, None) if driver.asynchronous else next(stream, None)
        ) is not None:
            pass

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.COMPLETED


@with_every_sdk
def test_an_iterator_that_is_dropped_before_its_first_read_ends_nothing(
    driver: Driver, seen: Captured
) -> None:
    """A framework may ask for an iterator to see whether there is one."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        _ = aiter(stream) if driver.asynchronous else iter(stream)
        del _
        gc.collect()
        await driver.read(stream)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.COMPLETED


@with_every_sdk
def test_an_iterator_that_is_closed_late_leaves_nothing_that_another_reads(
    driver: Driver, seen: Captured
) -> None:
    """An event loop closes what was dropped when the next loop is already reading."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        first = await _begun(driver, stream)
        second = await _begun(driver, stream)
        if driver.asynchronous:
            await first.aclose()
        else:
            first.close()
        assert seen.records == ()
        await _read_on(driver, second)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.COMPLETED


@with_every_sdk
def test_a_stream_that_is_left_as_its_loop_ends_is_closed_early(
    driver: Driver, seen: Captured
) -> None:
    """The loop cancels what closes the iterator; nobody cancelled the caller."""

    async def program(client: Any) -> Any:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave)
        return stream

    stream = driver.run(driver.transport(SCRIPT), program)
    del stream
    gc.collect()
    assert _only(seen).outcome is Outcome.CLOSED_EARLY


@with_every_sdk
def test_a_stream_that_is_left_and_held_is_counted_by_a_snapshot(
    driver: Driver, seen: Captured
) -> None:
    """What is looked at then is final, and the rest of the stream is not recorded."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave)
        driver.clock.advance(10_000 * MS)
        record = _only(seen)
        assert (record.outcome, record.duration_ns) == (
            Outcome.CLOSED_EARLY,
            {"openai": 60 * MS, "anthropic": 60 * MS}[driver.sdk.name],
        )
        await driver.read(stream)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.CLOSED_EARLY


@with_every_sdk
def test_a_stream_that_was_left_long_ago_is_counted_with_the_next_interval(
    driver: Driver, seen: Captured
) -> None:
    """One that was left just now may still be read on."""
    runtime = current_runtime()
    assert runtime is not None
    recorder = runtime.recorder

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave)
        driver.clock.advance(59_000 * MS)
        end_left_operations(60_000 * MS)
        assert recorder.snapshot().records == ()
        driver.clock.advance(1_000 * MS)
        end_left_operations(60_000 * MS)
        assert len(recorder.snapshot().records) == 1
        await driver.close(stream)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.CLOSED_EARLY


@with_every_sdk
def test_a_unit_of_work_around_a_left_stream_has_its_segments(
    driver: Driver, seen: Captured
) -> None:
    """The stream is still held when the request ends, and is read to its end after it."""
    kept: list[Any] = []

    async def program(client: Any) -> None:
        with latspan.request("answer"):
            kept.append(await driver.create(client, stream=True))
            await driver.read(kept[0], _leave)
            driver.clock.advance(5 * MS)
        await driver.read(kept[0])

    driver.run(driver.transport(SCRIPT), program)
    request, call = seen.records
    assert {total.name: total.duration_ns for total in request.segment_totals} == {
        "server_wait": 60 * MS,
        "application": 5 * MS,
    }
    assert call.outcome is Outcome.COMPLETED


@with_every_sdk
def test_a_truthy_argument_asks_for_a_stream(driver: Driver, seen: Captured) -> None:
    """The SDKs take ``stream=1`` for ``stream=True``."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=1))

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert record.metrics["time_to_first_token"].value == 60 * MS
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert (span.attributes or {})["gen_ai.request.stream"] is True


@with_every_sdk
def test_a_stream_that_one_iterator_leaves_and_another_reads_is_open(
    driver: Driver, seen: Captured
) -> None:
    """A look ahead by a second iterator ends nothing for the first."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        first = await _begun(driver, stream)
        await _peek(driver, stream)
        latspan.snapshot()
        end_left_operations()
        assert seen.records == ()
        await _read_on(driver, first)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.COMPLETED


def test_the_failure_of_an_iterator_counts_after_another_was_left(
    driver: Driver, seen: Captured
) -> None:
    """The first reads on, and its read fails."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        first = await _begun(driver, stream)
        await _peek(driver, stream)
        await _read_on(driver, first)

    cut = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain", ending="reset")
    # Older SDKs hand on what the HTTP library raises in a stream.
    with pytest.raises((driver.errors.APIConnectionError, driver.http.ReadError)):
        driver.run(driver.transport(cut), program)
    assert _only(seen).outcome is Outcome.ERROR


def test_a_second_reader_that_is_refused_ends_nothing(seen: Captured) -> None:
    """A generator refuses to be read while it is read, and the first reader reads on."""
    openai, library = pytest.importorskip("openai"), import_module(LIBRARY)
    reading, refused = threading.Event(), threading.Event()

    def body() -> Iterator[bytes]:
        head = {"id": "a", "created": 1, "model": "m", "object": "chat.completion.chunk"}
        for number, reason in enumerate((None, None, "stop")):
            choice = {"index": 0, "delta": {"content": str(number)}, "finish_reason": reason}
            yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()
            reading.set()
            assert refused.wait(30)
        yield b"data: [DONE]\n\n"

    def respond(_request: Any) -> Any:
        fields = {"content-type": "text/event-stream"}
        return library.Response(200, headers=fields, content=body())

    client = openai.OpenAI(
        api_key="none",
        base_url="http://model.test",
        http_client=library.Client(transport=library.MockTransport(respond)),
    )
    stream = client.chat.completions.create(model="m", messages=[], stream=True)
    read: list[Any] = []
    first = threading.Thread(target=lambda: read.extend(stream))
    first.start()
    assert reading.wait(30)
    with pytest.raises(ValueError, match="already"):
        next(iter(stream))
    refused.set()
    first.join()

    assert len(read) == 3
    assert _only(seen).outcome is Outcome.COMPLETED


def test_a_call_that_ends_while_a_chunk_is_noted_costs_no_chunk(
    driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may ask for what has ended at any instant."""
    resume = ModelCall.resume

    def ended_meanwhile(call: ModelCall) -> None:
        call.end_if_left()
        resume(call)

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave)
        monkeypatch.setattr(ModelCall, "resume", ended_meanwhile)
        chunk = await anext(stream) if driver.asynchronous else next(stream)
        assert chunk.choices

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.CLOSED_EARLY
