"""Tokens are counted, and spans say what was said, only where somebody asks for it."""

from __future__ import annotations

import json
import threading
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import latspan
from latspan import Source, TokenSource
from latspan._live.operations import abandon_open_operations
from latspan._live.operations._open_operations import open_operations
from latspan._live.otel.spans import ApiSink
from latspan._live.process.worker import Worker
from latspan._model.tokens import Estimator
from latspan._model.wire import Content
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script, TokenCounts, capture
from support.encodings import BYTES
from tests.clients.conftest import MESSAGES, Driver, Leave, asked_for

pytestmark = pytest.mark.any_client

MS = 1_000_000
PLAIN = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")
TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.definitions",
    "gen_ai.system_instructions",
)
PROMPT = 3 + 4 + len("hello")
ANSWER = len("text0 text1 text2 text3 text4 ")


def counting() -> AbstractContextManager[None]:
    """Have tokens counted inside the block."""
    estimator = Estimator({"o200k_base": BYTES})

    def count(content: Content, model: str | None) -> TokenCounts:
        return estimator.counts(content, model=model)

    return asked_for(count_tokens=count)


def _only(seen: Captured) -> RequestRecord:
    (record,) = seen.records
    return record


def _attributes(seen: Captured) -> dict[str, Any]:
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    return dict(span.attributes or {})


def test_a_stream_without_usage_is_estimated(driver: Driver, seen: Captured) -> None:
    """And so is the pace that rests on the count."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    with counting():
        driver.run(driver.transport(PLAIN), program)

    record = _only(seen)
    assert record.tokens == TokenCounts(input=PROMPT, output=ANSWER, source=TokenSource.ESTIMATED)
    pace = record.metrics["time_per_output_token"]
    assert (pace.value, pace.source) == (round(40 * MS / (ANSWER - 1)), Source.ESTIMATED)
    attributes = _attributes(seen)
    assert attributes["latspan.token_source"] == "estimated"
    assert "latspan.time_per_output_token" in attributes["latspan.estimated_attributes"]
    assert seen.snapshot().metric("gen_ai.client.token.usage", kind="call").count() == 2


def test_what_came_before_a_break_is_estimated(driver: Driver, seen: Captured) -> None:
    """The provider's count comes at the end, which nobody saw."""

    def visit(chunk: Any) -> None:
        if "text1" in str(chunk.choices[0].delta.content):
            raise Leave

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, visit)
        await driver.close(stream)

    with counting():
        driver.run(driver.transport(PLAIN), program)

    record = _only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.tokens.output == len("text0 text1 ")


@pytest.mark.parametrize("stream", [False, True])
def test_the_providers_count_comes_first(driver: Driver, seen: Captured, *, stream: bool) -> None:
    """Counting adds nothing to it."""
    options: Any = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}

    async def program(client: Any) -> None:
        answer = await driver.create(client, **options)
        if stream:
            await driver.read(answer)

    with counting():
        driver.run(driver.transport(PLAIN), program)

    record = _only(seen)
    assert (record.tokens.source, record.tokens.output) == (TokenSource.PROVIDER, 5)


def test_a_request_without_a_response_used_no_tokens(driver: Driver, seen: Captured) -> None:
    """There is nothing to count."""

    async def program(client: Any) -> None:
        with pytest.raises(Exception, match="too many requests"):
            await driver.create(client, stream=True)

    with counting():
        driver.run(driver.transport(Script.refused(429)), program)

    assert _only(seen).tokens == TokenCounts()


def test_by_default_nothing_is_kept_counted_or_captured(driver: Driver, seen: Captured) -> None:
    """A call that is being read holds no word, however many it has had."""
    held: list[tuple[Any, Any, int]] = []
    # Streams that other tests left are open until they are garbage collected.
    others = set(open_operations)

    def visit(_: Any) -> None:
        # The one way to see what a call holds while it is open.
        (call,) = [call for call in open_operations if call not in others]
        held.append((call.gathered, call.request, len(call.parts)))

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True), visit)

    driver.run(driver.transport(PLAIN), program)

    # The role, no word, and the end.
    assert held == [(None, None, parts) for parts in (1, 1, 1, 1, 1, 1, 2)]
    assert _only(seen).tokens == TokenCounts()
    assert not any(name in _attributes(seen) for name in CONTENT)


