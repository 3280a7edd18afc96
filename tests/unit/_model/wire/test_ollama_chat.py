"""Lines of Ollama's own API are classified, and counts and durations are read from the last one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from latspan._model import evidence as _evidence
from latspan._model.wire import ApiFormat, ChunkKind, ResponseMetadata
from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE


def _as_object(line: dict[str, Any]) -> Any:
    """Return an object with the shape of the SDK's response."""
    return json.loads(json.dumps(line), object_hook=lambda fields: SimpleNamespace(**fields))


def _chat(**message: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": "", **message},
        "done": False,
    }


def _completion(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": False, **fields}


def _bytes(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode()


CALL = {"function": {"name": "f", "arguments": {"thinking": "x"}}}

KINDS: list[tuple[ApiFormat, dict[str, Any], ChunkKind]] = [
    (OLLAMA_CHAT, _chat(content="Hello"), ChunkKind.VISIBLE),
    (OLLAMA_CHAT, _chat(thinking="Hm"), ChunkKind.REASONING),
    (OLLAMA_CHAT, _chat(thinking="Hm", content="Hi"), ChunkKind.VISIBLE),
    (OLLAMA_CHAT, _chat(tool_calls=[CALL]), ChunkKind.VISIBLE),
    (OLLAMA_CHAT, _chat(tool_calls=[]), ChunkKind.EMPTY),
    (OLLAMA_CHAT, _chat(), ChunkKind.EMPTY),
    (OLLAMA_CHAT, _chat(content='"thinking": "no"'), ChunkKind.VISIBLE),
    (OLLAMA_GENERATE, _completion(response="Hello"), ChunkKind.VISIBLE),
    (OLLAMA_GENERATE, _completion(response="", thinking="Hm"), ChunkKind.REASONING),
    (OLLAMA_GENERATE, _completion(response=""), ChunkKind.EMPTY),
]


@pytest.mark.parametrize(("api_format", "line", "kind"), KINDS)
def test_a_line_has_the_same_kind_as_object_and_as_bytes(
    api_format: ApiFormat, line: dict[str, Any], kind: ChunkKind
) -> None:
    """The SDK returns objects, a bare HTTP client returns bytes."""
    assert api_format.stream is not None
    assert api_format.only_text is not None
    assert api_format.classify_chunk(_as_object(line)) == kind
    assert api_format.classify_chunk(line) == kind
    assert api_format.only_text(line) == kind
    assert api_format.only_text({**line, "done": True}) == ChunkKind.EMPTY
    assert api_format.stream.classify_chunk(json.dumps(line).encode()) == kind


@pytest.mark.parametrize(
    ("line", "recognised"),
    [
        (_chat(content="a"), {"ollama.chat"}),
        ({**_chat(), "remote_model": "r", "remote_host": "h"}, {"ollama.chat"}),
        (_completion(response="a"), {"ollama.generate"}),
        ({"status": "pulling manifest"}, set[str]()),
        ({"status": "downloading", "total": 3, "completed": 1}, set[str]()),
        ({"error": "model not found"}, set[str]()),
        ({"created_at": "now", "message": "ready", "done": False}, set[str]()),
        ({"model": "m", "message": {"content": "a"}}, set[str]()),
    ],
)
def test_a_stream_is_recognised_by_its_first_line(
    line: dict[str, Any], recognised: set[str]
) -> None:
    """Ollama reports the progress of a download in lines too."""
    text = json.dumps(line).encode()
    found = set[str]()
    for each in (OLLAMA_CHAT, OLLAMA_GENERATE):
        assert each.stream is not None
        if each.stream.opens.search(text):
            found.add(each.name)
    assert found == recognised


LAST = {
    **_chat(),
    "done": True,
    "done_reason": "length",
    "total_duration": 5_000_000,
    "load_duration": 1_000_000,
    "prompt_eval_count": 9,
    "prompt_eval_duration": 2_000_000,
    "eval_count": 4,
    "eval_duration": 1_500_000,
}


@pytest.mark.parametrize("shape", [_as_object, dict, _bytes])
def test_the_last_line_has_counts_and_durations(shape: Any) -> None:
    """The evidence adapter reads the durations from the same body."""
    bodies = tuple(OLLAMA_CHAT.to_mapping(shape(each)) for each in (_chat(content="a"), LAST))
    usage = OLLAMA_CHAT.usage(bodies)
    (reported,) = _evidence.read(ResponseMetadata(streamed=True, bodies=bodies))

    assert usage is not None
    assert (usage.input, usage.output) == (9, 4)
    assert OLLAMA_CHAT.finish_reasons(bodies) == {0: "length"}
    assert OLLAMA_CHAT.is_finished(bodies)
    assert not OLLAMA_CHAT.is_finished(bodies[:1])
    assert (reported.system, reported.model_load_ns, reported.prefill_ns) == (
        "ollama",
        1_000_000,
        2_000_000,
    )
    assert (reported.decode_ns, reported.total_ns) == (1_500_000, 5_000_000)


def test_a_body_has_no_text() -> None:
    """Bodies are kept until the end of a call."""
    body = OLLAMA_CHAT.to_mapping({**LAST, "message": {"content": "secret"}, "context": [1, 2]})
    assert "secret" not in str(body)
    assert "context" not in body


def test_the_counts_of_an_unfinished_response_are_unknown() -> None:
    """They are in the last line only; an older server omits the reason."""
    assert OLLAMA_CHAT.usage([OLLAMA_CHAT.to_mapping(_chat(content="a"))]) is None
    unexplained = {name: value for name, value in LAST.items() if name != "done_reason"}
    bodies = [OLLAMA_CHAT.to_mapping(unexplained)]
    assert OLLAMA_CHAT.is_finished(bodies)
    assert OLLAMA_CHAT.finish_reasons(bodies) == {0: None}


@pytest.mark.parametrize(
    "line",
    [
        {"message": 4, "done": "yes"},
        {"message": {"content": 5, "tool_calls": "x"}, "eval_count": {}},
        {"response": [], "thinking": {}},
        {"error": {"message": 3}},
        {"done": True, "done_reason": 7},
        [],
    ],
)
def test_hostile_lines_never_raise(line: Any) -> None:
    """A server may send anything."""
    assert OLLAMA_CHAT.stream is not None
    OLLAMA_CHAT.classify_chunk(line)
    OLLAMA_CHAT.stream.classify_chunk(json.dumps(line).encode())
    bodies = [OLLAMA_CHAT.to_mapping(line), OLLAMA_CHAT.to_mapping(json.dumps(line).encode())]
    assert OLLAMA_CHAT.usage(bodies) is None
    OLLAMA_CHAT.finish_reasons(bodies)
