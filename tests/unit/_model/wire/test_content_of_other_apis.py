"""The content of Google, Ollama, Cohere and Bedrock is read in the same format as OpenAI's."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from latspan._model.wire import ApiFormat, output_messages
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan._model.wire.cohere_chat import COHERE_CHAT
from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT
from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE

SYSTEM: Any = {"type": "text", "content": "Be brief."}
QUESTION: Any = {"type": "text", "content": "Where is it?"}
THOUGHT: Any = {"type": "reasoning", "content": "I look it up."}
ARGUMENTS: Any = {"q": "it"}
SCHEMA: Any = {"type": "object"}
NAMED: Any = {"name": "look_up", "description": "Looks up"}
TOOL: Any = {"type": "function", **NAMED, "parameters": SCHEMA}
FUNCTION: Any = {"type": "function", "function": {**NAMED, "parameters": SCHEMA}}


def _call(*, called: str | None = "c1", arguments: Any = ARGUMENTS) -> dict[str, Any]:
    return {"type": "tool_call", "id": called, "name": "look_up", "arguments": arguments}


def _result(*, called: str | None = "c1", response: Any = "here") -> dict[str, Any]:
    return {"type": "tool_call_response", "id": called, "response": response}


REQUESTS: dict[str, tuple[ApiFormat, Any, Any]] = {
    "gemini": (
        GEMINI_GENERATE_CONTENT,
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Where is it?"}]},
                {
                    "role": "model",
                    "parts": [
                        {"text": "I look it up.", "thought": True},
                        {"functionCall": {"id": "c1", "name": "look_up", "args": ARGUMENTS}},
                    ],
                },
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "c1", "response": {"at": "here"}}}],
                },
            ],
            "tools": [
                {"functionDeclarations": [{**NAMED, "parameters": SCHEMA}]},
                {"googleSearch": {}},
            ],
        },
        [
            ("user", [QUESTION]),
            ("assistant", [THOUGHT, _call()]),
            ("user", [_result(response={"at": "here"})]),
        ],
    ),
    "ollama": (
        OLLAMA_CHAT,
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Where is it?", "images": ["QQ=="]},
                {
                    "role": "assistant",
                    "content": "",
                    "thinking": "I look it up.",
                    "tool_calls": [{"function": {"name": "look_up", "arguments": ARGUMENTS}}],
                },
                {"role": "tool", "tool_name": "look_up", "content": "here"},
            ],
            "tools": [FUNCTION],
        },
        [
            ("system", [SYSTEM]),
            (
                "user",
                [
                    QUESTION,
                    {"type": "blob", "mime_type": None, "modality": "image", "content": "QQ=="},
                ],
            ),
            ("assistant", [THOUGHT, _call(called=None)]),
            ("tool", [_result(called=None)]),
        ],
    ),
    "cohere": (
        COHERE_CHAT,
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
                {
                    "role": "assistant",
                    "tool_plan": "I look it up.",
                    "tool_calls": [
                        {"id": "c1", "function": {"name": "look_up", "arguments": '{"q":"it"}'}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "here"},
            ],
            "tools": [FUNCTION],
        },
        [
            ("system", [SYSTEM]),
            ("user", [QUESTION]),
            ("assistant", [THOUGHT, _call(arguments='{"q":"it"}')]),
            ("tool", [_result()]),
        ],
    ),
    "converse": (
        BEDROCK_CONVERSE,
        {
            "system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}],
            "messages": [
                {"role": "user", "content": [{"text": "Where is it?"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "I look it up."}}},
                        {"toolUse": {"toolUseId": "c1", "name": "look_up", "input": ARGUMENTS}},
                    ],
                },
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "here"}]}}],
                },
            ],
            "toolConfig": {"tools": [{"toolSpec": {**NAMED, "inputSchema": {"json": SCHEMA}}}]},
        },
        [("user", [QUESTION]), ("assistant", [THOUGHT, _call()]), ("user", [_result()])],
    ),
    "invoke": (
        BEDROCK_INVOKE,
        {
            "anthropic_version": "bedrock-2023-05-31",
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "Where is it?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "c1", "name": "look_up", "input": ARGUMENTS}
                    ],
                },
            ],
            "tools": [{**NAMED, "input_schema": SCHEMA}],
        },
        [("user", [QUESTION]), ("assistant", [_call()])],
    ),
}


@pytest.mark.parametrize(
    ("api_format", "request_body", "expected"), REQUESTS.values(), ids=list(REQUESTS)
)
def test_a_conversation_has_one_shape(
    api_format: ApiFormat, request_body: Any, expected: Any
) -> None:
    """Roles, parts, tools and instructions have the names of the conventions."""
    shape = api_format.content
    assert shape is not None
    assert set(request_body) <= set(shape.request_fields)
    content = shape.request_content(request_body)

    assert [(each["role"], each["parts"]) for each in content.input] == expected
    assert [dict(each) for each in content.tools] == [TOOL]
    if expected[0][0] != "system":
        assert content.system == (SYSTEM,)
    assert content.is_chat


@pytest.mark.parametrize(
    ("api_format", "request_body"),
    [
        (OLLAMA_GENERATE, {"system": "Be brief.", "prompt": "Where is it?"}),
        (BEDROCK_INVOKE, {"inputText": "Where is it?"}),
        (BEDROCK_INVOKE, {"prompt": "Where is it?"}),
    ],
)
def test_a_prompt_is_one_message(api_format: ApiFormat, request_body: Any) -> None:
    """It is not a conversation."""
    assert api_format.content is not None
    content = api_format.content.request_content(request_body)
    assert content.input == ({"role": "user", "parts": [QUESTION]},)
    assert content.system == ((SYSTEM,) if "system" in request_body else ())
    assert not content.is_chat


@pytest.mark.parametrize(
    "contents", ["Where is it?", {"text": "Where is it?"}, {"parts": ["Where is it?"]}]
)
def test_googles_sdk_takes_shorter_forms(contents: Any) -> None:
    """One text or one part is one message of the user."""
    assert GEMINI_GENERATE_CONTENT.content is not None
    content = GEMINI_GENERATE_CONTENT.content.request_content({"contents": contents})
    assert content.input == ({"role": "user", "parts": [QUESTION]},)


def test_the_requests_of_other_models_are_read() -> None:
    """Nova has the blocks of Converse, and open models have OpenAI's messages."""
    assert BEDROCK_INVOKE.content is not None
    for content in ([{"text": "Where is it?"}], [{"type": "text", "text": "Where is it?"}]):
        body = {"messages": [{"role": "user", "content": content}]}
        read = BEDROCK_INVOKE.content.request_content(body)
        assert read.input == ({"role": "user", "parts": [QUESTION]},)


