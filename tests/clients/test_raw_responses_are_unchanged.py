"""What the SDKs hand over in raw form counts like what they parse themselves."""

from __future__ import annotations

import gc
import json
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from latspan import Source
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord
from tests.clients.conftest import Driver, with_every_sdk

MS = 1_000_000
GAP = 20 * MS

SAME = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m-2026"}
OPENAI_EVENTS: list[dict[str, Any]] = [
    {**SAME, "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]},
    {**SAME, "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": None}]},
    {**SAME, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**SAME, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
]
MESSAGE: dict[str, Any] = {
    "id": "c1",
    "type": "message",
    "role": "assistant",
    "model": "m-2026",
    "content": [],
}
TEXT = {"type": "content_block_delta", "index": 0}
ANTHROPIC_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 7}}},
    {**TEXT, "delta": {"type": "text_delta", "text": "Hi"}},
    {**TEXT, "delta": {"type": "text_delta", "text": "!"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]


def _events(driver: Driver) -> list[bytes]:
    """Return the same short answer in the shape of either API, with its end mark."""
    if driver.sdk.name == "openai":
        events = [f"data: {json.dumps(event)}\n\n" for event in OPENAI_EVENTS]
        return [event.encode() for event in (*events, "data: [DONE]\n\n")]
    return [
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        for event in ANTHROPIC_EVENTS
    ]


def _coded(parts: list[bytes], coding: str) -> list[bytes]:
    """Return the parts in a content coding, each of which can be decoded when it is in."""
    if coding == "identity":
        return parts
    packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    return [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts]


def _over_time(driver: Driver, parts: list[bytes], coding: str) -> Any:
    """Return a transport whose answer comes part by part, with a gap before each."""

    def body() -> Iterator[bytes]:
        for part in _coded(parts, coding):
            driver.clock.advance(GAP)
            yield part

    async def abody() -> AsyncIterator[bytes]:
        for part in body():
            yield part

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream", "content-encoding": coding}
        content = abody() if driver.asynchronous else body()
        return driver.http.Response(200, headers=headers, content=content)

    return driver.http.MockTransport(answer)


def _in_memory(driver: Driver, body: bytes, content_type: str) -> Any:
    """Return a transport whose answer is whole when it is handed over."""

    def answer(_: Any) -> Any:
        return driver.http.Response(200, headers={"content-type": content_type}, content=body)

    return driver.http.MockTransport(answer)


def _only(seen: Captured) -> tuple[RequestRecord, dict[str, Any]]:
    (record,) = seen.records
    (span,) = [span for span in seen.spans if span.kind.name == "CLIENT" and span.parent is None]
    return record, dict(span.attributes or {})


@with_every_sdk
@pytest.mark.parametrize("read", ["iter_lines", "iter_bytes", "iter_text"])
@pytest.mark.parametrize("coding", ["identity", "gzip", "deflate"])
def test_a_compressed_stream_is_read_as_it_is_decoded(
    driver: Driver, seen: Captured, coding: str, read: str
) -> None:
    """Each token arrives with the read whose bytes it was decoded from."""

    async def program(client: Any) -> None:
        raw = driver.sdk.resource_of(client).with_streaming_response
        asked = raw.create(**driver.sdk.asks, stream=True)
        if driver.asynchronous:
            async with asked as response:
                async for _ in getattr(response, read)():
                    pass
        else:
            with asked as response:
                for _ in getattr(response, read)():
                    pass

    driver.run(_over_time(driver, _events(driver), coding), program)
    record, said = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert (record.tokens.input, record.tokens.output) == (7, 2)
    assert [gap.value for gap in record.chunk_gaps] == [GAP]
    assert record.metrics["time_to_first_token"].source is Source.MEASURED
    assert said["gen_ai.response.model"] == "m-2026"


@with_every_sdk
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_bare_client_reads_a_compressed_stream(
    driver: Driver, seen: Captured, coding: str
) -> None:
    """It turns out to be a model's when its first event is decoded."""

    async def program(client: Any) -> None:
        sender = client._client
        asked = sender.stream("POST", f"{driver.sdk.base_url}/any", json={"model": "m"})
        if driver.asynchronous:
            async with asked as response:
                async for _ in response.aiter_lines():
                    pass
        else:
            with asked as response:
                for _ in response.iter_lines():
                    pass

    driver.run(_over_time(driver, _events(driver), coding), program)
    record, _ = _only(seen)
    assert (record.name, record.outcome) == ("chat m", Outcome.COMPLETED)
    assert (record.tokens.input, record.tokens.output) == (7, 2)


@with_every_sdk
@pytest.mark.parametrize("read", ["bytes", "lines", "raw"])
def test_a_body_that_is_left_as_its_loop_ends_is_closed_early(
    driver: Driver, seen: Captured, read: str
) -> None:
    """The loop cancels what closes the iterator; nobody cancelled the caller."""

    async def program(client: Any) -> Any:
        sender: Any = client._client
        request = sender.build_request(
            "POST", f"{driver.sdk.base_url}/any", json={"model": "m", "stream": True}
        )
        if driver.asynchronous:
            response = await sender.send(request, stream=True)
            async for _ in getattr(response, f"aiter_{read}")():
                break
        else:
            response = sender.send(request, stream=True)
            for _ in getattr(response, f"iter_{read}")():
                break
        return response

    response = driver.run(driver.sending(_events(driver)), program)
    del response
    gc.collect()
    record, _ = _only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY


@with_every_sdk
def test_a_compressed_stream_that_is_never_decoded_is_not_called_truncated(
    driver: Driver, seen: Captured
) -> None:
    """A proxy hands on the bytes as they are, and nothing was seen of their events."""

    async def program(client: Any) -> None:
        raw = driver.sdk.resource_of(client).with_streaming_response
        asked = raw.create(**driver.sdk.asks, stream=True)
        if driver.asynchronous:
            async with asked as response:
                async for _ in response.http_response.aiter_raw():
                    pass
        else:
            with asked as response:
                for _ in response.http_response.iter_raw():
                    pass

    driver.run(_over_time(driver, _events(driver), "gzip"), program)
    record, said = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert "error.type" not in said


@with_every_sdk
def test_a_raw_stream_that_is_in_memory_keeps_tokens_and_finish_reasons(
    driver: Driver, seen: Captured
) -> None:
    """A hook of the application's, or a transport of its own, has read it before."""

    async def program(client: Any) -> None:
        raw = driver.sdk.resource_of(client).with_raw_response
        answer = raw.create(**driver.sdk.asks, stream=True)
        if driver.asynchronous:
            await answer

    body = b"".join(_events(driver))
    driver.run(_in_memory(driver, body, "text/event-stream"), program)
    record, said = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert (record.tokens.input, record.tokens.output) == (7, 2)
    assert len(said["gen_ai.response.finish_reasons"]) == 1
    assert said["gen_ai.response.model"] == "m-2026"


@pytest.mark.parametrize("form", ["create", "with_raw_response", "with_streaming_response"])
def test_raw_embeddings_keep_model_and_tokens(driver: Driver, seen: Captured, form: str) -> None:
    """As those that the SDK parses, and its vectors are not parsed a second time."""
    vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
    body = {
        "object": "list",
        "data": [vector],
        "model": "e-2026",
        "usage": {"prompt_tokens": 5, "total_tokens": 5},
    }

    async def program(client: Any) -> None:
        resource = client.embeddings if form == "create" else getattr(client.embeddings, form)
        answer = resource.create(model="e", input="text", encoding_format="float")
        if form != "with_streaming_response":
            _ = await answer if driver.asynchronous else answer
        elif driver.asynchronous:
            async with answer as response:
                await response.read()
        else:
            with answer as response:
                response.read()

    driver.run(_in_memory(driver, json.dumps(body).encode(), "application/json"), program)
    record, said = _only(seen)
    assert (record.outcome, record.tokens.input) == (Outcome.COMPLETED, 5)
    assert said["gen_ai.response.model"] == "e-2026"
