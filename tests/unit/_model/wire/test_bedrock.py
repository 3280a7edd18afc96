"""Events of Amazon Bedrock are classified, and counts and latencies are read from the last ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan._model import evidence as _evidence
from latspan._model.wire import ApiFormat, ChunkKind, ResponseMetadata, error_in
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE


def _delta(**delta: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta, "p": "abcdef"}}


EVENTS: list[tuple[dict[str, Any], ChunkKind]] = [
    (_delta(text="Hello"), ChunkKind.VISIBLE),
    (_delta(text=""), ChunkKind.EMPTY),
    (_delta(toolUse={"input": '{"q'}), ChunkKind.VISIBLE),
    (_delta(toolUse={"input": ""}), ChunkKind.EMPTY),
    (_delta(reasoningContent={"text": "Hm"}), ChunkKind.REASONING),
    (_delta(reasoningContent={"signature": "c2ln"}), ChunkKind.EMPTY),
    ({"messageStart": {"role": "assistant"}}, ChunkKind.EMPTY),
    (
        {"contentBlockStart": {"start": {"toolUse": {"name": "f", "toolUseId": "1"}}}},
        ChunkKind.EMPTY,
    ),
    ({"contentBlockStop": {"contentBlockIndex": 0}}, ChunkKind.EMPTY),
    ({"messageStop": {"stopReason": "end_turn"}}, ChunkKind.EMPTY),
]


@pytest.mark.parametrize(("event", "kind"), EVENTS)
def test_an_event_of_converse_has_the_same_kind_as_mapping_and_as_bytes(
    event: dict[str, Any], kind: ChunkKind
) -> None:
    """boto3 returns mappings; the reader of messages returns JSON."""
    assert BEDROCK_CONVERSE.stream is not None
    assert BEDROCK_CONVERSE.classify_chunk(event) == kind
    assert BEDROCK_CONVERSE.stream.classify_chunk(_as_text(event)) == kind


def _as_text(event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


METRICS = {
    "amazon-bedrock-invocationMetrics": {
        "inputTokenCount": 9,
        "outputTokenCount": 4,
        "invocationLatency": 700,
        "firstByteLatency": 300,
    }
}

ANTHROPIC: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 4},
    },
    {"type": "message_stop", **METRICS},
]
NOVA: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    _delta(text="Hi"),
    {"messageStop": {"stopReason": "end_turn"}},
    {"metadata": {"usage": {"inputTokens": 9, "outputTokens": 4}, "metrics": {}}, **METRICS},
]
TITAN: list[dict[str, Any]] = [
    {"outputText": "Hi", "index": 0, "completionReason": None},
    {"outputText": "", "index": 0, "completionReason": "FINISH", **METRICS},
]
LLAMA: list[dict[str, Any]] = [
    {"generation": "Hi", "prompt_token_count": 9, "stop_reason": None},
    {"generation": "", "stop_reason": "stop", **METRICS},
]
MISTRAL: list[dict[str, Any]] = [
    {"outputs": [{"text": "Hi", "stop_reason": None}]},
    {"outputs": [{"text": "", "stop_reason": "stop"}], **METRICS},
]
LARGE: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "message": {"content": "Hi"}, "stop_reason": None}]},
    {"choices": [{"index": 0, "message": {"content": ""}, "stop_reason": "stop"}], **METRICS},
]
OPEN: list[dict[str, Any]] = [
    {"id": "c1", "choices": [{"index": 0, "delta": {"reasoning": "Hm"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], **METRICS},
]

MODELS = {
    "anthropic": (ANTHROPIC, [0, 0, 1, 2, 0, 0, 0], "end_turn", 8),
    "nova": (NOVA, [0, 2, 0, 0], "end_turn", 9),
    "titan": (TITAN, [2, 0], "FINISH", 9),
    "llama": (LLAMA, [2, 0], "stop", 9),
    "mistral": (MISTRAL, [2, 0], "stop", 9),
    "mistral large": (LARGE, [2, 0], "stop", 9),
    "an open model": (OPEN, [1, 2, 0], "stop", 9),
}


def _as_boto3(event: dict[str, Any]) -> Any:
    return {"chunk": {"bytes": json.dumps(event).encode()}}


def _as_message(event: dict[str, Any]) -> bytes:
    return b'{"chunk":%s}' % json.dumps(event).encode()


@pytest.mark.parametrize("shape", [_as_boto3, _as_message])
@pytest.mark.parametrize(("events", "kinds", "reason", "prompt"), MODELS.values(), ids=list(MODELS))
def test_the_formats_of_the_models_are_read(
    events: list[dict[str, Any]], kinds: list[int], reason: str, prompt: int, shape: Any
) -> None:
    """Kinds, finish reason, counts and latencies; the first event identifies the stream."""
    stream = BEDROCK_INVOKE.stream
    assert stream is not None
    shaped = [shape(event) for event in events]
    classify = stream.classify_chunk if shape is _as_message else BEDROCK_INVOKE.classify_chunk
    assert [classify(each) for each in shaped] == kinds
    assert stream.opens.search(_as_message(events[0]))

    bodies = tuple(BEDROCK_INVOKE.to_mapping(each) for each in shaped)
    usage = BEDROCK_INVOKE.usage(bodies)
    assert usage is not None
    assert (usage.input, usage.output) == (prompt, 4)
    assert BEDROCK_INVOKE.finish_reasons(bodies) == {0: reason}
    assert BEDROCK_INVOKE.is_finished(bodies)
    assert not BEDROCK_INVOKE.is_finished(bodies[:1])
    (reported,) = _evidence.read(ResponseMetadata(streamed=True, bodies=bodies))
    assert (reported.system, reported.total_ns) == ("bedrock", 700_000_000)
    assert reported.raw == {"invocationLatency": 700, "firstByteLatency": 300}


@pytest.mark.parametrize("text", [b"plain words", b'{"answer":{"a":1}}', b"[]", b""])
def test_the_chunks_of_an_agent_are_not_a_models(text: bytes) -> None:
    """An agent sends its text in an event of the same name."""
    assert BEDROCK_INVOKE.stream is not None
    assert not BEDROCK_INVOKE.stream.opens.search(b'{"chunk":%s}' % text)


METADATA = {
    "metadata": {
        "usage": {
            "inputTokens": 5,
            "outputTokens": 4,
            "totalTokens": 12,
            "cacheReadInputTokens": 2,
            "cacheWriteInputTokens": 1,
        },
        "metrics": {"latencyMs": 551},
    }
}


@pytest.mark.parametrize("shape", [dict, _as_text])
def test_converse_ends_with_its_metadata(shape: Any) -> None:
    """The input of the conventions includes cached tokens."""
    stop = {"messageStop": {"stopReason": "max_tokens"}}
    events: list[dict[str, Any]] = [{"messageStart": {}}, stop, METADATA]
    bodies = tuple(BEDROCK_CONVERSE.to_mapping(shape(each)) for each in events)
    usage = BEDROCK_CONVERSE.usage(bodies)
    (reported,) = _evidence.read(ResponseMetadata(streamed=True, bodies=bodies))

    assert usage is not None
    assert (usage.input, usage.cached, usage.cache_write, usage.output) == (8, 2, 1, 4)
    assert BEDROCK_CONVERSE.finish_reasons(bodies) == {0: "max_tokens"}
    assert BEDROCK_CONVERSE.is_finished(bodies)
    assert not BEDROCK_CONVERSE.is_finished(bodies[:1])
    assert (reported.system, reported.total_ns) == ("bedrock", 551_000_000)


@pytest.mark.parametrize("api_format", [BEDROCK_CONVERSE, BEDROCK_INVOKE])
def test_an_exception_is_an_error(api_format: ApiFormat) -> None:
    """The reader of messages keeps only its name."""
    body = api_format.to_mapping(b'{"error":{"type":"throttlingException"}}')
    assert error_in([body]) == "throttlingException"


HOSTILE: list[Any] = [
    {"ResponseMetadata": 4},
    {"ResponseMetadata": {"HTTPHeaders": {"x-amzn-bedrock-input-token-count": "many"}}},
    {"ResponseMetadata": {"HTTPHeaders": {"x-amzn-bedrock-input-token-count": 5}}},
    {"results": [{"completionReason": 4}, 5], "output": 4, "stopReason": []},
    {"type": "message", "content": 4, "usage": 5, "stop_reason": {}},
    {"contentBlockDelta": 3},
    {"contentBlockDelta": {"delta": {"toolUse": 4, "reasoningContent": []}}},
    {"messageStop": [], "metadata": 4},
    {"metadata": {"usage": "much", "metrics": [1]}},
    {"metadata": {"usage": {"inputTokens": "5", "cacheReadInputTokens": {}}}},
    {"error": 5},
    {"chunk": 4},
    {"chunk": {"type": "content_block_delta", "delta": 5}},
    {"chunk": {"type": "content_block_delta", "delta": {"type": []}}},
    {"chunk": {"type": "message_start", "message": "x"}},
    {"chunk": {"type": "message", "content": 4}},
    {"chunk": {"choices": 4, "outputs": {}, "usage": 7}},
    {"chunk": {"choices": [3], "outputText": {}}},
    {"chunk": {"choices": [{"index": "a", "delta": 4, "stop_reason": {}}]}},
    {"chunk": {"amazon-bedrock-invocationMetrics": "x", "usage": {"input_tokens": []}}},
    {"chunk": {"bytes": b"\xff"}},
    {"chunk": {"bytes": b"[1"}},
    [],
]


@pytest.mark.parametrize("event", HOSTILE)
@pytest.mark.parametrize("api_format", [BEDROCK_CONVERSE, BEDROCK_INVOKE])
def test_hostile_events_never_raise(api_format: ApiFormat, event: Any) -> None:
    """A server may send anything."""
    assert api_format.stream is not None
    shapes: list[Any] = [event]
    if b"bytes" not in str(event).encode():
        shapes.append(json.dumps(event).encode())
    for each in shapes:
        if isinstance(each, bytes):
            api_format.stream.classify_chunk(each)
        api_format.classify_chunk(each)
        bodies = [api_format.to_mapping(each)]
        api_format.usage(bodies)
        api_format.is_finished(bodies)
        api_format.attributes(bodies)
        _evidence.read(ResponseMetadata(streamed=True, bodies=tuple(bodies)))
