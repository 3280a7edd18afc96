"""An answer is the same bytes whoever plays it, and its timings are what really happened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latspan.testing._answer import Answer, Farewell, Rotation
from latspan.testing._http import parse_request
from latspan.testing._payload import InvalidRequestError, read_chat
from latspan.testing._script import Ending, Piece, Script, Step
from latspan.testing._served import Ledger, Write

MS = 1_000_000


def _request(body: dict[str, Any] | bytes, *, line: str = "POST /v1/chat/completions") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"{line} HTTP/1.1\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


def _play(script: Script, *, late_ns: int = 0, **asked: Any) -> tuple[list[Piece], bytes, Answer]:
    """Play ``script`` with every frame ``late_ns`` behind the plan."""
    request = parse_request(_request({"messages": [], "model": "m", **asked}))
    answer = Answer(script, read_chat(request), number=7, created_s=1)
    ledger = Ledger(0, 0, request, accepted_ns=0, slot_ns=script.queue_ns)
    written = b""
    for frame in (*answer.greeting, *answer.frames):
        instant_ns = script.queue_ns + frame.offset_ns + late_ns
        ledger.writes += [Write(instant_ns, part.piece) for part in frame.parts]
        written += answer.render(frame, ledger)
    return [write.piece for write in ledger.writes], written, answer


def _events(written: bytes) -> list[Any]:
    lines = [line for line in written.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


def test_a_stream_ends_with_finish_and_mark() -> None:
    """Nobody asked for the usage, so there is none."""
    pieces, written, answer = _play(Script.chat(tokens=1), stream=True)

    assert pieces == [
        Piece.HEADERS,
        Piece.ROLE,
        Piece.TEXT,
        Piece.FINISH,
        Piece.DONE,
        Piece.END,
    ]
    assert written.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert answer.farewell is Farewell.KEEP


def test_chunks_are_what_openai_sends() -> None:
    """Every event carries the same id, object, time and model."""
    _, written, _ = _play(Script.chat(tokens=1, dialect="plain"), stream=True)

    stamp = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    role, text, finish = _events(written)
    assert role == stamp | {
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        ]
    }
    assert text["choices"][0]["delta"] == {"content": "text0 "}
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]


def test_usage_comes_in_a_chunk_without_choices_when_asked_for() -> None:
    """The counts are those of the script, and llama.cpp's timings ride along."""
    script = Script.chat(tokens=4, tokens_per_chunk=2, prompt_tokens=9, cached_tokens=5)
    _, written, _ = _play(script, stream=True, stream_options={"include_usage": True})

    *_, finish, usage = _events(written)
    assert "timings" not in finish
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 5}
    assert usage["timings"]["cache_n"] == 5
    assert usage["timings"]["prompt_n"] == 4


def test_without_usage_the_timings_ride_on_the_finish_chunk() -> None:
    """As llama.cpp does, evidence needs no opting in."""
    _, written, _ = _play(Script.chat(tokens=3, prefill_ms=30, gap_ms=10), stream=True)

    timings = _events(written)[-1]["timings"]
    assert timings["prompt_ms"] == 30
    assert timings["predicted_n"] == 3
    assert timings["predicted_ms"] == 20


def test_timings_are_what_happened_not_what_was_planned() -> None:
    """A server that was 5 ms late everywhere reports a longer prefill and the same decode."""
    script = Script.chat(tokens=3, queue_ms=50, prefill_ms=30, gap_ms=10)
    _, written, _ = _play(script, stream=True, late_ns=5 * MS)

    timings = _events(written)[-1]["timings"]
    assert timings["prompt_ms"] == 35
    assert timings["predicted_ms"] == 20


def test_a_plain_server_says_nothing_of_its_time() -> None:
    """Headers leave before the queue, and no chunk carries timings."""
    script = Script.chat(tokens=1, queue_ms=50, dialect="plain")
    _, written, answer = _play(script, stream=True, stream_options={"include_usage": True})

    assert [part.piece for part in answer.greeting[0].parts] == [Piece.HEADERS]
    assert b"timings" not in written


