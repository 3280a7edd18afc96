"""Events of the Anthropic Messages API are classified, and usage is read from them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from latspan._model.wire import ChunkKind
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES


def _delta(**delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def _as_object(event: dict[str, Any]) -> Any:
    """Return an object with the shape of the SDK's event."""
    return json.loads(json.dumps(event), object_hook=lambda fields: SimpleNamespace(**fields))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (_delta(type="text_delta", text="Hello"), ChunkKind.VISIBLE),
        (_delta(type="input_json_delta", partial_json='{"q'), ChunkKind.VISIBLE),
        (_delta(type="thinking_delta", thinking="Hm"), ChunkKind.REASONING),
        (_delta(type="signature_delta", signature="c2ln"), ChunkKind.EMPTY),
        (_delta(type="text_delta", text=""), ChunkKind.EMPTY),
        ({"type": "content_block_start", "content_block": {"text": ""}}, ChunkKind.EMPTY),
        ({"type": "message_stop"}, ChunkKind.EMPTY),
        ({"type": "ping"}, ChunkKind.EMPTY),
    ],
)
def test_an_event_has_the_same_kind_as_object_and_as_bytes(
    event: dict[str, Any], kind: ChunkKind
) -> None:
    """The SDK returns objects, a bare HTTP client returns bytes."""
    stream = ANTHROPIC_MESSAGES.stream
    assert stream is not None
    assert ANTHROPIC_MESSAGES.classify_chunk(_as_object(event)) == kind
    assert stream.classify_chunk(b"data: " + json.dumps(event).encode()) == kind


START = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "model": "m",
        "stop_reason": None,
        "usage": {
            "input_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 4,
            "output_tokens": 2,
        },
    },
}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}


def _bodies(*events: dict[str, Any]) -> list[Any]:
    return [ANTHROPIC_MESSAGES.to_mapping(event) for event in events]


def test_input_includes_cached_and_cache_write_tokens() -> None:
    """Anthropic counts the three separately, the conventions together."""
    usage = ANTHROPIC_MESSAGES.usage(_bodies(START, END, {"type": "message_stop"}))

    assert usage is not None
    assert (usage.input, usage.cached, usage.cache_write, usage.output) == (12, 3, 4, 9)


def test_the_output_of_an_unfinished_message_is_unknown() -> None:
    """The count at its start does not include the tokens received."""
    usage = ANTHROPIC_MESSAGES.usage(_bodies(START))

    assert usage is not None
    assert (usage.input, usage.output) == (12, None)
    assert not ANTHROPIC_MESSAGES.is_finished(_bodies(START))
    assert ANTHROPIC_MESSAGES.finish_reasons(_bodies(START, END)) == {0: "end_turn"}


def test_an_empty_stop_reason_does_not_end_a_message() -> None:
    """The end of the message and its output count have not arrived."""
    unfinished = {**END, "delta": {"stop_reason": ""}}
    bodies = _bodies(START, unfinished)
    usage = ANTHROPIC_MESSAGES.usage(bodies)

    assert usage is not None
    assert usage.output is None
    assert not ANTHROPIC_MESSAGES.is_finished(bodies)
    assert ANTHROPIC_MESSAGES.finish_reasons(_bodies(START, unfinished, END)) == {0: "end_turn"}


def test_the_reasoning_of_an_unfinished_message_is_unknown() -> None:
    """It is part of the output, which is counted at the end."""
    details = {"output_tokens_details": {"thinking_tokens": 1}}
    message: dict[str, Any] = START["message"]  # pyright: ignore[reportAssignmentType]
    start = {**START, "message": {**message, "usage": {**message["usage"], **details}}}
    end = {**END, "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}}

    left = ANTHROPIC_MESSAGES.usage(_bodies(start))
    whole = ANTHROPIC_MESSAGES.usage(_bodies(start, end))

    assert left is not None
    assert whole is not None
    assert (left.reasoning, whole.reasoning) == (None, 4)


@pytest.mark.parametrize("usage", [[3], True, "4"])
def test_usage_that_is_not_an_object_is_ignored(usage: Any) -> None:
    """Other fields are still read."""
    bodies = ({"role": "assistant", "usage": usage}, {"stop_reason": "end_turn", "usage": usage})
    assert ANTHROPIC_MESSAGES.usage(bodies) is None
    assert ANTHROPIC_MESSAGES.is_finished(bodies)
