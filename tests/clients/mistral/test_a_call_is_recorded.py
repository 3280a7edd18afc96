"""What latspan records of the calls of the Mistral SDK, on a manual clock."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest

from latspan import Kind, TokenSource
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import asked_for
from tests.clients.mistral.conftest import HTTP, MistralDriver, llm_spans
from tests.clients.mistral.replies import (
    DONE,
    EMBEDDINGS,
    MESSAGES,
    USAGE,
    chunk,
    completion,
    event,
    text,
    thinking,
)

MS = 1_000_000
HOST = {"server.address": "model.test", "server.port": 443}
CHAT = {"model": "m", "messages": MESSAGES}
CALLED = [{"id": "f1", "function": {"name": "look_up", "arguments": '{"q": 1}'}}]


def _only(seen: Captured) -> RequestRecord:
    (record,) = seen.records
    assert record.kind is Kind.CALL
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def _attributes(seen: Captured) -> dict[str, Any]:
    (attributes,) = llm_spans(seen)
    return {name: value for name, value in attributes.items() if not name.startswith("latspan.")}


def _call(
    mistral: MistralDriver, resource: str, method: str, reply: Any, **arguments: Any
) -> list[Any]:
    """Call a method and read its stream; return what the application got."""
    got: list[Any] = []

    async def program(client: Any) -> None:
        result = await mistral.call(getattr(client, resource), method, **arguments)
        got.append(result)
        if method == "stream":
            got.extend(await mistral.read(result))

    mistral.run(mistral.answering(reply), program)
    return got


def test_segments_of_a_stream_are_exact(mistral: MistralDriver, seen: Captured) -> None:
    """Connection, wait and decode are those of the script."""
    script = Script.chat(tokens=5, queue_ms=40, prefill_ms=60, gap_ms=10, flavor="plain")

    async def program(client: Any) -> None:
        await mistral.read(await mistral.call(client.chat, "stream", **CHAT))

    transport = mistral.scripted(
        script, connect_ns=7 * MS, tls_ns=11 * MS, send_ns=3 * MS, network_ns=2 * MS
    )
    mistral.run(transport, program)

    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert {each.name: (each.duration_ns, each.source.value) for each in record.segment_totals} == {
        "connect": (7 * MS, "measured"),
        "tls": (11 * MS, "measured"),
        "send": (3 * MS, "measured"),
        "server_wait": (104 * MS, "measured"),
        "decode": (40 * MS, "measured"),
    }
    assert record.metrics["time_to_first_token"].value == 125 * MS
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 4


def test_thinking_is_reasoning(mistral: MistralDriver, seen: Captured) -> None:
    """The content of a chunk may be a list of parts."""
    _call(
        mistral,
        "chat",
        "stream",
        [
            chunk("", role="assistant"),
            chunk([thinking("hm")]),
            chunk([thinking("")]),
            chunk([text("Here")]),
            chunk("."),
            chunk("", reason="stop", usage=USAGE),
            DONE,
        ],
        **CHAT,
    )

    record = _only(seen)
    assert record.metrics["time_to_first_chunk"].value == 10 * MS
    assert record.metrics["time_to_first_token"].value == 20 * MS
    assert record.metrics["time_to_first_visible_token"].value == 40 * MS
    assert {each.name: each.duration_ns for each in record.segment_totals} == {
        "server_wait": 20 * MS,
        "reasoning": 20 * MS,
        "decode": 10 * MS,
        "stream_close": 20 * MS,
    }


def test_arguments_of_a_tool_call_are_tokens(mistral: MistralDriver, seen: Captured) -> None:
    _call(
        mistral,
        "chat",
        "stream",
        [chunk("", reason="tool_calls", usage=USAGE, tool_calls=CALLED), DONE],
        **CHAT,
    )

    record = _only(seen)
    assert "time_to_first_visible_token" in record.metrics
    assert _attributes(seen)["gen_ai.response.finish_reasons"] == ("tool_calls",)


@pytest.mark.parametrize("method", ["complete", "stream"])
def test_tokens_are_the_providers(mistral: MistralDriver, seen: Captured, method: str) -> None:
    streamed = [chunk("Here"), chunk("", reason="length", usage=USAGE), DONE]
    reply = streamed if method == "stream" else completion(reason="length")
    _call(mistral, "chat", method, reply, **CHAT)

    tokens = _only(seen).tokens
    assert (tokens.input, tokens.cached, tokens.output) == (7, 2, 3)
    assert tokens.source is TokenSource.PROVIDER
    assert _attributes(seen)["gen_ai.response.finish_reasons"] == ("length",)


@pytest.mark.parametrize("method", ["complete", "stream"])
def test_a_count_that_was_not_reported_is_no_zero(
    mistral: MistralDriver, seen: Captured, method: str
) -> None:
    """The SDK sets it to 0."""
    usage = {"prompt_tokens": 7}
    reply: Any = [chunk("Here", reason="stop", usage=usage), DONE]
    if method == "complete":
        reply = {**completion(), "usage": usage}
    got = _call(mistral, "chat", method, reply, **CHAT)

    last = got[-1].data if method == "stream" else got[-1]
    assert last.usage.completion_tokens == 0
    tokens = _only(seen).tokens
    assert (tokens.input, tokens.output) == (7, None)


ASKED: dict[str, tuple[str, str, dict[str, Any], Any, str, dict[str, Any]]] = {
    "chat": (
        "chat",
        "complete",
        {
            **CHAT,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 5,
            "random_seed": 4,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "stop": ["a", "b"],
            "n": 2,
            "response_format": {"type": "json_object"},
        },
        completion(),
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.request.max_tokens": 5,
            "gen_ai.request.seed": 4,
            "gen_ai.request.frequency_penalty": 0.1,
            "gen_ai.request.presence_penalty": 0.2,
            "gen_ai.request.stop_sequences": ("a", "b"),
            "gen_ai.request.choice.count": 2,
            "gen_ai.output.type": "json",
            "gen_ai.response.id": "c1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 3,
        },
    ),
    "streamed chat": (
        "chat",
        "stream",
        {**CHAT, "stop": "a", "n": 1},
        [chunk("Here", reason="stop", usage=USAGE), DONE],
        "chat m",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.request.stream": True,
            "gen_ai.request.stop_sequences": ("a",),
            "gen_ai.response.id": "c1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 3,
        },
    ),
    "code": (
        "fim",
        "complete",
        {"model": "m", "prompt": "def f(", "suffix": "return x"},
        completion(),
        "text_completion m",
        {
            "gen_ai.operation.name": "text_completion",
            "gen_ai.request.model": "m",
            "gen_ai.response.id": "c1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 3,
        },
    ),
    "agent": (
        "agents",
        "complete",
        {"agent_id": "ag:1", "messages": MESSAGES},
        completion(),
        "invoke_agent",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": "ag:1",
            "gen_ai.response.id": "c1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 3,
        },
    ),
    "streamed agent": (
        "agents",
        "stream",
        {"agent_id": "ag:1", "messages": MESSAGES},
        [chunk("Here", reason="stop", usage=USAGE), DONE],
        "invoke_agent",
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.id": "ag:1",
            "gen_ai.request.stream": True,
            "gen_ai.response.id": "c1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.cache_read.input_tokens": 2,
            "gen_ai.usage.output_tokens": 3,
        },
    ),
    "embeddings": (
        "embeddings",
        "create",
        {"model": "m", "inputs": ["a"], "output_dimension": 3, "encoding_format": "float"},
        EMBEDDINGS,
        "embeddings m",
        {
            "gen_ai.operation.name": "embeddings",
            "gen_ai.request.model": "m",
            "gen_ai.request.encoding_formats": ("float",),
            "gen_ai.embeddings.dimension.count": 3,
            "gen_ai.response.model": "mistral-embed-1",
            "gen_ai.usage.input_tokens": 7,
        },
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_call_has_the_attributes_of_the_conventions(
    mistral: MistralDriver, seen: Captured, name: str
) -> None:
    """Exactly these, apart from latspan's own and the time to the first chunk."""
    resource, method, arguments, reply, span_name, expected = ASKED[name]
    _call(mistral, resource, method, reply, **arguments)

    assert _only(seen).name == span_name
    attributes = _attributes(seen)
    attributes.pop("gen_ai.response.time_to_first_chunk", None)
    assert attributes == {"gen_ai.provider.name": "mistral_ai", **HOST, **expected}


