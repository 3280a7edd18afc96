"""Whichever way of the SDK's a caller asks, it is one call with the same times."""

from __future__ import annotations

import gc
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script
from tests.clients.conftest import MESSAGES, Driver

MS = 1_000_000
SCRIPT = Script.chat(tokens=4, prefill_ms=60, gap_ms=10, flavor="plain")

Way = Callable[[Driver, Any], Awaitable[None]]

ASK: Any = {"model": "m", "messages": MESSAGES, "stream": True}


async def _now(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def _all(iterator: Any) -> list[Any]:
    if hasattr(iterator, "__aiter__"):
        return [each async for each in iterator]
    return list(iterator)


async def _created(driver: Driver, client: Any) -> None:
    assert await _all(await _now(client.chat.completions.create(**ASK)))


async def _helper(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.stream(model="m", messages=MESSAGES)
    async with driver.entered(manager) as stream:
        assert await _all(stream)
        final = await _now(stream.get_final_completion())
    assert final.choices[0].message.content


async def _raw_parsed(driver: Driver, client: Any) -> None:
    raw = await _now(client.chat.completions.with_raw_response.create(**ASK))
    assert raw.headers["content-type"] == "text/event-stream"
    assert await _all(raw.parse())


async def _held_parsed(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASK)
    async with driver.entered(manager) as response:
        assert await _all(await _now(response.parse()))


async def _held_lines(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASK)
    async with driver.entered(manager) as response:
        assert "data: [DONE]" in await _all(response.iter_lines())


async def _held_bytes(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASK)
    async with driver.entered(manager) as response:
        assert b"".join(await _all(response.iter_bytes())).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "ask", [_created, _helper, _raw_parsed, _held_parsed, _held_lines, _held_bytes]
)
def test_a_stream_is_followed_in_every_way_of_reading(
    driver: Driver, seen: Captured, ask: Way
) -> None:
    """The SDK's stream, its helper, or the bytes of a raw response: the same marks."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))
    (record,) = seen.records
    assert (record.kind, record.name) == (Kind.CALL, "chat m")
    assert record.outcome is Outcome.COMPLETED
    assert record.metrics["time_to_first_token"].value == 60 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 3
    assert record.duration_ns == 90 * MS
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns


async def _leave_helper(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.stream(model="m", messages=MESSAGES)
    async with driver.entered(manager) as stream:
        await _first_of(stream)
        driver.clock.advance(7 * MS)


async def _leave_held(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASK)
    async with driver.entered(manager) as response:
        await _first_of(response.iter_lines())
        driver.clock.advance(7 * MS)


async def _first_of(iterator: Any) -> None:
    if hasattr(iterator, "__aiter__"):
        async for _ in iterator:
            return
    for _ in iterator:
        return


@pytest.mark.parametrize("leave", [_leave_helper, _leave_held])
def test_leaving_with_ends_it(driver: Driver, seen: Captured, leave: Way) -> None:
    """At the exit, which is the close; what the caller did until then is the caller's."""
    driver.run(driver.transport(SCRIPT), lambda client: leave(driver, client))
    (record,) = seen.records
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == 67 * MS
    assert {total.name: total.duration_ns for total in record.segment_totals}["consumer"] == 7 * MS


async def _unread_raw(driver: Driver, client: Any) -> None:
    await _now(client.chat.completions.with_raw_response.create(**ASK))


async def _unread_held(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(**ASK)
    async with driver.entered(manager):
        driver.clock.advance(7 * MS)


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [(_unread_raw, Outcome.ABANDONED), (_unread_held, Outcome.CLOSED_EARLY)],
)
def test_a_raw_stream_that_is_not_read(
    driver: Driver, seen: Captured, ask: Way, outcome: Outcome
) -> None:
    """Dropped it is abandoned, and closed by ``with`` it was closed early."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))
    # A raw response and what read it may hold each other.
    gc.collect()
    (record,) = seen.records
    assert record.outcome is outcome


class Answer(BaseModel):
    """What a model is asked to fill in."""

    text: str


async def _parse(driver: Driver, client: Any) -> None:
    # The scripted text is no JSON of the model's: what the SDK raises is the caller's affair.
    with pytest.raises(Exception, match="Invalid JSON"):
        await _now(
            client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Answer)
        )


def _answering(driver: Driver, body: Any) -> Any:
    """Return a transport that answers with ``body`` in one piece."""

    def respond(_request: Any) -> Any:
        return driver.http.Response(200, json=body)

    return driver.http.MockTransport(respond)


async def _embedded(driver: Driver, client: Any) -> None:
    assert (await _now(client.embeddings.create(model="m", input="hello"))).data


async def _raw_embedded(driver: Driver, client: Any) -> None:
    raw = await _now(client.embeddings.with_raw_response.create(model="m", input="hello"))
    assert raw.parse().data


async def _held_embedded(driver: Driver, client: Any) -> None:
    manager = client.embeddings.with_streaming_response.create(model="m", input="hello")
    async with driver.entered(manager) as response:
        assert (await _now(response.parse())).data


@pytest.mark.parametrize("ask", [_embedded, _raw_embedded, _held_embedded])
def test_embeddings_are_one_call(driver: Driver, seen: Captured, ask: Way) -> None:
    """Their tokens are the provider's own, raw or not."""
    vector = {"object": "embedding", "index": 0, "embedding": [0.25, 0.5]}
    used = {"prompt_tokens": 7, "total_tokens": 7}
    answer = {"object": "list", "model": "m-1", "data": [vector], "usage": used}
    transport = _answering(driver, answer)
    driver.run(transport, lambda client: ask(driver, client))
    (record,) = seen.records
    assert (record.name, record.outcome) == ("embeddings m", Outcome.COMPLETED)
    assert (record.tokens.input, record.tokens.output) == (7, None)
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["gen_ai.response.model"] == "m-1"


@pytest.mark.parametrize(
    ("reason", "error"),
    [("length", "LengthFinishReasonError"), ("content_filter", "ContentFilterFinishReasonError")],
)
def test_an_answer_that_the_sdk_refuses_to_parse_has_its_tokens(
    driver: Driver, seen: Captured, reason: str, error: str
) -> None:
    """They were generated, and the exception holds them."""
    said = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": "{"}}
    used = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    answer = {"id": "a", "created": 1, "model": "m", "object": "chat.completion"}
    body = {**answer, "choices": [said], "usage": used}
    transport = _answering(driver, body)
    refused: Any = getattr(driver.errors, error)

    async def program(client: Any) -> None:
        with pytest.raises(refused) as raised:
            await _now(
                client.chat.completions.parse(model="m", messages=MESSAGES, response_format=Answer)
            )
        if getattr(raised.value, "completion", None) is None:
            pytest.skip("in this version the exception does not hold the completion")

    driver.run(transport, program)
    (record,) = seen.records
    assert record.outcome is Outcome.ERROR
    assert (record.tokens.input, record.tokens.output) == (7, 3)
    (span,) = [span for span in seen.spans if span.parent is None]
    assert (span.attributes or {})["gen_ai.response.finish_reasons"] == (reason,)


RESPONSE: dict[str, Any] = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "output": [],
}
GENERATED: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}},
    {"type": "response.output_text.delta", "delta": "one", "item_id": "i", "output_index": 0},
    {
        "type": "response.completed",
        "response": {
            **RESPONSE,
            "status": "completed",
            "usage": {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
        },
    },
]


