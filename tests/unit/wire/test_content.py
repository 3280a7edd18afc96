"""What was asked and what was said, whichever API's words it is in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan.wire import Dialect, as_json, said_in, taken_down
from latspan.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan.wire.openai_chat import OPENAI_CHAT
from latspan.wire.openai_completions import OPENAI_COMPLETIONS
from latspan.wire.openai_responses import OPENAI_RESPONSES

QUESTION: Any = {"type": "text", "content": "Where is it?"}
CALL: Any = {"type": "tool_call", "id": "c1", "name": "look_up", "arguments": {"q": "it"}}
RESULT: Any = {"type": "tool_call_response", "id": "c1", "response": "here"}
SCHEMA: Any = {"type": "object"}
TOOL: Any = {
    "type": "function",
    "name": "look_up",
    "description": "Looks up",
    "parameters": SCHEMA,
}
SYSTEM: Any = {"type": "text", "content": "Be brief."}
ARGUMENTS = '{"q":"it"}'

_FUNCTION: Any = {"name": "look_up", "description": "Looks up"}

REQUESTS: dict[str, tuple[Dialect, Any]] = {
    "chat": (
        OPENAI_CHAT,
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "Where is it?"}]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c1", "function": {"name": "look_up", "arguments": ARGUMENTS}}
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "here"},
            ],
            "tools": [{"type": "function", "function": {**_FUNCTION, "parameters": SCHEMA}}],
        },
    ),
    "responses": (
        OPENAI_RESPONSES,
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Where is it?"}]},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "look_up",
                    "arguments": ARGUMENTS,
                },
                {"type": "function_call_output", "call_id": "c1", "output": "here"},
            ],
            "tools": [{"type": "function", **_FUNCTION, "parameters": SCHEMA}],
        },
    ),
    "messages": (
        ANTHROPIC_MESSAGES,
        {
            "system": "Be brief.",
            "messages": [
                {"role": "user", "content": "Where is it?"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": "it"}}
                    ],
                },
                {
                    "role": "tool",
                    "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "here"}],
                },
            ],
            "tools": [{**_FUNCTION, "input_schema": SCHEMA}],
        },
    ),
}


def _content_of(dialect: Dialect, request: Any) -> Any:
    assert dialect.content is not None
    return dialect.content.asked(taken_down(request, dialect.content.request_fields))


def _messages(messages: Any) -> Any:
    return json.loads(as_json(messages))


@pytest.mark.parametrize("api", REQUESTS)
def test_a_conversation_reads_the_same_in_every_api(api: str) -> None:
    """Instructions stand apart where the API has them apart."""
    dialect, request = REQUESTS[api]
    content = _content_of(dialect, request)

    system = [{"role": "system", "parts": [SYSTEM]}]
    assert _messages(content.input) == [
        *(system if api == "chat" else []),
        {"role": "user", "parts": [QUESTION]},
        {"role": "assistant", "parts": [CALL]},
        {"role": "tool", "parts": [RESULT]},
    ]
    assert list(content.system) == ([] if api == "chat" else [SYSTEM])
    assert list(content.tools) == [TOOL]


def test_what_is_no_text_is_named_and_left_out() -> None:
    """An image is neither kept nor counted."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    request = {"messages": [{"role": "user", "content": [image, "hello"]}]}

    (asked,) = _content_of(OPENAI_CHAT, request).input

    assert asked["parts"] == [{"type": "image_url"}, {"type": "text", "content": "hello"}]


def test_prompts_of_a_completion_may_be_texts_or_token_ids() -> None:
    """Several texts are several messages; of ids nobody here knows the text."""
    request = {"prompt": ["one", [1, 2]]}

    assert [each["parts"] for each in _content_of(OPENAI_COMPLETIONS, request).input] == [
        [{"type": "text", "content": "one"}],
        [{"type": "tokens"}],
    ]


def test_what_is_taken_down_is_what_was_sent() -> None:
    """The caller's list may grow, its iterators are not consumed, and nothing else is read."""
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    contents = iter(["once"])
    request: dict[str, Any] = {"messages": messages, "tools": contents, "api_key": "secret"}

    body = taken_down(request, ("messages", "tools"))
    messages.append({"role": "assistant", "content": "later"})
    messages[0]["content"] = "changed"

    assert body == {"messages": [{"role": "user", "content": "hello"}], "tools": None}
    assert list(contents) == ["once"]


SENSELESS: list[Any] = [
    {},
    {"messages": None, "tools": 3, "input": 7, "prompt": 1, "system": 2},
    {"messages": ["hello", None], "tools": [None], "input": [None], "prompt": [None]},
    {"messages": [{"content": {"no": "list"}}], "tools": [{"function": 3}]},
    {"messages": [{"role": "assistant", "content": [None, 3], "tool_calls": [None, {}]}]},
]


@pytest.mark.parametrize("request_body", SENSELESS)
@pytest.mark.parametrize(
    "dialect",
    [OPENAI_CHAT, OPENAI_COMPLETIONS, OPENAI_RESPONSES, ANTHROPIC_MESSAGES],
    ids=lambda dialect: dialect.name,
)
def test_a_senseless_request_says_little(dialect: Dialect, request_body: Any) -> None:
    """A server answers it as it likes; here it must not raise."""
    content = _content_of(dialect, request_body)

    assert isinstance(as_json(content.input), str)