def test_a_parsed_chat_is_one_call(mistral: MistralDriver, seen: Captured) -> None:
    """``parse`` calls ``complete``."""
    from pydantic import BaseModel

    class Place(BaseModel):
        name: str

    reply = completion('{"name": "here"}')
    (parsed,) = _call(mistral, "chat", "parse", reply, response_format=Place, **CHAT)

    assert parsed.choices[0].message.parsed == Place(name="here")
    assert _only(seen).name == "chat m"
    assert _attributes(seen)["gen_ai.output.type"] == "json"


def test_retries_are_attempts_of_one_call(mistral: MistralDriver, seen: Captured) -> None:
    http, retries = import_module(HTTP), import_module("mistralai.client.utils")
    # The server's header determines the time of the retry, in seconds.
    refused = http.Response(429, json={"message": "later"}, headers={"retry-after": "0.001"})
    config = retries.RetryConfig(
        "backoff", retries.BackoffStrategy(1, 1, 1.0, 10_000), retry_connection_errors=False
    )

    async def program(client: Any) -> None:
        await mistral.call(client.chat, "complete", retries=config, **CHAT)

    mistral.run(mistral.answering(refused, completion()), program)

    assert _only(seen).outcome is Outcome.COMPLETED
    (attributes,) = llm_spans(seen)
    assert attributes["latspan.attempt.count"] == 2
    attempts = [
        span for span in seen.spans if "http.request.resend_count" in (span.attributes or ())
    ]
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (429, {}, Outcome.REJECTED),
        (503, {"retry-after": "9"}, Outcome.REJECTED),
        (503, {}, Outcome.ERROR),
        (422, {}, Outcome.ERROR),
    ],
)
@pytest.mark.parametrize("method", ["complete", "stream"])
def test_a_refusal_has_its_outcome(
    mistral: MistralDriver, seen: Captured, method: str, status: int, headers: Any, outcome: Outcome
) -> None:
    errors = import_module("mistralai.client.errors")
    reply = import_module(HTTP).Response(status, json={"detail": []}, headers=headers)
    with pytest.raises(errors.MistralError):
        _call(mistral, "chat", method, reply, **CHAT)

    assert _only(seen).outcome is outcome
    assert _attributes(seen)["error.type"] == str(status)