def test_a_server_may_refuse_to_count() -> None:
    """Some servers send no usage however they are asked."""
    script = Script.chat(tokens=1, reports_usage=False)
    pieces, _, _ = _play(script, stream=True, stream_options={"include_usage": True})

    assert Piece.USAGE not in pieces


def test_an_answer_that_does_not_stream_comes_whole_after_the_same_time() -> None:
    """One frame, due when the stream would have ended."""
    script = Script.chat(tokens=2, prefill_ms=30, gap_ms=10, reasoning_tokens=1)
    _, written, answer = _play(script)

    body = json.loads(written.partition(b"\r\n\r\n")[2])
    assert [frame.offset_ns for frame in answer.frames] == [50 * MS]
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["content"] == "text0 text1 "
    assert body["usage"]["completion_tokens"] == 3
    assert body["timings"]["prompt_ms"] == 30
    assert body["timings"]["predicted_ms"] == 20


@pytest.mark.parametrize(
    ("ending", "tail", "farewell"),
    [
        (Ending.UNMARKED, [Piece.TEXT, Piece.FINISH, Piece.END], Farewell.KEEP),
        (Ending.TRUNCATED, [Piece.ROLE, Piece.TEXT, Piece.END], Farewell.KEEP),
        (Ending.ERROR, [Piece.TEXT, Piece.ERROR, Piece.END], Farewell.KEEP),
        (Ending.CUT, [Piece.HEADERS, Piece.ROLE, Piece.TEXT], Farewell.CLOSE),
        (Ending.RESET, [Piece.HEADERS, Piece.ROLE, Piece.TEXT], Farewell.RESET),
    ],
)
def test_endings(ending: Ending, tail: list[Piece], farewell: Farewell) -> None:
    """Each way to end leaves its own last pieces and its own fate of the connection."""
    pieces, _, answer = _play(Script.chat(tokens=1, ending=ending), stream=True)

    assert pieces[-3:] == tail
    assert answer.farewell is farewell


def test_comments_and_empty_deltas_hold_no_token() -> None:
    """What keeps a connection alive is written during the prefill."""
    script = Script(
        prefill_ns=5,
        lead=(Step(Piece.COMMENT, gap_ns=1, text="ping"), Step(Piece.EMPTY, gap_ns=2)),
        steps=(Step(Piece.TEXT, text="hi", tokens=1),),
    )
    pieces, written, answer = _play(script, stream=True)

    assert pieces[:4] == [Piece.HEADERS, Piece.COMMENT, Piece.EMPTY, Piece.TEXT]
    assert [frame.offset_ns for frame in answer.frames[:4]] == [0, 1, 3, 5]
    assert b": ping\n\n" in written


def test_a_refusal_is_json_with_the_time_to_come_back() -> None:
    """A status that is an error takes no slot and carries Retry-After."""
    _, written, answer = _play(Script.refused(429, retry_after_s=0.5, after_ms=3), stream=True)

    head, _, body = written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"retry-after: 0.5" in head
    assert json.loads(body)["error"]["message"] == "too many requests"
    assert [frame.offset_ns for frame in answer.frames] == [3 * MS]
    assert not answer.needs_slot


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (_request({"messages": []}, line="POST /v1/nothing"), 404),
        (_request({"messages": []}, line="GET /v1/chat/completions"), 405),
        (_request(b"{bad"), 400),
        (_request({"model": "m"}), 400),
    ],
)
def test_what_is_no_chat_request_is_named(raw: bytes, status: int) -> None:
    """The status says whether path, method or body was wrong."""
    with pytest.raises(InvalidRequestError) as caught:
        read_chat(parse_request(raw))

    assert caught.value.status == status


def test_scripts_rotate() -> None:
    """After the last script the first comes again."""
    first, second = Script.refused(429), Script.chat()
    rotation = Rotation([first, second])

    assert [rotation.take() for _ in range(3)] == [first, second, first]
    with pytest.raises(ValueError, match="at least one script"):
        Rotation([])
