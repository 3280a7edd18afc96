"""The attributes of a call of Bedrock, from the request and the response, in every format."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from latspan.testing import Captured
from support.bedrock import (
    COMPLETE,
    INVOKED,
    INVOKED_STREAM,
    MODEL,
    ask,
    attributes_in,
    body_of,
    call_in,
    invoke,
    response_of_model,
    run,
)

_HOST: Final = "127.0.0.1"


@pytest.mark.usefixtures("counts_cached")
def test_a_conversation_has_the_attributes_of_the_conventions(seen: Captured) -> None:
    """The parameters in the request, and what the service reports."""
    server = run(
        lambda client: ask(
            client,
            inferenceConfig={
                "maxTokens": 9,
                "temperature": 0.5,
                "topP": 0.25,
                "stopSequences": ["a", "b"],
            },
            additionalModelRequestFields={"top_k": 3},
        ),
        COMPLETE,
    )
    assert attributes_in(seen) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "aws.bedrock",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.25,
        "gen_ai.request.top_k": 3,
        "gen_ai.request.stop_sequences": ("a", "b"),
        "gen_ai.response.finish_reasons": ("end_turn",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_write.input_tokens": 0,
        "gen_ai.usage.output_tokens": 5,
        "server.address": _HOST,
        "server.port": int(server.url.rpartition(":")[2]),
    }


CLAUDE: Final = {
    "max_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.25,
    "top_k": 3,
    "stop_sequences": ["a"],
}
INVOCATIONS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any], str]]] = {
    "anthropic": (
        "anthropic.claude-x-v1:0",
        CLAUDE,
        {
            "id": "msg_1",
            "type": "message",
            "model": "claude-x",
            "content": [],
            "stop_reason": "max_tokens",
            "usage": {"input_tokens": 7, "output_tokens": 5},
        },
        "max_tokens",
    ),
    "nova": (
        "amazon.nova-lite-v1:0",
        {
            "inferenceConfig": {
                "maxTokens": 9,
                "temperature": 0.5,
                "topP": 0.25,
                "topK": 3,
                "stopSequences": ["a"],
            }
        },
        {
            "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
            "stopReason": "max_tokens",
            "usage": {"inputTokens": 7, "outputTokens": 5, "totalTokens": 12},
        },
        "max_tokens",
    ),
    "titan": (
        "amazon.titan-text-express-v1",
        {
            "inputText": "Hello",
            "textGenerationConfig": {
                "maxTokenCount": 9,
                "temperature": 0.5,
                "topP": 0.25,
                "stopSequences": ["a"],
            },
        },
        {
            "inputTextTokenCount": 7,
            "results": [{"tokenCount": 5, "outputText": "Hi", "completionReason": "LENGTH"}],
        },
        "LENGTH",
    ),
    "llama": (
        "meta.llama3-8b-instruct-v1:0",
        {"prompt": "Hello", "max_gen_len": 9, "temperature": 0.5, "top_p": 0.25},
        {"generation": "Hi", "generation_token_count": 5, "stop_reason": "length"},
        "length",
    ),
    "mistral": (
        "mistral.mistral-7b-instruct-v0:2",
        {
            "prompt": "Hello",
            "max_tokens": 9,
            "temperature": 0.5,
            "top_p": 0.25,
            "top_k": 3,
            "stop": ["a"],
        },
        {"outputs": [{"text": "Hi", "stop_reason": "length"}]},
        "length",
    ),
    "cohere": (
        "cohere.command-r-v1:0",
        {"message": "Hi", "max_tokens": 9, "temperature": 0.5, "p": 0.25, "k": 3},
        {"text": "Hi", "finish_reason": "MAX_TOKENS", "generation_id": "g"},
        "MAX_TOKENS",
    ),
    "openai": (
        "openai.gpt-oss-20b-1:0",
        {"messages": [], "max_completion_tokens": 9, "temperature": 0.5, "top_p": 0.25},
        {
            "choices": [{"index": 0, "finish_reason": "length", "message": {"content": "Hi"}}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        },
        "length",
    ),
}


@pytest.mark.parametrize("family", INVOCATIONS)
def test_an_invocation_has_the_attributes_of_its_models_format(family: str, seen: Captured) -> None:
    """The parameters, the finish reason, and counts that some formats have in headers only."""
    model, body, response, reason = INVOCATIONS[family]
    reply = response_of_model(response, input=7, output=5)
    run(lambda client: invoke(client, model, json.dumps(body)), reply)

    attributes = attributes_in(seen)
    assert attributes["gen_ai.request.model"] == model
    parameters = ("max_tokens", "temperature", "top_p")
    recorded = [attributes[f"gen_ai.request.{name}"] for name in parameters]
    assert recorded == [9, 0.5, 0.25]
    if family in {"anthropic", "nova", "mistral", "cohere"}:
        assert attributes["gen_ai.request.top_k"] == 3
    if family in {"anthropic", "nova", "titan", "mistral"}:
        assert attributes["gen_ai.request.stop_sequences"] == ("a",)
    assert attributes["gen_ai.response.finish_reasons"] == (reason,)
    record = call_in(seen)
    assert (record.tokens.input, record.tokens.output) == (7, 5)


def test_an_invoked_stream_names_the_response_and_its_model(seen: Captured) -> None:
    """They are in the first event of Anthropic's format."""

    def program(client: Any) -> None:
        list(client.invoke_model_with_response_stream(modelId=MODEL, body=body_of())["body"])

    run(program, INVOKED_STREAM)
    attributes = attributes_in(seen)
    assert attributes["gen_ai.response.id"] == "msg_1"
    assert attributes["gen_ai.response.model"] == "claude-x"
    assert attributes["gen_ai.request.stream"] is True


def test_embeddings_are_embeddings(seen: Captured) -> None:
    """The id of the model tells them from a chat; their count is in a header."""
    reply = response_of_model({"embedding": [0.5, 0.25]}, input=7)
    body = json.dumps({"inputText": "Hello"})
    run(lambda client: invoke(client, "amazon.titan-embed-text-v2:0", body), reply)
    record = call_in(seen)
    assert record.name == "embeddings amazon.titan-embed-text-v2:0"
    assert (record.tokens.input, record.tokens.output) == (7, None)


@pytest.mark.parametrize("body", ["not JSON", "[]", b"\xff", '"text"'])
def test_a_body_that_is_not_an_object_has_no_parameters(body: Any, seen: Captured) -> None:
    """The service decides what is wrong with it."""
    run(lambda client: invoke(client, MODEL, body), INVOKED)
    assert not [name for name in attributes_in(seen) if name.startswith("gen_ai.request.max")]
