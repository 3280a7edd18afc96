"""Responses of Google's ``generateContent`` are classified, and their fields are read."""

from __future__ import annotations

import json
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest

from latspan._model.tokens import counted_by_provider
from latspan._model.wire import ChunkKind, encode_event
from latspan._model.wire.gemini_generate import GEMINI_GENERATE_CONTENT as GEMINI


class Reason(StrEnum):
    """The SDK's finish reasons are members of an enumeration."""

    STOP = "STOP"
    FINISH_REASON_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"


_SNAKE = {
    "functionCall": "function_call",
    "inlineData": "inline_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "partialArgs": "partial_args",
    "finishReason": "finish_reason",
    "usageMetadata": "usage_metadata",
    "promptTokenCount": "prompt_token_count",
    "toolUsePromptTokenCount": "tool_use_prompt_token_count",
    "cachedContentTokenCount": "cached_content_token_count",
    "candidatesTokenCount": "candidates_token_count",
    "thoughtsTokenCount": "thoughts_token_count",
    "totalTokenCount": "total_token_count",
    "modelVersion": "model_version",
    "responseId": "response_id",
    "promptFeedback": "prompt_feedback",
    "blockReason": "block_reason",
}


def _as_object(event: dict[str, Any]) -> Any:
    """Return an object with the shape of the SDK's response."""

    def convert(fields: dict[str, Any]) -> Any:
        named = {_SNAKE.get(name, name): value for name, value in fields.items()}
        if "finish_reason" in named:
            named["finish_reason"] = Reason(named["finish_reason"])
        return SimpleNamespace(**named)

    return json.loads(json.dumps(event), object_hook=convert)


def _event(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0, **more}
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}