async def _response_created(driver: Driver, client: Any) -> None:
    assert len(await _all(await _now(client.responses.create(model="m", input="x", stream=True))))


async def _response_retrieved(driver: Driver, client: Any) -> None:
    assert len(await _all(await _now(client.responses.retrieve("r", stream=True)))) == 3


@pytest.mark.parametrize(
    ("ask", "operation", "output", "token_ns"),
    [
        (_response_created, "chat", 3, 20 * MS),
        (_response_retrieved, "fetch_response", None, None),
    ],
)
def test_a_response_that_is_read_once_more_is_not_generated_again(
    driver: Driver,
    seen: Captured,
    ask: Way,
    operation: str,
    output: int | None,
    token_ns: int | None,
) -> None:
    """Its tokens are those of the call that created it."""
    pieces = [f"data: {json.dumps(event)}\n\n".encode() for event in GENERATED]
    driver.run(driver.sending(pieces), lambda client: ask(driver, client))
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.tokens.output == output
    first = record.metrics.get("time_to_first_token")
    assert (first and first.value) == token_ns
    (span,) = [span for span in seen.spans if span.parent is None]
    attributes = span.attributes or {}
    assert attributes["gen_ai.operation.name"] == operation
    assert attributes["gen_ai.response.id"] == "r"
    assert ("gen_ai.usage.output_tokens" in attributes) is (output is not None)


async def _whole(driver: Driver, client: Any) -> None:
    answer = await _now(client.chat.completions.create(model="m", messages=MESSAGES))
    assert answer.choices[0].message.content


async def _raw_whole(driver: Driver, client: Any) -> None:
    raw = await _now(client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES))
    assert raw.parse().choices[0].message.content


async def _held_whole(driver: Driver, client: Any) -> None:
    manager = client.chat.completions.with_streaming_response.create(model="m", messages=MESSAGES)
    async with driver.entered(manager) as response:
        assert (await _now(response.parse())).choices[0].message.content


@pytest.mark.parametrize(
    ("ask", "outcome", "counted"),
    [
        (_whole, Outcome.COMPLETED, 4),
        (_raw_whole, Outcome.COMPLETED, 4),
        (_held_whole, Outcome.COMPLETED, 4),
        (_parse, Outcome.ERROR, None),
    ],
)
def test_an_answer_in_one_piece_is_one_call(
    driver: Driver, seen: Captured, ask: Way, outcome: Outcome, counted: int | None
) -> None:
    """Its tokens are the provider's own, raw or not."""
    driver.run(driver.transport(SCRIPT), lambda client: ask(driver, client))
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, outcome)
    assert record.tokens.output == counted
