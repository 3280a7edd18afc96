"""Chunks of the Mistral API are classified: as objects of its SDK, and as bytes."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from latspan._model.wire import ApiFormat, ChunkKind, FragmentKind
from latspan._model.wire.mistral_chat import MISTRAL_CHAT, MISTRAL_FIM
from latspan._model.wire.openai_chat import OPENAI_CHAT


class _Unset:
    """The SDK's sentinel for a field that the server did not send."""

    def __bool__(self) -> bool:
        return False


UNSET = _Unset()


def _objects(value: Any) -> Any:
    """Return JSON data as objects with attributes."""

    def as_object(fields: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(**fields)

    return json.loads(json.dumps(value), object_hook=as_object)


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [_text(words)]}


def _body(content: Any = "", reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": content, **delta}, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def _event(body: dict[str, Any]) -> Any:
    event = SimpleNamespace(data=_objects(body))
    for choice in event.data.choices:
        choice.delta.tool_calls = getattr(choice.delta, "tool_calls", UNSET)
    return event


CALL = [{"id": "f", "function": {"name": "look_up", "arguments": '{"q": 1}'}}]
KINDS: list[tuple[Any, ChunkKind]] = [
    (_body("Hello"), ChunkKind.VISIBLE),
    (_body([_text("Hello")]), ChunkKind.VISIBLE),
    (_body([_thinking("hm")]), ChunkKind.REASONING),
    (_body(tool_calls=CALL), ChunkKind.VISIBLE),
    (_body(), ChunkKind.EMPTY),
    (_body([_thinking("")]), ChunkKind.EMPTY),
    (_body([_text("")]), ChunkKind.EMPTY),
    (_body([{"type": "thinking", "thinking": []}]), ChunkKind.EMPTY),
    (_body([]), ChunkKind.EMPTY),
    ({"choices": []}, ChunkKind.EMPTY),
]


@pytest.mark.parametrize(("body", "kind"), KINDS)
def test_the_kind_of_an_event(body: dict[str, Any], kind: ChunkKind) -> None:
    assert MISTRAL_CHAT.classify_chunk(_event(body)) == kind


@pytest.mark.parametrize(("body", "kind"), KINDS)
def test_the_kind_of_a_chunk_as_bytes(body: dict[str, Any], kind: ChunkKind) -> None:
    """As a plain HTTP client reads it."""
    assert OPENAI_CHAT.stream is not None
    event = b"data: " + json.dumps(body).encode()
    assert OPENAI_CHAT.stream.classify_chunk(event) == kind
    assert OPENAI_CHAT.stream.classify_chunk(event.replace(b'": ', b'":')) == kind


@pytest.mark.parametrize(
    "parts",
    [
        [_thinking("hm"), _text("Hello")],
        [{"type": "reference", "reference_ids": [1]}],
    ],
)
def test_a_part_that_is_no_reasoning_is_visible(parts: Any) -> None:
    assert MISTRAL_CHAT.classify_chunk(_event(_body(parts))) == ChunkKind.VISIBLE


def test_the_openai_client_reads_the_parts_of_mistrals_server() -> None:
    """It validates nothing, so that a content is a list of mappings."""
    delta = SimpleNamespace(
        content=[_thinking("hm")], refusal=None, tool_calls=None, function_call=None, model_extra={}
    )
    choice = SimpleNamespace(index=0, delta=delta, finish_reason=None)
    chunk = SimpleNamespace(choices=[choice])

    assert OPENAI_CHAT.classify_chunk(chunk) == ChunkKind.REASONING
    assert OPENAI_CHAT.only_text is not None
    assert OPENAI_CHAT.only_text(chunk) == ChunkKind.REASONING
    assert OPENAI_CHAT.content is not None
    (fragment,) = OPENAI_CHAT.content.fragments(chunk)
    assert (fragment.kind, fragment.text) == (FragmentKind.REASONING, "hm")


@pytest.mark.parametrize(
    ("event", "only_text"),
    [
        (_event(_body("Hello")), True),
        (_event(_body("Hello", "stop")), False),
        (_event(_body()), False),
        (_event({"choices": []}), False),
        (SimpleNamespace(), False),
        (None, False),
    ],
)
def test_an_event_with_only_text_takes_the_fast_path(event: Any, *, only_text: bool) -> None:
    assert MISTRAL_CHAT.only_text is not None
    assert (MISTRAL_CHAT.only_text(event) > 0) is only_text


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(BaseModel):
    id: str
    model: str
    choices: list[Any]
    usage: _Usage | None = None


class _Event(BaseModel):
    data: _Chunk


def test_a_default_of_the_sdk_is_no_count() -> None:
    usage = _Usage.model_validate({"prompt_tokens": 3})
    event = _Event(data=_Chunk(id="c", model="m", choices=[], usage=usage))

    body = MISTRAL_CHAT.to_mapping(event)

    assert body == {"id": "c", "model": "m", "choices": [], "usage": {"prompt_tokens": 3}}
    counts = MISTRAL_CHAT.usage([body])
    assert counts is not None
    assert (counts.input, counts.output) == (3, None)


@pytest.mark.parametrize("api", [MISTRAL_CHAT, MISTRAL_FIM])
def test_odd_objects_have_no_fields_and_no_text(api: ApiFormat) -> None:
    assert api.content is not None
    for odd in (None, SimpleNamespace(), SimpleNamespace(data=None), 5):
        assert api.to_mapping(odd) in ({}, {"choices": []})
        assert list(api.content.fragments(odd)) == []