def test_a_timeout_has_its_outcome(mistral: MistralDriver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        with pytest.raises(import_module(HTTP).ReadTimeout):
            await mistral.call(client.chat, "complete", timeout_ms=50, **CHAT)

    script = Script.chat(tokens=2, prefill_ms=1000, gap_ms=1, flavor="plain")
    mistral.run(mistral.scripted(script), program)

    assert _only(seen).outcome is Outcome.TIMEOUT


def test_a_stream_without_its_end_is_truncated(mistral: MistralDriver, seen: Captured) -> None:
    _call(mistral, "chat", "stream", [chunk("Here")], **CHAT)

    assert _only(seen).outcome is Outcome.TRUNCATED


def test_leaving_the_block_ends_the_call(mistral: MistralDriver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        stream = await mistral.call(client.chat, "stream", **CHAT)
        if mistral.asynchronous:
            async with stream:
                await anext(aiter(stream))
        else:
            with stream:
                next(iter(stream))
        assert len(seen.records) == 1

    reply = [chunk("Here"), chunk(".", reason="stop", usage=USAGE), DONE]
    mistral.run(mistral.answering(reply), program)

    assert _only(seen).outcome is Outcome.CLOSED_EARLY


def test_a_method_that_asks_no_model_is_an_exchange(mistral: MistralDriver, seen: Captured) -> None:
    """Its stream is of the same class as that of a chat, and not tracked."""
    started = {
        "type": "conversation.response.started",
        "conversation_id": "k1",
        "created_at": "2026-01-01T00:00:00Z",
    }

    async def program(client: Any) -> None:
        stream = await mistral.call(
            client.beta.conversations, "start_stream", inputs="hi", agent_id="ag:1"
        )
        (first,) = await mistral.read(stream)
        assert first.data.conversation_id == "k1"

    events = [b"event: conversation.response.started\n" + event(started)]
    mistral.run(mistral.answering(events), program)

    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.HTTP, Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("package", "name", "provider"),
    [
        ("mistralai.azure.client", "MistralAzure", "azure.ai.inference"),
        ("mistralai.gcp.client", "MistralGCP", "gcp.vertex_ai"),
    ],
)
def test_other_clouds_are_other_providers(
    mistral: MistralDriver, seen: Captured, package: str, name: str, provider: str
) -> None:
    if name == "MistralGCP":
        pytest.importorskip("google.auth", reason="google-auth is not installed")

    async def program(client: Any) -> None:
        stream = await mistral.call(client.chat, "stream", **CHAT)
        await mistral.read(stream)

    reply = [chunk("Here", reason="stop", usage=USAGE), DONE]
    given: dict[str, Any] = (
        {"access_token": "none", "project_id": "p", "region": "r"}
        if name == "MistralGCP"
        else {"api_key": "none"}
    )
    mistral.run(mistral.answering(reply), program, package=package, name=name, **given)

    assert _only(seen).outcome is Outcome.COMPLETED
    assert _attributes(seen)["gen_ai.provider.name"] == provider
    assert _attributes(seen)["server.address"] == HOST["server.address"]


def test_content_is_captured_if_configured(mistral: MistralDriver, seen: Captured) -> None:
    """Messages may be mappings or the SDK's objects, whose role is not set but a default."""
    models = import_module("mistralai.client.models")
    messages = [
        {"role": "system", "content": "Be brief."},
        models.UserMessage(content="Where is it?"),
        models.AssistantMessage(content=[models.TextChunk(text="I look it up.")]),
    ]
    reply = [
        chunk([thinking("hm")]),
        chunk([thinking(" hm")]),
        chunk([text("He")]),
        chunk("re"),
        chunk("", reason="tool_calls", usage=USAGE, tool_calls=CALLED),
        DONE,
    ]
    with asked_for(captures_content=True):
        _call(mistral, "chat", "stream", reply, model="m", messages=messages)

    attributes = _attributes(seen)
    assert json.loads(attributes["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Where is it?"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "I look it up."}]},
    ]
    (message,) = json.loads(attributes["gen_ai.output.messages"])
    assert message["parts"] == [
        {"type": "reasoning", "content": "hm hm"},
        {"type": "text", "content": "Here"},
        {"type": "tool_call", "id": "f1", "name": "look_up", "arguments": {"q": 1}},
    ]