def _gemini(*parts: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"parts": list(parts)}}]}


def _message(**message: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", **message}}


def _cohere(kind: str, index: int, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


def _block(index: int, **delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}


_TOOL_CALL = {"function": {"name": "look_up", "arguments": ARGUMENTS}}
_STARTED = {"id": "c1", "function": {"name": "look_up", "arguments": ""}}
_USED = {"toolUse": {"toolUseId": "c1", "name": "look_up"}}

STREAMS: dict[str, tuple[ApiFormat, list[Any], str | None]] = {
    "gemini": (
        GEMINI_GENERATE_CONTENT,
        [
            _gemini({"text": "I look ", "thought": True}),
            _gemini({"text": "it up.", "thought": True}, {"text": "It "}),
            _gemini({"text": "is here."}),
            _gemini({"functionCall": {"id": "c1", "name": "look_up", "args": ARGUMENTS}}),
        ],
        "c1",
    ),
    "ollama": (
        OLLAMA_CHAT,
        [
            _message(thinking="I look it up.", content=""),
            _message(content="It "),
            _message(content="is here."),
            _message(content="", tool_calls=[_TOOL_CALL]),
        ],
        None,
    ),
    "cohere": (
        COHERE_CHAT,
        [
            _cohere("tool-plan-delta", 0, tool_plan="I look it up."),
            _cohere("content-start", 0, content={"type": "text", "text": ""}),
            _cohere("content-delta", 0, content={"text": "It "}),
            _cohere("content-delta", 0, content={"text": "is here."}),
            _cohere("tool-call-start", 1, tool_calls=_STARTED),
            _cohere("tool-call-delta", 1, tool_calls={"function": {"arguments": '{"q":'}}),
            _cohere("tool-call-delta", 1, tool_calls={"function": {"arguments": '"it"}'}}),
        ],
        "c1",
    ),
    "converse": (
        BEDROCK_CONVERSE,
        [
            {"messageStart": {"role": "assistant"}},
            _block(0, reasoningContent={"text": "I look it up."}),
            _block(1, text="It "),
            _block(1, text="is here."),
            {"contentBlockStart": {"contentBlockIndex": 2, "start": _USED}},
            _block(2, toolUse={"input": '{"q":'}),
            _block(2, toolUse={"input": '"it"}'}),
        ],
        "c1",
    ),
}
STREAMS["nova, invoked"] = (
    BEDROCK_INVOKE,
    [{"chunk": {"bytes": json.dumps(each).encode()}} for each in STREAMS["converse"][1]],
    "c1",
)


@pytest.mark.parametrize(("api_format", "chunks", "called"), STREAMS.values(), ids=list(STREAMS))
def test_a_streamed_message_is_assembled(
    api_format: ApiFormat, chunks: list[Any], called: str | None
) -> None:
    """Texts are joined by kind and block, and the call of a tool is whole."""
    shape = api_format.content
    assert shape is not None
    fragments = chain.from_iterable(map(shape.fragments, chunks))
    (message,) = output_messages(fragments, {0: "STOP"})

    thought, text, call = message["parts"]
    assert (thought, text) == (THOUGHT, {"type": "text", "content": "It is here."})
    arguments = call["arguments"]
    parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert {**call, "arguments": parsed} == _call(called=called)
    assert message["finish_reason"] == "stop"


WHOLE: dict[str, tuple[ApiFormat, Any]] = {
    "cohere": (
        COHERE_CHAT,
        {
            "id": "m1",
            "message": {
                "content": [{"type": "text", "text": "It is here."}],
                "tool_plan": "I look it up.",
                "tool_calls": [{**_STARTED, "function": _TOOL_CALL["function"]}],
            },
        },
    ),
    "converse": (
        BEDROCK_CONVERSE,
        {
            "output": {
                "message": {
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "I look it up."}}},
                        {"text": "It is here."},
                        {"toolUse": {**_USED["toolUse"], "input": ARGUMENTS}},
                    ]
                }
            }
        },
    ),
}