_TEXT = {"type": "text", "content": "It is here."}
_THOUGHT = {"type": "reasoning", "content": "Let me see."}

ANSWERS: dict[str, tuple[Dialect, Any, list[Any]]] = {
    "chat": (
        OPENAI_CHAT,
        {
            "choices": [
                {
                    "index": 0,
                    "message": {
                        "reasoning_content": "Let me see.",
                        "content": "It is here.",
                        "tool_calls": [
                            {"id": "c1", "function": {"name": "look_up", "arguments": ARGUMENTS}}
                        ],
                    },
                }
            ]
        },
        [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"index": 0, "delta": {"reasoning_content": "Let me "}}]},
            {"choices": [{"index": 0, "delta": {"reasoning_content": "see."}}]},
            {"choices": [{"index": 0, "delta": {"content": "It is "}}]},
            {"choices": [{"index": 0, "delta": {"content": "here."}}]},
            *(
                {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
                for call in (
                    {"index": 0, "id": "c1", "function": {"name": "look_up", "arguments": ""}},
                    {"index": 0, "function": {"arguments": '{"q":'}},
                    {"index": 0, "function": {"arguments": '"it"}'}},
                )
            ),
            {"choices": []},
        ],
    ),
    "responses": (
        OPENAI_RESPONSES,
        {
            "output": [
                {"type": "reasoning", "summary": [{"text": "Let me see."}]},
                {"type": "message", "content": [{"type": "output_text", "text": "It is here."}]},
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "look_up",
                    "arguments": ARGUMENTS,
                },
            ]
        },
        [
            {
                "type": "response.reasoning_summary_text.delta",
                "output_index": 0,
                "delta": "Let me see.",
            },
            {"type": "response.output_text.delta", "output_index": 1, "delta": "It is "},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "here."},
            {
                "type": "response.output_item.added",
                "output_index": 2,
                "item": {"type": "function_call", "call_id": "c1", "name": "look_up"},
            },
            *(
                {
                    "type": "response.function_call_arguments.delta",
                    "output_index": 2,
                    "delta": delta,
                }
                for delta in ('{"q":', '"it"}')
            ),
            # It says everything once more.
            {
                "type": "response.completed",
                "response": {"output": [{"type": "message", "content": [{"text": "again"}]}]},
            },
        ],
    ),
    "messages": (
        ANTHROPIC_MESSAGES,
        {
            "type": "message",
            "content": [
                {"type": "thinking", "thinking": "Let me see."},
                {"type": "text", "text": "It is here."},
                {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"q": "it"}},
            ],
        },
        [
            {"type": "message_start", "message": {"type": "message", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
            *(
                {"type": "content_block_delta", "index": index, "delta": delta}
                for index, delta in (
                    (0, {"type": "thinking_delta", "thinking": "Let me see."}),
                    (1, {"type": "text_delta", "text": "It is "}),
                    (1, {"type": "text_delta", "text": "here."}),
                )
            ),
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "id": "c1", "name": "look_up", "input": {}},
            },
            *(
                {
                    "type": "content_block_delta",
                    "index": 2,
                    "delta": {"type": "input_json_delta", "partial_json": part},
                }
                for part in ('{"q":', '"it"}')
            ),
            {"type": "content_block_stop", "index": 2},
        ],
    ),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", ANSWERS)
def test_an_answer_reads_the_same_in_every_api(api: str, *, streamed: bool) -> None:
    """Whole, or in chunks that cut it anywhere."""
    dialect, whole, chunks = ANSWERS[api]
    assert dialect.content is not None
    fragments = [
        fragment
        for each in (chunks if streamed else [whole])
        for fragment in dialect.content.fragments(each)
    ]

    assert _messages(said_in(fragments, ("tool_calls",))) == [
        {"role": "assistant", "parts": [_THOUGHT, _TEXT, CALL], "finish_reason": "tool_call"}
    ]


def test_several_choices_are_several_messages() -> None:
    """Their chunks come in any order; one that did not end leaves all without a reason."""
    assert OPENAI_COMPLETIONS.content is not None
    chunks = [
        {"choices": [{"index": 1, "text": "b"}]},
        {"choices": [{"index": 0, "text": "a"}]},
        {"choices": [{"index": 1, "text": "b"}]},
    ]
    fragments = [each for chunk in chunks for each in OPENAI_COMPLETIONS.content.fragments(chunk)]

    assert [message["parts"][0]["content"] for message in said_in(fragments, ("stop",))] == [
        "a",
        "bb",
    ]
    assert [message.get("finish_reason") for message in said_in(fragments, ("stop",))] == [
        None,
        None,
    ]


def test_arguments_that_are_no_json_stay_text() -> None:
    """A stream that was left in the middle of them ends anywhere."""
    assert OPENAI_CHAT.content is not None
    call = {"index": 0, "function": {"name": "look_up", "arguments": '{"q":'}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    ((said,)) = _messages(said_in(OPENAI_CHAT.content.fragments(chunk), ()))

    assert said["parts"] == [
        {"type": "tool_call", "id": None, "name": "look_up", "arguments": '{"q":'}
    ]