def _bytes(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode()


TRAP = {"parts": [{"text": ""}], "text": "no", "thought": True}

KINDS: list[tuple[dict[str, Any], ChunkKind]] = [
    (_event({"text": "Hello"}), ChunkKind.VISIBLE),
    (_event({"text": 'a "quote" \\ and a } brace'}), ChunkKind.VISIBLE),
    (_event({"text": "Hm", "thought": True}), ChunkKind.REASONING),
    (_event({"text": "Hm", "thoughtSignature": "c2ln", "thought": True}), ChunkKind.REASONING),
    (_event({"thought": True, "text": "Hm"}), ChunkKind.REASONING),
    (_event({"text": "Hi", "thoughtSignature": "c2ln"}), ChunkKind.VISIBLE),
    (_event({"text": "Hi", "thought": False}), ChunkKind.VISIBLE),
    (_event({"text": "", "thoughtSignature": "c2ln"}), ChunkKind.EMPTY),
    (_event({"text": ""}, finishReason="STOP"), ChunkKind.EMPTY),
    (_event({"text": "Hm", "thought": True}, {"text": "Hi"}), ChunkKind.VISIBLE),
    (_event({"text": "Hm", "thought": True}, {"text": ""}), ChunkKind.REASONING),
    (_event({"functionCall": {"name": "f", "args": TRAP}}), ChunkKind.VISIBLE),
    (_event({"functionCall": {"partialArgs": [{"stringValue": "a"}]}}), ChunkKind.VISIBLE),
    (_event({"executableCode": {"code": "1"}}), ChunkKind.VISIBLE),
    (_event({"inlineData": {"mimeType": "image/png", "data": "QQ=="}}), ChunkKind.VISIBLE),
    (_event({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}), ChunkKind.EMPTY),
    (_event(), ChunkKind.EMPTY),
    ({"candidates": [{"finishReason": "STOP"}]}, ChunkKind.EMPTY),
    ({"usageMetadata": {"promptTokenCount": 3}}, ChunkKind.EMPTY),
    ({"candidates": []}, ChunkKind.EMPTY),
]


@pytest.mark.parametrize(("event", "kind"), KINDS)
def test_an_event_has_the_same_kind_as_object_and_as_bytes(
    event: dict[str, Any], kind: ChunkKind
) -> None:
    """The SDK returns objects, a bare HTTP client returns bytes."""
    stream = GEMINI.stream
    assert stream is not None
    assert GEMINI.classify_chunk(_as_object(event)) == kind
    assert GEMINI.classify_chunk(event) == kind
    assert stream.classify_chunk(_bytes(event)) == kind
    assert stream.classify_chunk(encode_event(json.dumps(event, indent=1))) == kind


def test_text_beside_the_parts_is_not_a_token() -> None:
    """The last event may quote the sources that support the answer."""
    event = _event({"text": ""}, groundingMetadata={"segment": {"text": "quoted"}})
    assert GEMINI.stream is not None
    assert GEMINI.stream.classify_chunk(_bytes(event)) == ChunkKind.EMPTY


def test_a_long_event_is_not_parsed() -> None:
    """It holds an image, whose text is not searched for keys."""
    event = _event({"inlineData": {"mimeType": "image/png", "data": "A" * 100_000}})
    assert GEMINI.stream is not None
    assert GEMINI.stream.classify_chunk(_bytes(event)) == ChunkKind.VISIBLE


def test_a_chunk_with_a_finish_reason_is_not_only_text() -> None:
    """Its other fields are copied."""
    assert GEMINI.only_text is not None
    assert GEMINI.only_text(_as_object(_event({"text": "a"}))) == ChunkKind.VISIBLE
    assert GEMINI.only_text(_as_object(_event({"text": "a"}, finishReason="STOP"))) == 0
    unspecified = _event({"text": "a"}, finishReason="FINISH_REASON_UNSPECIFIED")
    assert GEMINI.only_text(_as_object(unspecified)) == ChunkKind.VISIBLE
    assert GEMINI.only_text(_as_object({"candidates": []})) == 0


FIRST = {**_event({"text": "a"}), "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}}
LAST = {
    **_event({"text": "b"}, finishReason="STOP"),
    "usageMetadata": {
        "promptTokenCount": 9,
        "toolUsePromptTokenCount": 2,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 23,
    },
}


@pytest.mark.parametrize("shape", [_as_object, dict, _bytes])
def test_the_last_event_has_the_counts(shape: Any) -> None:
    """Reasoning is counted apart from the candidates, and the tools' results from the prompt."""
    bodies = [GEMINI.to_mapping(shape(each)) for each in (FIRST, LAST)]
    counts = counted_by_provider(GEMINI.usage(bodies))

    assert (counts.input, counts.cached) == (11, 4)
    assert (counts.output, counts.reasoning) == (12, 7)
    assert GEMINI.is_finished(bodies)
    assert GEMINI.finish_reasons(bodies) == {0: "STOP"}
    assert set(GEMINI.attributes(bodies).values()) == {"r1", "gemini-x"}


def test_the_output_of_an_unfinished_response_is_unknown() -> None:
    """Every event has a count, but only the last one's is final."""
    usage = {**FIRST["usageMetadata"], "candidatesTokenCount": 1}
    bodies = [GEMINI.to_mapping({**FIRST, "usageMetadata": usage})]
    counts = counted_by_provider(GEMINI.usage(bodies))

    assert (counts.input, counts.output) == (9, None)
    assert not GEMINI.is_finished(bodies)


def test_a_response_may_end_inside_the_reasoning() -> None:
    """Google omits the count of the candidates if it is zero."""
    usage = {"promptTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 7}
    body = GEMINI.to_mapping({**_event(finishReason="MAX_TOKENS"), "usageMetadata": usage})
    counts = counted_by_provider(GEMINI.usage([body]))
    assert (counts.output, counts.reasoning) == (4, 4)


@pytest.mark.parametrize("shape", [_as_object, dict, _bytes])
def test_a_blocked_prompt_is_a_complete_response(shape: Any) -> None:
    """It has no candidate, and the reason in its place."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}
    bodies = [GEMINI.to_mapping(shape(blocked))]
    assert GEMINI.is_finished(bodies)
    assert GEMINI.finish_reasons(bodies) == {0: "SAFETY"}


def test_every_candidate_must_finish() -> None:
    """A response may have several."""
    one = {"content": {"parts": [{"text": "a"}]}, "index": 1}
    both = {"candidates": [{"index": 0, "finishReason": "STOP"}, one]}
    assert not GEMINI.is_finished([GEMINI.to_mapping(both)])


def test_a_request_may_ask_for_several_candidates() -> None:
    """Without the setting it asks for one."""
    assert GEMINI.choices_requested({"generationConfig": {"candidateCount": 3}}) == 3
    for request in ({}, {"generationConfig": 4}, {"generationConfig": {"candidateCount": "3"}}):
        assert GEMINI.choices_requested(request) == 1


HOSTILE: list[Any] = [
    [],
    {"candidates": 3},
    {"candidates": [3, None, {"content": 4}, {"content": {"parts": "x"}}]},
    {"candidates": [{"content": {"parts": [1, None, {"text": 5}, {"functionCall": "x"}]}}]},
    {"candidates": [{"finishReason": {"a": 1}, "index": "b"}]},
    {"usageMetadata": "much", "promptFeedback": []},
    {"usageMetadata": {"promptTokenCount": "9", "totalTokenCount": [1]}},
    {"error": "x"},
]


@pytest.mark.parametrize("event", HOSTILE)
def test_hostile_events_never_raise(event: Any) -> None:
    """A server may send anything."""
    assert GEMINI.stream is not None
    for each in (event, b"data: " + json.dumps(event).encode(), b"data: {", None):
        if isinstance(each, bytes):
            GEMINI.stream.classify_chunk(each)
        else:
            GEMINI.classify_chunk(each)
        bodies = [GEMINI.to_mapping(each)]
        GEMINI.usage(bodies)
        assert not GEMINI.is_finished(bodies)