@pytest.mark.parametrize("stream", [False, True])
def test_a_span_has_the_captured_content(driver: Driver, seen: Captured, *, stream: bool) -> None:
    """In the shape of the conventions, streamed or not."""
    script = Script.chat(
        tokens=2, reasoning_tokens=1, tool_call_tokens=1, prefill_ms=1, gap_ms=1, flavor="plain"
    )

    async def program(client: Any) -> None:
        answer = await driver.create(client, stream=stream, tools=TOOLS)
        if stream:
            await driver.read(answer)

    with asked_for(captures_content=True):
        driver.run(driver.transport(script), program)

    attributes = {name: json.loads(_attributes(seen).get(name, "null")) for name in CONTENT}
    assert attributes["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    ]
    assert attributes["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "reasoning0 "},
                {"type": "text", "content": "text0 text1 "},
                {
                    "type": "tool_call",
                    "id": "call_0",
                    "name": "look_up",
                    "arguments": {"words": "tool_call0 "},
                },
            ],
            "finish_reason": "tool_call",
        }
    ]
    assert attributes["gen_ai.tool.definitions"] == [
        {"type": "function", "name": "look_up", "description": None, "parameters": {}}
    ]


@pytest.mark.parametrize("outcome", [Outcome.CLOSED_EARLY, Outcome.COMPLETED])
def test_a_message_that_was_left_has_a_finish_reason(
    driver: Driver, seen: Captured, outcome: Outcome
) -> None:
    """The schema of the conventions requires one; the span's own attribute is not guessed."""
    is_left = outcome is Outcome.CLOSED_EARLY

    def visit(chunk: Any) -> None:
        if is_left and "text1" in str(chunk.choices[0].delta.content):
            raise Leave

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, visit)
        await driver.close(stream)

    with asked_for(captures_content=True):
        driver.run(driver.transport(PLAIN), program)

    assert _only(seen).outcome is outcome
    attributes = _attributes(seen)
    (message,) = json.loads(attributes["gen_ai.output.messages"])
    assert message["finish_reason"] == ("error" if is_left else "stop")
    assert ("gen_ai.response.finish_reasons" in attributes) is not is_left


INSTRUCTIONS: Any = [{"type": "message", "role": "system", "content": "Be brief."}]
STORED: dict[str, Any] = {
    "id": "r1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "id": "i1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hello", "annotations": []}],
        }
    ],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("instructions", ["Be brief.", INSTRUCTIONS], ids=["text", "items"])
def test_a_stored_response_has_its_content_but_no_tokens(
    driver: Driver, seen: Captured, instructions: Any, *, stream: bool
) -> None:
    """It repeats its instructions, and its tokens belong to the request that generated it."""
    stored = {**STORED, "instructions": instructions}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**stored, "status": "in_progress", "output": []}},
        {
            "type": "response.output_text.delta",
            "item_id": "i1",
            "output_index": 0,
            "content_index": 0,
            "delta": "hello",
        },
        {"type": "response.completed", "response": stored},
    ]

    async def program(client: Any) -> None:
        options: Any = {"stream": True} if stream else {}
        response = client.responses.retrieve("r1", **options)
        response = await response if driver.asynchronous else response
        if stream:
            await driver.read(response)

    def respond(_request: Any) -> Any:
        if not stream:
            return driver.http.Response(200, json=stored)
        body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
        headers = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=headers, content=body.encode())

    with asked_for(captures_content=True), counting():
        driver.run(driver.http.MockTransport(respond), program)

    assert _only(seen).tokens == TokenCounts()
    (span,) = [span for span in seen.spans if span.name == "fetch_response"]
    attributes = span.attributes or {}
    content = {name: json.loads(str(attributes[name])) for name in CONTENT if name in attributes}
    assert content == {
        "gen_ai.output.messages": [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": "hello"}],
                "finish_reason": "stop",
            }
        ],
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
    }


def sink_of_an_application(ended: list[tuple[str, str]]) -> ApiSink:
    """Return a sink under a provider that lists the name and the thread of each ended span."""

    class Listing(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            ended.append((span.name, threading.current_thread().name))

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Listing())
    return ApiSink(provider.get_tracer("test"))


