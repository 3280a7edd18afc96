"""A call has exactly the attributes that the conventions name, and those the official one sets."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

import latspan
from latspan import semconv
from latspan.integrations import Outcome
from latspan.testing import Captured
from tests.clients.conftest import MESSAGES, Driver

HOST = {"server.address": "model.test", "server.port": 443}


PLACE = '{"name": "here"}'


class Place(BaseModel):
    """A type to parse an answer into."""

    name: str


@dataclass(frozen=True)
class Asked:
    """
    One request, its answer, and what its span has.

    Args:
        method: Where the SDK has it.
        arguments: What it is called with.
        answer: The body that the server sends; a list is a stream of events.
        expected: The attributes of the span that are not latspan's own.
        name: The span's name.
        official: Whether the official instrumentation patches the method.
    """

    method: str
    arguments: Mapping[str, Any]
    answer: Any
    expected: Mapping[str, Any]
    name: str = "chat m"
    official: bool = True
    positional: tuple[Any, ...] = field(default=())


def _chat(*reasons: str | None, **more: Any) -> dict[str, Any]:
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": PLACE},
            "finish_reason": reason,
        }
        for index, reason in enumerate(reasons)
    ]
    head = {"id": "a1", "object": "chat.completion", "created": 1, "model": "m-1"}
    return {**head, "choices": choices, **more}


def _response(*items: Any, **more: Any) -> dict[str, Any]:
    head: dict[str, Any] = {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m-1",
        "tools": [],
    }
    said = {"status": "completed", "parallel_tool_calls": True, "tool_choice": "auto"}
    return {**head, **said, "error": None, "output": list(items), **more}


TEXT: dict[str, Any] = {
    "type": "message",
    "id": "t1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "hi", "annotations": []}],
}
CALLED = {
    "type": "function_call",
    "id": "f1",
    "call_id": "c1",
    "name": "look_up",
    "arguments": "{}",
    "status": "completed",
}
COMPACTED = {"type": "compaction", "id": "k1", "encrypted_content": "x"}
USAGE = {
    "input_tokens": 7,
    "output_tokens": 3,
    "total_tokens": 10,
    "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
    "output_tokens_details": {"reasoning_tokens": 1},
}

OF_CHATS = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "m",
    "gen_ai.response.model": "m-1",
    "gen_ai.response.id": "a1",
    "gen_ai.response.finish_reasons": ("stop",),
    "openai.api.type": "chat_completions",
    **HOST,
}
OF_RESPONSES = {**OF_CHATS, "gen_ai.response.id": "r1", "openai.api.type": "responses"}
CHAT = "chat.completions.create"
ASK = {"model": "m", "messages": MESSAGES}

CALLS: dict[str, Asked] = {
    "whatever a chat may say": Asked(
        CHAT,
        {
            **ASK,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 5,
            "max_completion_tokens": 9,
            "seed": 4,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "stop": ["a", "b"],
            "n": 2,
            "reasoning_effort": "low",
            "service_tier": "flex",
            "response_format": {"type": "json_object"},
        },
        _chat(
            "stop",
            "length",
            service_tier="default",
            system_fingerprint="fp",
            usage={
                "prompt_tokens": 7,
                "completion_tokens": 3,
                "total_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 2},
            },
        ),
        {
            **OF_CHATS,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.request.seed": 4,
            "gen_ai.request.frequency_penalty": 0.1,
            "gen_ai.request.presence_penalty": 0.2,
            "gen_ai.request.stop_sequences": ("a", "b"),
            "gen_ai.request.choice.count": 2,
            "gen_ai.request.reasoning.level": "low",
            "openai.request.service_tier": "flex",
            "gen_ai.output.type": "json",
            "gen_ai.response.finish_reasons": ("stop", "length"),
            "openai.response.service_tier": "default",
            "openai.response.system_fingerprint": "fp",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 3,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.reasoning.output_tokens": 1,
            "gen_ai.usage.audio.input_tokens": 4,
            "gen_ai.usage.audio.output_tokens": 2,
        },
    ),
    "one stop sequence, and a format that is text": Asked(
        CHAT,
        {**ASK, "stop": "a", "response_format": {"type": "text"}, "service_tier": "auto"},
        _chat("stop"),
        {**OF_CHATS, "gen_ai.request.stop_sequences": ("a",), "gen_ai.output.type": "text"},
    ),
    "what is sent in extra_body": Asked(
        CHAT,
        {**ASK, "extra_body": {"max_completion_tokens": 9, "service_tier": "flex"}},
        _chat("stop"),
        {
            **OF_CHATS,
            "gen_ai.request.max_tokens": 9,
            "openai.request.service_tier": "flex",
        },
    ),
    "a choice that was cut": Asked(
        CHAT,
        {**ASK, "n": 2},
        _chat(None, "stop"),
        {
            **OF_CHATS,
            "gen_ai.request.choice.count": 2,
            "gen_ai.response.finish_reasons": ("error", "stop"),
        },
    ),
    "a type to parse into": Asked(
        "chat.completions.parse",
        {**ASK, "response_format": Place},
        _chat("stop"),
        {**OF_CHATS, "gen_ai.output.type": "json"},
        official=False,
    ),
    "whatever a response may say": Asked(
        "responses.create",
        {
            "model": "m",
            "input": [COMPACTED, {"role": "user", "content": "hello"}],
            "temperature": 0.5,
            "top_p": 0.9,
            "max_output_tokens": 9,
            "previous_response_id": "r0",
            "conversation": {"id": "v1"},
            "reasoning": {"effort": "high"},
            "service_tier": "auto",
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        },
        _response(TEXT, service_tier="default", usage=USAGE),
        {
            **OF_RESPONSES,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.request.previous_response.id": "r0",
            "gen_ai.conversation.id": "v1",
            "gen_ai.conversation.compacted": True,
            "gen_ai.request.reasoning.level": "high",
            "gen_ai.output.type": "json",
            "openai.response.service_tier": "default",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 3,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.cache_write.input_tokens": 1,
            "gen_ai.usage.reasoning.output_tokens": 1,
        },
    ),
    "a response that ends in a tool call": Asked(
        "responses.create",
        {"model": "m", "input": "hello", "conversation": "v1"},
        _response(CALLED),
        {
            **OF_RESPONSES,
            "gen_ai.conversation.id": "v1",
            "gen_ai.response.finish_reasons": ("tool_calls",),
        },
    ),
    "a response that compacted its conversation": Asked(
        "responses.create",
        {"model": "m", "input": "hello"},
        _response(COMPACTED, TEXT),
        {**OF_RESPONSES, "gen_ai.conversation.compacted": True},
    ),
    "a response that is fetched": Asked(
        "responses.retrieve",
        {},
        _response(TEXT, service_tier="default", usage=USAGE),
        {
            "gen_ai.operation.name": "fetch_response",
            "gen_ai.provider.name": "openai",
            "gen_ai.response.id": "r1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.status": "completed",
            "gen_ai.response.finish_reasons": ("stop",),
            "openai.api.type": "responses",
            "openai.response.service_tier": "default",
            **HOST,
        },
        name="fetch_response",
        positional=("r1",),
    ),
    "a response that failed before it is fetched": Asked(
        "responses.retrieve",
        {"response_id": "r1"},
        _response(status="failed", error={"code": "server_error", "message": "no"}),
        {
            "gen_ai.operation.name": "fetch_response",
            "gen_ai.provider.name": "openai",
            "gen_ai.response.id": "r1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.status": "failed",
            "gen_ai.response.finish_reasons": ("error",),
            "openai.api.type": "responses",
            **HOST,
        },
        name="fetch_response",
    ),
    "embeddings": Asked(
        "embeddings.create",
        {"model": "m", "input": "hello", "encoding_format": "float"},
        {
            "object": "list",
            "model": "m-1",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.1, 0.2, 0.3]}],
            "usage": {"prompt_tokens": 2, "total_tokens": 2},
        },
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.request.encoding_formats": ("float",),
            "gen_ai.response.model": "m-1",
            "gen_ai.embeddings.dimension.count": 3,
            "gen_ai.usage.input_tokens": 2,
            **HOST,
        },
        name="embeddings m",
    ),
}


def _ask(driver: Driver, asked: Asked) -> None:
    """Make the call, and read its stream if it is one."""
    streamed = isinstance(asked.answer, list)
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in asked.answer) if streamed else ""

    def respond(_request: Any) -> Any:
        if not streamed:
            return driver.http.Response(200, json=asked.answer)
        fields = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=fields, content=text.encode())

    async def program(client: Any) -> None:
        method = attrgetter(asked.method)(client)
        answer = method(*asked.positional, **asked.arguments)
        answer = await answer if inspect.isawaitable(answer) else answer
        if streamed:
            await driver.read(answer)

    driver.run(driver.http.MockTransport(respond), program)


def _said(seen: Captured, name: str) -> dict[str, Any]:
    (span,) = [span for span in seen.spans if span.name == name]
    return {
        key: value
        for key, value in (span.attributes or {}).items()
        if not key.startswith("latspan.")
    }


@pytest.mark.parametrize("what", CALLS)
def test_a_calls_attributes_are_these_and_no_others(
    driver: Driver, seen: Captured, what: str
) -> None:
    """All of them but those of latspan."""
    asked = CALLS[what]
    _ask(driver, asked)

    assert _said(seen, asked.name) == asked.expected
    (record,) = seen.records
    assert record.outcome is Outcome.COMPLETED


@pytest.mark.parametrize("what", [what for what, asked in CALLS.items() if asked.official])
def test_what_the_official_instrumentation_sets_is_set_alike(driver: Driver, what: str) -> None:
    """Attribute by attribute; the default port it leaves out, and a count of zero."""
    official: Any = pytest.importorskip(
        "opentelemetry.instrumentation.genai.openai",
        reason="the official instrumentation of the openai client is not installed",
    )
    asked = CALLS[what]
    exporter = InMemorySpanExporter()
    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    metrics = MeterProvider(shutdown_on_exit=False)
    instrumentor = official.OpenAIInstrumentor()
    latspan.uninstrument()
    try:
        instrumentor.instrument(tracer_provider=spans, meter_provider=metrics)
        _ask(driver, asked)
    finally:
        instrumentor.uninstrument()
        latspan.auto_instrument()
        metrics.shutdown()

    (span,) = exporter.get_finished_spans()
    assert span.name == asked.name
    theirs = dict(span.attributes or {})
    assert {name: asked.expected.get(name) for name in theirs} == theirs


STREAM_HEAD = {"id": "a1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}


def _chunk(index: int, word: str, reason: str | None = None) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": word}, "finish_reason": reason}
    return {**STREAM_HEAD, "service_tier": "default", "choices": [choice]}


def test_a_stream_has_its_tier_and_the_position_of_a_truncated_choice(
    driver: Driver, seen: Captured
) -> None:
    """The connection ends in the middle of the first choice, behind the second."""
    chunks = [_chunk(0, "a"), _chunk(1, "b", "stop"), _chunk(0, "c")]
    _ask(driver, Asked(CHAT, {**ASK, "n": 2, "stream": True}, chunks, {}))

    said = _said(seen, "chat m")
    assert said["gen_ai.response.finish_reasons"] == ("error", "stop")
    assert said["openai.response.service_tier"] == "default"
    assert said["gen_ai.request.stream"] is True
    (record,) = seen.records
    assert record.outcome is Outcome.TRUNCATED


def test_a_response_that_is_fetched_as_a_stream_uses_no_tokens(
    driver: Driver, seen: Captured
) -> None:
    """It is read again from where its reader left."""
    events = [
        {"type": "response.output_text.delta", "output_index": 0, "delta": "hi"},
        {"type": "response.completed", "response": _response(TEXT, usage=USAGE)},
    ]
    arguments = {"response_id": "r1", "stream": True, "starting_after": 4}
    _ask(driver, Asked("responses.retrieve", arguments, events, {}))

    attributes = _said(seen, "fetch_response")
    assert attributes["gen_ai.request.stream_cursor"] == "4"
    assert attributes["gen_ai.response.status"] == "completed"
    # The attribute belongs to the request that generated the response.
    assert "gen_ai.request.stream" not in attributes
    assert not any(name.startswith("gen_ai.usage.") for name in attributes)
    assert "gen_ai.client.token.usage" not in {key.metric for key in seen.snapshot().series}


def test_durations_and_tokens_are_keyed_by_tier_and_fingerprint(
    driver: Driver, seen: Captured
) -> None:
    """As the conventions for OpenAI have it."""
    _ask(driver, CALLS["whatever a chat may say"])

    keyed = {"service_tier": "default", "system_fingerprint": "fp"}
    for metric in (semconv.METRIC_OPERATION_DURATION, semconv.METRIC_TOKEN_USAGE):
        keys = [key for key in seen.snapshot().series if key.metric == metric]
        assert keys
        for key in keys:
            assert keyed.items() <= key.attributes.items()