@pytest.mark.parametrize(("api_format", "response"), WHOLE.values(), ids=list(WHOLE))
def test_a_whole_message_has_the_same_parts(api_format: ApiFormat, response: Any) -> None:
    """As the streamed one."""
    assert api_format.content is not None
    (message,) = output_messages(api_format.content.fragments(response), {})
    kinds = [part["type"] for part in message["parts"]]
    assert kinds == ["reasoning", "text", "tool_call"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"inlineData": {"mimeType": "image/png", "data": "QQ=="}},
            {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "QQ=="},
        ),
        (
            {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a"}},
            {
                "type": "uri",
                "mime_type": "application/pdf",
                "modality": "document",
                "uri": "gs://a",
            },
        ),
    ],
)
def test_media_of_google_are_parts(part: Any, expected: Any) -> None:
    """In requests and in responses."""
    assert GEMINI_GENERATE_CONTENT.content is not None
    content = GEMINI_GENERATE_CONTENT.content.request_content({"contents": [{"parts": [part]}]})
    (message,) = output_messages(GEMINI_GENERATE_CONTENT.content.fragments(_gemini(part)), {})
    assert content.input[0]["parts"] == message["parts"] == [expected]


def test_googles_own_tools_are_server_tools() -> None:
    """Code that the model runs, and its result."""
    assert GEMINI_GENERATE_CONTENT.content is not None
    chunk = _gemini(
        {"executableCode": {"code": "1 + 1", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    )
    (message,) = output_messages(GEMINI_GENERATE_CONTENT.content.fragments(chunk), {})
    assert [part["type"] for part in message["parts"]] == [
        "server_tool_call",
        "server_tool_call_response",
    ]


@pytest.mark.parametrize(
    "api_format",
    [
        GEMINI_GENERATE_CONTENT,
        OLLAMA_CHAT,
        OLLAMA_GENERATE,
        COHERE_CHAT,
        BEDROCK_CONVERSE,
        BEDROCK_INVOKE,
    ],
    ids=lambda each: each.name,
)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": 4, "contents": 5, "tools": {"a": 1}, "system": 3, "prompt": 7},
        {"messages": [{"role": "user", "content": 4}], "contents": [4, None, {"parts": 5}]},
        {"messages": [{"role": 5}, {"role": "tool"}, 7], "tools": [1, {"functionDeclarations": 4}]},
        {"messages": [{"role": "user", "content": [4, {"toolResult": {"content": 3}}]}]},
        {"toolConfig": {"tools": [{"toolSpec": {"inputSchema": 3}}]}, "inputText": []},
    ],
)
def test_hostile_requests_never_raise(api_format: ApiFormat, body: Any) -> None:
    """An application may send anything, and the server refuses it."""
    assert api_format.content is not None
    api_format.content.request_content(body)