def test_under_an_applications_provider_it_is_done_on_latspans_thread(driver: Driver) -> None:
    """A caller's thread has better to do, so its spans end a little later than without."""
    ended: list[tuple[str, str]] = []
    sink = sink_of_an_application(ended)
    worker = Worker()

    async def program(client: Any) -> None:
        with latspan.request("around"):
            await driver.read(await driver.create(client, stream=True))

    with (
        capture(clock=driver.clock) as seen,
        asked_for(captures_content=True, sink=lambda: sink, enqueue=worker.submit),
    ):
        driver.run(driver.transport(PLAIN), program)
        assert worker.stop(30)

    assert {name for name, _ in ended} >= {"chat m", "around"}
    assert {thread for _, thread in ended} == {"latspan-worker"}
    # The request around it knows the call's segments all the same.
    parent_context = next(record for record in seen.records if record.name == "around")
    assert "decode" in {segment.name for segment in parent_context.segments}


def test_a_call_without_content_or_event_ends_on_the_callers_thread(driver: Driver) -> None:
    """An application without a batch processor has the span when the call returns."""
    ended: list[tuple[str, str]] = []
    sink = sink_of_an_application(ended)
    worker = Worker()

    async def program(client: Any) -> None:
        answer = client.embeddings.create(model="m", input="hello")
        assert await answer if driver.asynchronous else answer

    def emit(*_: object) -> None:
        pytest.fail("embeddings have no event")

    settings: Any = {"captures_in_events": True, "emit": emit}
    with (
        capture(clock=driver.clock),
        asked_for(sink=lambda: sink, enqueue=worker.submit, **settings),
    ):
        driver.run(driver.transport(PLAIN), program)
        assert [name for name, _ in ended if name == "embeddings m"]
        assert worker.stop(30)

    assert {thread for name, thread in ended if name == "embeddings m"} == {
        threading.current_thread().name
    }


def test_what_the_caller_does_to_its_messages_later_is_not_captured(
    driver: Driver, seen: Captured
) -> None:
    """A conversation goes on in the same list."""
    messages = [dict(message) for message in MESSAGES]

    async def program(client: Any) -> None:
        stream = client.chat.completions.create(model="m", messages=messages, stream=True)
        stream = await stream if driver.asynchronous else stream
        messages[0]["content"] = "changed"
        messages.append({"role": "user", "content": "later"})
        await driver.read(stream)

    with asked_for(captures_content=True):
        driver.run(driver.transport(PLAIN), program)

    (message,) = json.loads(_attributes(seen)["gen_ai.input.messages"])
    assert message["parts"] == [{"type": "text", "content": "hello"}]


def test_messages_that_can_be_read_only_once_are_captured_as_they_are_sent(
    driver: Driver, seen: Captured
) -> None:
    """The client library reads an iterator, so it is the request's body that has them."""

    async def program(client: Any) -> None:
        messages = (dict(message) for message in MESSAGES)
        stream = client.chat.completions.create(model="m", messages=messages, stream=True)
        await driver.read(await stream if driver.asynchronous else stream)

    with asked_for(captures_content=True):
        driver.run(driver.transport(PLAIN), program)

    (message,) = json.loads(_attributes(seen)["gen_ai.input.messages"])
    assert message["parts"] == [{"type": "text", "content": "hello"}]


def test_a_request_that_cannot_be_copied_costs_its_content_alone(
    driver: Driver, seen: Captured
) -> None:
    """The call ends once, and nothing of it stays open."""
    asked_before: list[bool] = []

    class Odd(dict[str, Any]):
        def items(self) -> Any:
            """Refuse the first who asks, which is latspan."""
            if not asked_before:
                asked_before.append(True)
                raise ZeroDivisionError
            return super().items()

    async def program(client: Any) -> None:
        stream = client.chat.completions.create(
            model="m", messages=[Odd(message) for message in MESSAGES], stream=True
        )
        await driver.read(await stream if driver.asynchronous else stream)

    with asked_for(captures_content=True, strict=False):
        driver.run(driver.transport(PLAIN), program)
    abandon_open_operations()

    assert _only(seen).outcome is Outcome.COMPLETED
    assert "text0" in _attributes(seen)["gen_ai.output.messages"]
