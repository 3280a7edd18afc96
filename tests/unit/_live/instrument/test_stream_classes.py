"""Streams of other libraries than the SDKs that have an integration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from latspan._live.instrument import Patches, open_call, patch_stream, track_stream
from latspan._live.operations import ModelCall
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.testing import Captured


def _chunks() -> Iterator[Any]:
    for content, reason in (("Hi", None), ("!", None), (None, "stop")):
        delta = SimpleNamespace(
            content=content, refusal=None, tool_calls=None, function_call=None, model_extra=None
        )
        choice = SimpleNamespace(index=0, delta=delta, finish_reason=reason)
        yield SimpleNamespace(choices=[choice], usage=None, model="m", model_extra=None)


class OwnIterator:
    """Iterates as mistralai's event stream does: over itself, and closes with its exit alone."""

    def __init__(self) -> None:
        self.chunks = _chunks()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self.chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class AsyncOwnIterator:
    """The same asynchronously."""

    def __init__(self) -> None:
        self.chunks = _chunks()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        for chunk in self.chunks:
            return chunk
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class OnlyIterates:
    """Iterates and closes as botocore's event stream does, without ``__next__`` or ``with``."""

    def __init__(self) -> None:
        self.chunks = _chunks()

    def __iter__(self) -> Iterator[Any]:
        yield from self.chunks

    def close(self) -> None:
        """Close nothing."""


class AsyncOnlyIterates:
    """The same asynchronously."""

    def __init__(self) -> None:
        self.chunks = _chunks()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        """Close nothing."""


KINDS = [(OwnIterator, AsyncOwnIterator), (OnlyIterates, AsyncOnlyIterates)]


@pytest.fixture(params=KINDS, ids=["own iterator", "only iterates"])
def kinds(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    patches = Patches()
    for cls in request.param:
        patch_stream(patches, cls)
    yield request.param
    patches.restore()


def _followed(stream: Any) -> Any:
    call = open_call(
        operation="chat", provider="x", model="m", api_format=OPENAI_CHAT, streamed=True
    )
    assert isinstance(call, ModelCall)
    call.returned()
    track_stream(call, stream)
    return stream


async def _read(stream: Any) -> int:
    if hasattr(stream, "__aiter__"):
        return len([chunk async for chunk in stream])
    return len(list(stream))


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_a_stream_that_is_not_followed_iterates_as_before(
    kinds: tuple[Any, Any], seen: Captured, kind: int
) -> None:
    """Its class is hooked for all of its objects."""
    stream = kinds[kind]()
    assert asyncio.run(_read(stream)) == 3
    assert seen.records == ()


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_a_stream_with_few_methods_is_followed_to_its_end(
    kinds: tuple[Any, Any], seen: Captured, kind: int
) -> None:
    """Only the methods that a class has are hooked."""
    stream = _followed(kinds[kind]())
    assert asyncio.run(_read(stream)) == 3
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 1


def test_a_stream_that_is_its_own_iterator_is_handed_out_as_such(seen: Captured) -> None:
    """``iter(stream) is stream``, hooked or not."""
    patches = Patches()
    for cls in (OwnIterator, AsyncOwnIterator):
        patch_stream(patches, cls)
    stream, astream = OwnIterator(), AsyncOwnIterator()
    assert iter(stream) is stream
    assert aiter(astream) is astream
    patches.restore()


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_the_exit_of_a_stream_without_a_close_is_its_end(seen: Captured, kind: int) -> None:
    """It closes the response past the stream."""
    patches = Patches()
    for cls in (OwnIterator, AsyncOwnIterator):
        patch_stream(patches, cls)

    async def program() -> None:
        if kind == 0:
            with _followed(OwnIterator()) as stream:
                next(stream)
        else:
            async with _followed(AsyncOwnIterator()) as stream:
                await anext(stream)

    asyncio.run(program())
    patches.restore()
    (record,) = seen.records
    assert record.outcome is Outcome.CLOSED_EARLY


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_the_close_of_a_stream_without_with_is_its_end(seen: Captured, kind: int) -> None:
    """By whichever name it has."""
    patches = Patches()
    for cls in (OnlyIterates, AsyncOnlyIterates):
        patch_stream(patches, cls)

    async def program() -> None:
        if kind == 0:
            stream = _followed(OnlyIterates())
            next(iter(stream))
            stream.close()
        else:
            stream = _followed(AsyncOnlyIterates())
            await anext(aiter(stream))
            await stream.aclose()

    asyncio.run(program())
    patches.restore()
    (record,) = seen.records
    assert record.outcome is Outcome.CLOSED_EARLY
