"""Methods of SDKs that have no integration of latspan's: every kind of function and result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from latspan._live.operations import active_operation
from latspan.integrations import Call, Outcome, Patches, open_call, patch_method, patch_stream
from latspan.integrations.formats import ApiFormat, ChunkKind, Usage
from latspan.testing import Captured, capture


@dataclass
class Chunk:
    """A chunk or a response of the SDK."""

    text: str
    done: bool = False

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the fields."""
        return {"text": self.text, "done": self.done}


FORMAT = ApiFormat(
    name="acme.chat",
    operation="chat",
    classify_chunk=lambda chunk: int(ChunkKind.VISIBLE if chunk.text else ChunkKind.EMPTY),
    usage=lambda bodies: Usage(input=3, output=len(list(bodies))),
    finish_reasons=lambda bodies: {0: "stop" if any(body["done"] for body in bodies) else None},
)

CHUNKS = (Chunk("a"), Chunk("b"), Chunk("", done=True))


class Events:
    """A stream that iterates as botocore's does."""

    def __iter__(self) -> Iterator[Chunk]:
        yield from CHUNKS


def _generate() -> Generator[Chunk]:
    yield from CHUNKS


async def _generate_async() -> AsyncGenerator[Chunk]:
    for chunk in CHUNKS:
        yield chunk


class Sdk:
    """One method of each kind. Each records the call that is open while its request is sent."""

    def __init__(self) -> None:
        self.sent_in: list[object] = []
        self.was_closed = False

    def _send(self) -> None:
        self.sent_in.append(active_operation())

    def complete(self, model: str) -> Chunk:
        """Return a complete response."""
        del model
        self._send()
        return Chunk("ab", done=True)

    async def complete_async(self, model: str) -> Chunk:
        """Return a complete response."""
        del model
        self._send()
        return Chunk("ab", done=True)

    def stream(self, model: str) -> Generator[Chunk]:
        """Send the request at the first read."""
        del model
        self._send()
        try:
            yield from CHUNKS
        finally:
            self.was_closed = True

    async def stream_async(self, model: str) -> AsyncGenerator[Chunk]:
        """Send the request at the first read."""
        del model
        self._send()
        try:
            for chunk in CHUNKS:
                yield chunk
        finally:
            self.was_closed = True

    def opened(self, model: str) -> Iterator[Chunk]:
        """Send the request, and return a generator."""
        del model
        self._send()
        return _generate()

    async def opened_async(self, model: str) -> AsyncIterator[Chunk]:
        """Send the request, and return an asynchronous generator."""
        del model
        self._send()
        return _generate_async()

    def inside(self, model: str) -> dict[str, Any]:
        """Return a dictionary that holds the stream."""
        del model
        self._send()
        return {"status": 200, "stream": Events()}

    def fails(self, model: str) -> Chunk:
        """Raise."""
        raise LookupError(model)


def _open(instance: object, arguments: Mapping[str, Any]) -> Call | None:
    assert isinstance(instance, Sdk)
    return open_call(
        operation="chat",
        provider="acme",
        model=arguments["model"],
        api_format=FORMAT,
        server="https://acme.example/v1",
        streamed=True,
    )


@pytest.fixture(autouse=True)
def patches() -> Iterator[Patches]:
    patches = Patches()
    patch_stream(patches, Events)
    for name in ("complete", "complete_async", "stream", "stream_async", "opened", "opened_async"):
        patch_method(patches, Sdk, name, _open, positional=("model",))
    patch_method(patches, Sdk, "fails", _open, positional=("model",))
    patch_method(
        patches, Sdk, "inside", _open, positional=("model",), stream_of=lambda r: r["stream"]
    )
    yield patches
    patches.restore()


async def _result(sdk: Sdk, name: str) -> Any:
    result = getattr(sdk, name)("m")
    return await result if inspect.isawaitable(result) else result


