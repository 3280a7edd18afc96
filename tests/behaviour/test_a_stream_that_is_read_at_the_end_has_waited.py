"""A caller that waits for a chunk when latspan ends has waited; a caller that works has not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk

import latspan
from latspan._live.instrument import StreamTracker, aiter_tracked, iter_tracked, open_call
from latspan._live.operations import ModelCall
from latspan._live.process.runtime import current_runtime
from latspan._model.recording import RequestRecord
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from support.receivers import receiving

CHUNK = ChatCompletionChunk.model_validate(
    {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}],
    }
)


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Record every call, and shut latspan down afterwards."""
    with receiving() as receiver:
        monkeypatch.setenv("LATSPAN_ENDPOINT", receiver.url)
        latspan.configure(keep_records=None)
        yield
        latspan.shutdown()


def tracker() -> StreamTracker:
    call = open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    found = StreamTracker(call)
    call.returned()
    return found


def record_after(end: Callable[[], None]) -> RequestRecord:
    """End latspan, and return the record of the only call."""
    runtime = current_runtime()
    assert runtime is not None
    end()
    (record,) = runtime.recorder.snapshot().records
    assert record.outcome is Outcome.ABANDONED
    return record


def last_segment(record: RequestRecord) -> str:
    return record.segments[-1].name


@pytest.mark.parametrize("chunks", [0, 2])
def test_a_thread_that_waits_for_a_chunk(chunks: int) -> None:
    """Its last wait is the server's; before, it was taken for work of the application."""
    waits, goes_on = threading.Event(), threading.Event()

    def source() -> Iterator[Any]:
        for _ in range(chunks):
            yield CHUNK
        waits.set()
        goes_on.wait()
        yield CHUNK

    read: list[Any] = []
    thread = threading.Thread(
        target=lambda: read.extend(iter_tracked(source(), tracker(), stream=None))
    )
    thread.start()
    waits.wait()

    record = record_after(latspan.shutdown)
    goes_on.set()
    thread.join()

    assert last_segment(record) == "server_wait"
    assert len(record.chunk_gaps) == max(0, chunks - 1)
    assert (record.open_gap_ns is None) == (chunks == 0)
    assert len(read) == chunks + 1


def test_a_task_that_waits_for_a_chunk() -> None:
    """An asynchronous generator is suspended inside its read."""

    async def source() -> AsyncIterator[Any]:
        yield CHUNK
        waits.set()
        await goes_on.wait()

    async def read() -> int:
        return len([chunk async for chunk in aiter_tracked(source(), tracker(), stream=None)])

    async def main() -> None:
        reading = asyncio.create_task(read())
        await waits.wait()
        record = record_after(latspan.shutdown)
        goes_on.set()
        assert await reading == 1
        assert last_segment(record) == "server_wait"

    waits, goes_on = asyncio.Event(), asyncio.Event()
    asyncio.run(main())


def test_a_caller_that_holds_the_stream() -> None:
    """What it does with a chunk is its own work."""
    stream = iter_tracked(iter([CHUNK, CHUNK]), tracker(), stream=None)
    next(stream)

    record = record_after(latspan.shutdown)

    assert last_segment(record) == "consumer"
    assert len(list(stream)) == 1
