"""Events of Cohere's ``/v2/chat`` are classified, and the last one has the token counts."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from latspan._model.wire import ChunkKind, error_in
from latspan._model.wire.cohere_chat import COHERE_CHAT


def _as_object(event: dict[str, Any]) -> Any:
    """Return an object with the shape of the SDK's event."""
    return json.loads(json.dumps(event), object_hook=lambda fields: SimpleNamespace(**fields))


def _bytes(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}".encode()


def _delta(kind: str, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": 0, "delta": {"message": message}}


def _call(arguments: str) -> dict[str, Any]:
    return {"tool_calls": {"function": {"name": "f", "arguments": arguments}}}


CITED: dict[str, Any] = {
    "citations": {"text": "quoted", "sources": [{"type": "document", "document": {}}]}
}

KINDS: list[tuple[dict[str, Any], ChunkKind]] = [
    (_delta("content-delta", content={"text": "Hello"}), ChunkKind.VISIBLE),
    (_delta("content-delta", content={"thinking": "Hm"}), ChunkKind.REASONING),
    (_delta("content-delta", content={"text": ""}), ChunkKind.EMPTY),
    (_delta("tool-plan-delta", tool_plan="I will"), ChunkKind.REASONING),
    (_delta("tool-call-start", **_call("")), ChunkKind.EMPTY),
    (_delta("tool-call-delta", **_call('{"a')), ChunkKind.VISIBLE),
    (_delta("content-start", content={"type": "text", "text": ""}), ChunkKind.EMPTY),
    (_delta("citation-start", **CITED), ChunkKind.EMPTY),
    ({"type": "content-end", "index": 0}, ChunkKind.EMPTY),
    ({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}, ChunkKind.EMPTY),
]


@pytest.mark.parametrize(("event", "kind"), KINDS)
def test_an_event_has_the_same_kind_as_object_and_as_bytes(
    event: dict[str, Any], kind: ChunkKind
) -> None:
    """The SDK returns objects, a bare HTTP client returns bytes."""
    assert COHERE_CHAT.stream is not None
    assert COHERE_CHAT.classify_chunk(_as_object(event)) == kind
    assert COHERE_CHAT.classify_chunk(event) == kind
    assert COHERE_CHAT.stream.classify_chunk(_bytes(event)) == kind


START = {"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant"}}}


def _end(**usage: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": "MAX_TOKENS", "usage": usage}}


BILLED = {"input_tokens": 5.0, "output_tokens": 3.0}
PROCESSED = {"input_tokens": 71.0, "output_tokens": 4.0}


@pytest.mark.parametrize("shape", [_as_object, dict, _bytes])
@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"billed_units": BILLED, "tokens": PROCESSED}, (5, 3)),
        ({"tokens": PROCESSED}, (71, 4)),
    ],
)
def test_the_billed_counts_are_used(
    shape: Any, usage: dict[str, Any], expected: tuple[int, int]
) -> None:
    """Processed tokens include those of Cohere's own preamble, which are not billed."""
    bodies = [COHERE_CHAT.to_mapping(shape(each)) for each in (START, _end(**usage))]
    counted = COHERE_CHAT.usage(bodies)

    assert counted is not None
    assert (counted.input, counted.output) == expected
    assert isinstance(counted.input, int)
    assert COHERE_CHAT.finish_reasons(bodies) == {0: "MAX_TOKENS"}
    assert COHERE_CHAT.is_finished(bodies)
    assert COHERE_CHAT.attributes(bodies) == {"gen_ai.response.id": "m1"}


def test_an_unfinished_message_has_no_counts() -> None:
    """They come with its end."""
    bodies = [COHERE_CHAT.to_mapping(START)]
    assert COHERE_CHAT.usage(bodies) is None
    assert COHERE_CHAT.finish_reasons(bodies) == {0: None}
    assert not COHERE_CHAT.is_finished(bodies)


@pytest.mark.parametrize("reason", ["ERROR", "TIMEOUT"])
def test_a_failed_message_is_an_error(reason: str) -> None:
    """The status of the response was 200; the message of the error is not kept."""
    delta = {"finish_reason": reason, "error": "secret"}
    body = COHERE_CHAT.to_mapping({"type": "message-end", "delta": delta})
    assert error_in([body]) == reason
    assert "secret" not in str(body)


@pytest.mark.parametrize(
    "event",
    [
        {"type": 4},
        {"type": "content-delta", "delta": 3},
        {"type": "content-delta", "delta": {"message": {"content": "x"}}},
        {"type": "tool-call-delta", "delta": {"message": {"tool_calls": [1]}}},
        {"type": "message-end", "delta": {"finish_reason": 3, "usage": "much"}},
        {"type": "message-end", "delta": {"usage": {"billed_units": {"input_tokens": "5"}}}},
        {"type": ["message-end"]},
        [],
    ],
)
def test_hostile_events_never_raise(event: Any) -> None:
    """A server may send anything."""
    assert COHERE_CHAT.stream is not None
    COHERE_CHAT.stream.classify_chunk(b"data: " + json.dumps(event).encode())
    for shaped in (event, b"data: " + json.dumps(event).encode()):
        COHERE_CHAT.classify_chunk(shaped)
        bodies = [COHERE_CHAT.to_mapping(shaped)]
        COHERE_CHAT.usage(bodies)
        assert not COHERE_CHAT.is_finished(bodies)
