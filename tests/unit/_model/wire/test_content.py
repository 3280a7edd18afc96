"""The content of requests and responses is read in one format for every API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from latspan._model.wire import ApiFormat, as_data, as_json, copy_fields, output_messages
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS
from latspan._model.wire.openai_responses import OPENAI_RESPONSES

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

REQUESTS: dict[str, tuple[ApiFormat, Any]] = {
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


def _content_of(dialect: ApiFormat, request: Any) -> Any:
    assert dialect.content is not None
    taken = copy_fields(request, dialect.content.request_fields)
    assert taken is not None
    return dialect.content.request_content(taken)


def _messages(messages: Any) -> Any:
    return json.loads(as_json(messages))


@pytest.mark.parametrize("api", REQUESTS)
def test_a_conversation_is_read_equally_from_every_api(api: str) -> None:
    """Instructions are separate if the API has a separate field for them."""
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


PICTURE: Any = {"type": "blob", "mime_type": "image/png", "modality": "image", "content": "QUJD"}


def _blob(modality: str, mime_type: str | None) -> Any:
    return {"type": "blob", "mime_type": mime_type, "modality": modality, "content": "QUJD"}


MEDIA: dict[str, tuple[ApiFormat, Any, Any]] = {
    "chat image in it": (
        OPENAI_CHAT,
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        PICTURE,
    ),
    "chat image, percent-encoded": (
        OPENAI_CHAT,
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,A%42C"}},
        _blob("image", "image/svg+xml"),
    ),
    "chat image elsewhere": (
        OPENAI_CHAT,
        {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
        {"type": "uri", "mime_type": None, "modality": "image", "uri": "https://host/a.png"},
    ),
    "chat audio": (
        OPENAI_CHAT,
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        _blob("audio", "audio/mpeg"),
    ),
    "chat file in it": (
        OPENAI_CHAT,
        {"type": "file", "file": {"file_data": "QUJD", "filename": "a.pdf"}},
        _blob("document", "application/pdf"),
    ),
    "chat file uploaded before": (
        OPENAI_CHAT,
        {"type": "file", "file": {"file_id": "f1"}},
        {"type": "file", "mime_type": None, "modality": "document", "file_id": "f1"},
    ),
    "responses image": (
        OPENAI_RESPONSES,
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD", "detail": "auto"},
        PICTURE,
    ),
    "responses image uploaded before": (
        OPENAI_RESPONSES,
        {"type": "input_image", "file_id": "f1"},
        {"type": "file", "mime_type": None, "modality": "image", "file_id": "f1"},
    ),
    "responses file elsewhere": (
        OPENAI_RESPONSES,
        {"type": "input_file", "file_url": "https://host/a.pdf"},
        {"type": "uri", "mime_type": None, "modality": "document", "uri": "https://host/a.pdf"},
    ),
    "messages image in it": (
        ANTHROPIC_MESSAGES,
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        },
        PICTURE,
    ),
    "messages image elsewhere": (
        ANTHROPIC_MESSAGES,
        {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
        {"type": "uri", "mime_type": None, "modality": "image", "uri": "https://host/a.png"},
    ),
    "messages document": (
        ANTHROPIC_MESSAGES,
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
        },
        _blob("document", "application/pdf"),
    ),
    "messages document uploaded before": (
        ANTHROPIC_MESSAGES,
        {"type": "document", "source": {"type": "file", "file_id": "f1"}},
        {"type": "file", "mime_type": None, "modality": "document", "file_id": "f1"},
    ),
}


def _asking(dialect: ApiFormat, block: Any) -> Any:
    """Return the message that a request with one block contains."""
    messages = [{"role": "user", "content": [block, {"type": "text", "text": "hello"}]}]
    (asked,) = _content_of(dialect, {"messages": messages, "input": messages}).input
    return asked


@pytest.mark.parametrize("name", MEDIA)
def test_images_audio_and_files_become_parts_of_the_conventions(name: str) -> None:
    """As inline data, as an address, or as an ID of an uploaded file."""
    dialect, block, part = MEDIA[name]

    asked = _asking(dialect, block)

    assert asked["parts"] == [part, {"type": "text", "content": "hello"}]
    assert as_data([asked], media=True) == [asked]


@pytest.mark.parametrize("name", MEDIA)
def test_without_media_only_the_kind_is_kept(name: str) -> None:
    """Neither the data nor the address."""
    dialect, block, part = MEDIA[name]
    kept = {field: part[field] for field in ("type", "mime_type", "modality")}

    ((message),) = as_data([_asking(dialect, block)], media=False)

    assert message["parts"] == [kept, {"type": "text", "content": "hello"}]


def test_media_in_a_tool_result_is_omitted_too() -> None:
    """A tool may return an image, in a list or alone."""
    block = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
    screen = {"type": "computer_screenshot", "image_url": "data:image/png;base64,QUJD"}
    chat = {"messages": [{"role": "tool", "tool_call_id": "c1", "content": [block]}]}
    responses = {"input": [{"type": "computer_call_output", "call_id": "c1", "output": screen}]}

    for dialect, request in ((OPENAI_CHAT, chat), (OPENAI_RESPONSES, responses)):
        asked = _content_of(dialect, request).input
        assert "QUJD" in as_json(asked)
        assert "QUJD" not in as_json(asked, media=False)


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "inside"},
        {"type": "content", "content": "inside"},
        {"type": "content", "content": [{"type": "text", "text": "inside"}]},
    ],
)
def test_text_inside_a_document_is_text(source: Any) -> None:
    """It is read like any other text of the message, and is counted."""
    asked = _asking(ANTHROPIC_MESSAGES, {"type": "document", "source": source, "title": "t"})

    assert asked["parts"][0] == {"type": "text", "content": "inside"}


def test_a_message_without_a_role_is_omitted() -> None:
    """No API accepts one, and a role must not be invented."""
    senseless = [{"content": "hello"}, {"role": None, "content": "hello"}]
    for dialect in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC_MESSAGES):
        assert _content_of(dialect, {"messages": senseless, "input": senseless}).input == ()


def test_empty_reasoning_is_not_a_part() -> None:
    """A provider that hides its reasoning sends it empty."""
    item: Any = {"type": "reasoning", "id": "r1", "summary": [], "encrypted_content": "x"}
    thought = {"type": "thinking", "thinking": "", "signature": "x"}
    told = {"role": "assistant", "content": [thought]}

    assert _content_of(OPENAI_RESPONSES, {"input": [item]}).input == ()
    assert _content_of(ANTHROPIC_MESSAGES, {"messages": [told]}).input == (
        {"role": "assistant", "parts": []},
    )
    assert OPENAI_RESPONSES.content is not None
    whole = OPENAI_RESPONSES.content.fragments({"output": [item]})
    assert output_messages(whole, {0: "stop"}) == (
        {"role": "assistant", "parts": [], "finish_reason": "stop"},
    )


def test_tools_that_are_not_functions_have_their_type_and_name() -> None:
    """OpenAI's custom tools take free text; Anthropic's custom tools are functions."""
    custom = {"name": "run", "description": "Runs", "format": {"type": "text"}}
    nested = {"type": "custom", "custom": custom}
    assert _content_of(OPENAI_CHAT, {"tools": [nested]}).tools == (
        {"type": "custom", "name": "run"},
    )
    assert _content_of(
        OPENAI_RESPONSES, {"tools": [{"type": "custom", **custom}, {"type": "web_search"}]}
    ).tools == ({"type": "custom", "name": "run"}, {"type": "web_search", "name": "web_search"})
    function = {"type": "custom", **_FUNCTION, "input_schema": SCHEMA}
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert _content_of(ANTHROPIC_MESSAGES, {"tools": [function, search]}).tools == (TOOL, search)


def test_legacy_functions_are_read() -> None:
    """Their definitions, a call and its result."""
    call = {"name": "look_up", "arguments": ARGUMENTS}
    request = {
        "functions": [{**_FUNCTION, "parameters": SCHEMA}],
        "messages": [
            {"role": "assistant", "content": None, "function_call": call},
            {"role": "function", "name": "look_up", "content": "here"},
        ],
    }
    content = _content_of(OPENAI_CHAT, request)

    assert list(content.tools) == [TOOL]
    assert _messages(content.input) == [
        {"role": "assistant", "parts": [{**CALL, "id": None}]},
        {"role": "function", "parts": [{**RESULT, "id": None}], "name": "look_up"},
    ]


def test_a_custom_tool_call_has_text_arguments() -> None:
    """In the conversation so far, and in a response."""
    call = {"id": "c1", "type": "custom", "custom": {"name": "run", "input": "ls"}}
    part = {"type": "tool_call", "id": "c1", "name": "run", "arguments": "ls"}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}

    assert _content_of(OPENAI_CHAT, {"messages": [said]}).input[0]["parts"] == [part]
    assert OPENAI_CHAT.content is not None
    whole = OPENAI_CHAT.content.fragments({"choices": [{"index": 0, "message": said}]})
    assert output_messages(whole, {})[0]["parts"] == [part]


SEARCH: Any = {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"q": "it"}}
DRAWN: Any = {
    "type": "image_generation_call",
    "id": "i1",
    "status": "completed",
    "output_format": "png",
    "result": "QUJD",
}
CLICK: Any = {
    "type": "computer_call",
    "id": "x1",
    "call_id": "c2",
    "status": "completed",
    "action": {"type": "click", "x": 1, "y": 2},
}
COMPACTED: Any = {"type": "compaction", "id": "k1", "encrypted_content": "x"}
ITEMS: list[tuple[Any, list[Any]]] = [
    (
        SEARCH,
        [
            {
                "type": "server_tool_call",
                "id": "w1",
                "name": "web_search",
                "server_tool_call": {
                    "type": "web_search",
                    "status": "completed",
                    "action": {"q": "it"},
                },
            }
        ],
    ),
    (
        DRAWN,
        [
            {
                "type": "server_tool_call",
                "id": "i1",
                "name": "image_generation",
                "server_tool_call": {
                    "type": "image_generation",
                    "status": "completed",
                    "output_format": "png",
                },
            },
            PICTURE,
        ],
    ),
    (
        CLICK,
        [
            {
                "type": "tool_call",
                "id": "c2",
                "name": "computer",
                "arguments": {"action": {"type": "click", "x": 1, "y": 2}},
            }
        ],
    ),
    (COMPACTED, [{"type": "compaction", "id": "k1"}]),
]


@pytest.mark.parametrize(("item", "parts"), ITEMS, ids=[item["type"] for item, _ in ITEMS])
def test_openais_built_in_tools_are_read_equally_everywhere(item: Any, parts: list[Any]) -> None:
    """In the conversation so far, in a whole response, and in a stream."""
    shape = OPENAI_RESPONSES.content
    assert shape is not None
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}

    (asked,) = _content_of(OPENAI_RESPONSES, {"input": [item]}).input
    (whole,) = output_messages(shape.fragments({"output": [item]}), {})
    (streamed,) = output_messages(shape.fragments(done), {})

    for told in (asked, whole, streamed):
        assert _messages([told]) == [{"role": "assistant", "parts": parts}]


USED: Any = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "it"}}
FOUND: Any = {
    "type": "web_search_tool_result",
    "tool_use_id": "s1",
    "content": [{"type": "web_search_result", "url": "https://host"}],
}
ASKED_MCP: Any = {
    "type": "mcp_tool_use",
    "id": "s1",
    "name": "echo",
    "server_name": "mine",
    "input": {"q": "it"},
}
BLOCKS: list[tuple[Any, Any]] = [
    (
        USED,
        {
            "type": "server_tool_call",
            "id": "s1",
            "name": "web_search",
            "server_tool_call": {"type": "web_search", "input": {"q": "it"}},
        },
    ),
    (
        FOUND,
        {
            "type": "server_tool_call_response",
            "id": "s1",
            "server_tool_call_response": {"type": "web_search", "content": FOUND["content"]},
        },
    ),
    (
        ASKED_MCP,
        {
            "type": "server_tool_call",
            "id": "s1",
            "name": "echo",
            "server_tool_call": {
                "type": "mcp_tool_use",
                "server_name": "mine",
                "arguments": {"q": "it"},
            },
        },
    ),
]


@pytest.mark.parametrize(("block", "part"), BLOCKS, ids=[block["type"] for block, _ in BLOCKS])
def test_anthropics_built_in_tools_are_read_equally_everywhere(block: Any, part: Any) -> None:
    """In the conversation, in a whole response, and in a stream with arguments in deltas."""
    shape = ANTHROPIC_MESSAGES.content
    assert shape is not None
    begun: Any = {**block, "input": {}} if "input" in block else block
    chunks: list[Any] = [
        {"type": "content_block_start", "index": 0, "content_block": begun},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": words},
            }
            for words in ('{"q":', '"it"}')
            if "input" in block
        ),
    ]
    request = {"messages": [{"role": "assistant", "content": [block]}]}

    (asked,) = _content_of(ANTHROPIC_MESSAGES, request).input
    (whole,) = output_messages(shape.fragments({"type": "message", "content": [block]}), {})
    (streamed,) = output_messages([each for chunk in chunks for each in shape.fragments(chunk)], {})

    for told in (asked, whole, streamed):
        assert _messages([told]) == [{"role": "assistant", "parts": [part]}]


def test_prompts_of_a_completion_may_be_text_or_token_ids() -> None:
    """Several texts are several messages; the text of token IDs is unknown."""
    request = {"prompt": ["one", [1, 2]]}

    assert [each["parts"] for each in _content_of(OPENAI_COMPLETIONS, request).input] == [
        [{"type": "text", "content": "one"}],
        [{"type": "tokens"}],
    ]


def test_copied_fields_do_not_change_later() -> None:
    """The caller may change its list, and only the named fields are read."""
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    request: dict[str, Any] = {"messages": messages, "tools": object(), "api_key": "secret"}

    body = copy_fields(request, ("messages", "tools"))
    messages.append({"role": "assistant", "content": "later"})
    messages[0]["content"] = "changed"

    assert body == {"messages": [{"role": "user", "content": "hello"}], "tools": None}


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
def test_a_malformed_request_does_not_raise(dialect: ApiFormat, request_body: Any) -> None:
    """The server decides on it."""
    content = _content_of(dialect, request_body)

    assert isinstance(as_json(content.input), str)


_TEXT = {"type": "text", "content": "It is here."}
_THOUGHT = {"type": "reasoning", "content": "Let me see."}

ANSWERS: dict[str, tuple[ApiFormat, Any, list[Any]]] = {
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
            # It repeats the whole content.
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
def test_a_response_is_read_equally_from_every_api(api: str, *, streamed: bool) -> None:
    """As a whole, or in chunks that are split anywhere."""
    dialect, whole, chunks = ANSWERS[api]
    assert dialect.content is not None
    fragments = [
        fragment
        for each in (chunks if streamed else [whole])
        for fragment in dialect.content.fragments(each)
    ]

    assert _messages(output_messages(fragments, {0: "tool_calls"})) == [
        {"role": "assistant", "parts": [_THOUGHT, _TEXT, CALL], "finish_reason": "tool_call"}
    ]


def test_several_choices_are_several_messages() -> None:
    """Their chunks arrive in any order, and only a finished choice has a reason."""
    assert OPENAI_COMPLETIONS.content is not None
    chunks = [
        {"choices": [{"index": 1, "text": "b"}]},
        {"choices": [{"index": 0, "text": "a"}]},
        {"choices": [{"index": 1, "text": "b"}]},
    ]
    fragments = [each for chunk in chunks for each in OPENAI_COMPLETIONS.content.fragments(chunk)]

    assert output_messages(fragments, {1: "stop"}) == (
        {"role": "assistant", "parts": [{"type": "text", "content": "a"}]},
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "bb"}],
            "finish_reason": "stop",
        },
    )


def test_an_empty_choice_is_a_message_too() -> None:
    """A model may end immediately; its empty text and reasoning are not parts."""
    assert OPENAI_CHAT.content is not None
    delta = {"content": "", "reasoning_content": ""}
    fragments = OPENAI_CHAT.content.fragments({"choices": [{"index": 0, "delta": delta}]})

    assert output_messages(fragments, {0: "stop", 1: "length"}) == (
        {"role": "assistant", "parts": [], "finish_reason": "stop"},
        {"role": "assistant", "parts": [], "finish_reason": "length"},
    )


def test_invalid_json_arguments_stay_text() -> None:
    """A stream that is closed early can end anywhere in them."""
    assert OPENAI_CHAT.content is not None
    call = {"index": 0, "function": {"name": "look_up", "arguments": '{"q":'}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    ((said,)) = _messages(output_messages(OPENAI_CHAT.content.fragments(chunk), {}))

    assert said["parts"] == [
        {"type": "tool_call", "id": None, "name": "look_up", "arguments": '{"q":'}
    ]


def _conversation(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "user", "parts": [{"type": "text", "content": each}]} for each in texts]


def test_long_content_is_cut_inside_and_remains_valid_json() -> None:
    conversation = _conversation("short", "é" * 10_000, "last")

    written = as_json(conversation, max_length=9_000)

    assert 8_900 < len(written) <= 9_000
    short, cut, last = json.loads(written)
    assert (short, last) == (conversation[0], conversation[2])
    assert cut["parts"][0]["content"] in "é" * 10_000


def test_the_longest_texts_are_cut_and_others_kept() -> None:
    conversation = _conversation("a" * 4_000, "b" * 400, "c" * 4_000, '"' * 4_000)

    written = as_json(conversation, max_length=6_000)

    assert len(written) <= 6_000
    a, b, c, quotes = (each["parts"][0]["content"] for each in json.loads(written))
    assert b == "b" * 400
    assert 1_500 < len(a) == len(c) < 2_000
    # Each quote takes two characters of JSON.
    assert len(a) // 2 - 2 <= len(quotes) <= len(a) // 2


def test_the_last_of_too_many_messages_are_kept() -> None:
    conversation = _conversation(*(f"message {number}" for number in range(1_000)))

    written = json.loads(as_json(conversation, max_length=2_000))

    assert written == conversation[-len(written) :]
    assert len(written) > 20


def test_media_is_omitted_before_text_is_cut() -> None:
    kind = {"type": "blob", "mime_type": "image/png", "modality": "image"}
    picture = {**kind, "content": "A" * 9_000}
    text = {"type": "text", "content": "t" * 3_000}
    conversation = [{"role": "user", "parts": [picture, text]}]

    (message,) = json.loads(as_json(conversation, max_length=4_000))

    assert message["parts"] == [kind, text]


def test_an_event_is_limited_to_the_length_of_the_attribute() -> None:
    conversation = _conversation("x" * 10_000, "last")

    data = as_data(conversation, media=False, max_length=1_000)

    assert data == json.loads(as_json(conversation, max_length=1_000))
    assert len(json.dumps(data, separators=(",", ":"))) <= 1_000


@pytest.mark.parametrize(
    "messages",
    [
        iter([{"role": "user", "content": "hi"}]),
        [{"role": "user", "content": iter([{"type": "text", "text": "hi"}])}],
    ],
)
def test_an_iterator_is_left_to_its_reader(messages: Any) -> None:
    assert copy_fields({"messages": messages, "tools": []}, ("messages", "tools")) is None
    (message,) = messages
    assert list(message["content"]) in (list("hi"), [{"type": "text", "text": "hi"}])


class _UserMessage(BaseModel):
    role: str = "user"
    content: str


def test_the_role_of_a_message_may_be_a_default_of_the_sdk() -> None:
    """It is sent, although the caller has not set it."""
    request = {"messages": [_UserMessage(content="hi")]}
    assert copy_fields(request, ("messages",)) == {"messages": [{"role": "user", "content": "hi"}]}


def test_a_cyclic_structure_is_not_copied() -> None:
    """No client can send it, and copying it would never end."""
    node: dict[str, Any] = {"role": "user"}
    node["children"] = [{"parent": node, "siblings": node} for _ in range(3)]

    assert copy_fields({"messages": [node]}, ("messages",)) is None


def test_repeated_objects_are_not_cyclic() -> None:
    text = {"role": "user", "content": "hi"}
    assert copy_fields({"messages": [text, text]}, ("messages",)) == {"messages": [text, text]}


@pytest.mark.parametrize("arguments", ['{"a":NaN}', "[Infinity, 1]"])
def test_arguments_with_numbers_outside_json_stay_text(arguments: str) -> None:
    part = {"type": "tool_call", "arguments": arguments}

    (message,) = json.loads(as_json([{"role": "assistant", "parts": [part]}]))

    assert message["parts"][0]["arguments"] == arguments


def test_a_number_outside_json_becomes_text() -> None:
    said = as_json([{"role": "user", "parts": [{"type": "x", "n": float("nan"), "m": 1.5}]}])

    assert json.loads(said)[0]["parts"] == [{"type": "x", "n": "nan", "m": 1.5}]


def _call_of(**call: Any) -> Any:
    delta = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look_up"}, **call}]}
    return {"choices": [{"index": 0, "delta": {"content": "So.", **delta}}]}


@pytest.mark.parametrize(
    "chunk",
    [
        _call_of(function={"name": "look_up", "arguments": {"q": "it"}}),
        _call_of(index={"odd": []}, function={"name": "look_up", "arguments": ARGUMENTS}),
    ],
)
def test_an_odd_tool_call_does_not_affect_other_content(chunk: Any) -> None:
    """Some servers send objects where the API has text, or an index that is not a number."""
    assert OPENAI_CHAT.content is not None
    (said,) = output_messages(OPENAI_CHAT.content.fragments(chunk), {})

    text, call = json.loads(as_json([said]))[0]["parts"]
    assert text == {"type": "text", "content": "So."}
    assert (call["name"], call["arguments"]) == ("look_up", {"q": "it"})