async def _read(stream: Any, first: int | None = None) -> list[Chunk]:
    """Read a stream, or its first chunks only."""
    chunks: list[Chunk] = []
    if hasattr(stream, "__aiter__"):
        async for chunk in stream:
            chunks.append(chunk)
            if len(chunks) == first:
                break
    else:
        for chunk in stream:
            chunks.append(chunk)
            if len(chunks) == first:
                break
    return chunks


STREAMS = ["stream", "stream_async", "opened", "opened_async"]


@pytest.mark.parametrize("name", ["complete", "complete_async"])
def test_a_complete_response_ends_its_call(seen: Captured, name: str) -> None:
    sdk = Sdk()
    assert asyncio.run(_result(sdk, name)) == Chunk("ab", done=True)
    (record,) = seen.records
    assert (record.name, record.outcome) == ("chat m", Outcome.COMPLETED)
    assert record.tokens is not None
    assert (record.tokens.input, record.tokens.output) == (3, 1)
    assert len(sdk.sent_in) == 1
    assert sdk.sent_in[0] is not None


@pytest.mark.parametrize("name", STREAMS)
def test_a_generator_is_tracked_to_its_end(seen: Captured, name: str) -> None:
    """The request is sent inside the call, at the return of the method or at the first read."""
    sdk = Sdk()

    async def program() -> list[Chunk]:
        stream = await _result(sdk, name)
        assert inspect.isgenerator(stream) or inspect.isasyncgen(stream)
        chunks = await _read(stream)
        assert active_operation() is None
        return chunks

    assert asyncio.run(program()) == list(CHUNKS)
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 1
    assert "time_to_first_token" in record.metrics
    assert sdk.sent_in[0] is not None


@pytest.mark.parametrize("name", STREAMS)
def test_a_generator_that_is_left_is_closed_early(seen: Captured, name: str) -> None:
    """Its source is closed as it would be without latspan."""
    sdk = Sdk()

    async def program() -> None:
        stream = await _result(sdk, name)
        assert len(await _read(stream, first=2)) == 2
        if hasattr(stream, "aclose"):
            await stream.aclose()
        else:
            stream.close()
        (record,) = seen.records
        assert record.outcome is Outcome.CLOSED_EARLY

    asyncio.run(program())
    assert sdk.was_closed or name.startswith("opened")


@pytest.mark.parametrize("name", ["opened", "opened_async"])
def test_a_generator_that_is_never_read_is_abandoned(seen: Captured, name: str) -> None:
    asyncio.run(_result(Sdk(), name))
    (record,) = seen.records
    assert record.outcome is Outcome.ABANDONED


@pytest.mark.parametrize("name", ["stream", "stream_async"])
def test_a_request_that_is_never_sent_is_no_call(seen: Captured, name: str) -> None:
    """A generator function sends its request at the first read."""
    asyncio.run(_result(Sdk(), name))
    assert seen.records == ()


@pytest.mark.parametrize("name", ["stream", "stream_async", "complete", "complete_async"])
def test_wrong_arguments_raise_at_the_call_of_the_method(seen: Captured, name: str) -> None:
    with pytest.raises(TypeError, match="colour"):
        getattr(Sdk(), name)("m", colour="red")
    assert [record.outcome for record in seen.records] == [Outcome.ERROR] * (name == "complete")


def test_a_stream_inside_the_result_is_tracked(seen: Captured) -> None:
    result = Sdk().inside("m")
    assert result["status"] == 200
    assert seen.records == ()
    assert list(result["stream"]) == list(CHUNKS)
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED


def test_an_exception_ends_the_call(seen: Captured) -> None:
    with pytest.raises(LookupError, match="m"):
        Sdk().fails("m")
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR


def test_a_format_that_raises_changes_nothing_for_the_application(
    monkeypatch: pytest.MonkeyPatch, patches: Patches
) -> None:
    """It is code of another distribution, and is called for each chunk."""
    broken = ApiFormat(name="broken", operation="chat", classify_chunk=lambda _: 1 // 0)

    def open_broken(instance: object, arguments: Mapping[str, Any]) -> Call | None:
        del instance, arguments
        return open_call(
            operation="chat", provider="acme", model=None, api_format=broken, streamed=True
        )

    patches.restore()
    ours = Patches()
    patch_method(ours, Sdk, "stream", open_broken, positional=("model",))
    monkeypatch.setattr("latspan.testing._capture.raises_bugs", False)
    with capture() as seen:
        assert list(Sdk().stream("m")) == list(CHUNKS)
    ours.restore()
    assert [record.outcome for record in seen.records] == [Outcome.COMPLETED]


def test_the_patches_are_removed_exactly(patches: Patches) -> None:
    assert hasattr(Events, "_latspan_stream")
    patches.restore()
    assert not hasattr(Events, "_latspan_stream")
    assert Sdk.stream.__code__.co_filename == __file__


class Unhooked(Events):
    """A stream whose class the integration has forgotten."""


class Forgetful(Sdk):
    """An SDK whose integration does not hook its stream class."""

    def unhooked(self, model: str) -> Unhooked:
        """Return a stream."""
        del model
        return Unhooked()


def test_a_stream_of_an_unknown_class_is_named(
    patches: Patches, caplog: pytest.LogCaptureFixture
) -> None:
    patches.restore()
    ours = Patches()
    patch_method(ours, Forgetful, "unhooked", _open, positional=("model",))
    with capture() as seen:
        assert list(Forgetful().unhooked("m")) == list(CHUNKS)
    ours.restore()
    assert f"must call patch_stream(patches, {__name__}.Unhooked)" in caplog.text
    assert [record.outcome for record in seen.records] == [Outcome.COMPLETED]


def test_a_function_that_opens_no_call_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, patches: Patches
) -> None:
    """It may return anything: the application gets its result."""
    patches.restore()
    ours = Patches()

    def wrong(instance: object, arguments: Mapping[str, Any]) -> Any:
        del instance
        return arguments

    patch_method(ours, Sdk, "complete", wrong, positional=("model",))
    patch_method(ours, Sdk, "stream", wrong, positional=("model",))
    monkeypatch.setattr("latspan.testing._capture.raises_bugs", False)
    with capture() as seen:
        assert Sdk().complete("m") == Chunk("ab", done=True)
        assert list(Sdk().stream("m")) == list(CHUNKS)
    ours.restore()
    assert seen.records == ()


def _nonsense(value: Any) -> Any:
    def function(_: object) -> Any:
        return value

    return function


@pytest.mark.parametrize(
    "broken",
    [
        {"finish_reasons": _nonsense(["stop"])},
        {"usage": _nonsense({"input": 3})},
        {"classify_chunk": _nonsense("VISIBLE")},
    ],
    ids=["finish reasons", "usage", "classify_chunk"],
)
def test_a_function_of_a_format_that_returns_nonsense_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, patches: Patches, broken: dict[str, Any]
) -> None:
    patches.restore()
    api_format = replace(FORMAT, **broken)

    def open_broken(instance: object, arguments: Mapping[str, Any]) -> Call | None:
        del instance, arguments
        return open_call(
            operation="chat", provider="acme", model="m", api_format=api_format, streamed=True
        )

    ours = Patches()
    patch_method(ours, Sdk, "stream", open_broken, positional=("model",))
    monkeypatch.setattr("latspan.testing._capture.raises_bugs", False)
    with capture() as seen:
        assert list(Sdk().stream("m")) == list(CHUNKS)
    ours.restore()
    (record,) = seen.records
    known = (
        "time_to_first_token" in record.metrics,
        record.tokens.output is not None,
        record.outcome is Outcome.COMPLETED,
    )
    assert known == (
        "classify_chunk" not in broken,
        "usage" not in broken,
        "finish_reasons" not in broken,
    )
