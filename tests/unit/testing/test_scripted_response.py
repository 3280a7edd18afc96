"""A response is the same bytes wherever it is played, and its timings are the actual ones."""

from __future__ import annotations

from typing import Any

import pytest

from latspan.testing._script import Ending, PayloadPart, Script, ScriptStep
from latspan.testing._scripted_response import Farewell, Rotation
from support.answers import Played, play

MS = 1_000_000


def _play(script: Script, *, late_ns: int = 0, **asked: Any) -> Played:
    return play(script, late_ns=late_ns, messages=[], **asked)


def test_a_stream_ends_with_a_finish_chunk_and_the_end_mark() -> None:
    """Usage was not requested, so it is not sent."""
    played = _play(Script.chat(tokens=1), stream=True)

    assert played.pieces == [
        PayloadPart.HEADERS,
        PayloadPart.ROLE,
        PayloadPart.TEXT,
        PayloadPart.FINISH,
        PayloadPart.DONE,
        PayloadPart.END,
    ]
    assert played.written.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert played.answer.farewell is Farewell.KEEP


def test_chunks_have_openais_shape() -> None:
    """Every event has the same ID, object, time and model."""
    played = _play(Script.chat(tokens=1, flavor="plain"), stream=True)

    stamp = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    role, text, finish = played.events
    assert role == stamp | {
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        ]
    }
    assert text["choices"][0]["delta"] == {"content": "text0 "}
    assert finish["choices"] == [{"index": 0, "delta": {}, "finish_reason": "stop"}]


def test_text_is_sent_unescaped() -> None:
    """Characters outside ASCII take several bytes, between which a network may split them."""
    step = ScriptStep(PayloadPart.TEXT, text="早安", tokens=1)
    played = _play(Script(steps=(step,)), stream=True)

    assert '"content":"早安"'.encode() in played.written


def test_requested_usage_is_a_chunk_without_choices() -> None:
    """The counts are those of the script, and the chunk includes llama.cpp's timings."""
    script = Script.chat(tokens=4, tokens_per_chunk=2, prompt_tokens=9, cached_tokens=5)
    played = _play(script, stream=True, stream_options={"include_usage": True})

    *_, finish, usage = played.events
    assert "timings" not in finish
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 4
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 5}
    assert usage["timings"]["cache_n"] == 5
    assert usage["timings"]["prompt_n"] == 4


def test_without_usage_the_finish_chunk_has_the_timings() -> None:
    """As in llama.cpp, timings need not be requested."""
    played = _play(Script.chat(tokens=3, prefill_ms=30, gap_ms=10), stream=True)

    timings = played.events[-1]["timings"]
    assert timings["prompt_ms"] == 30
    assert timings["predicted_n"] == 3
    assert timings["predicted_ms"] == 20


def test_timings_are_the_actual_ones_not_the_planned_ones() -> None:
    """A server that is 5 ms late throughout reports a longer prefill and the same decode."""
    script = Script.chat(tokens=3, queue_ms=50, prefill_ms=30, gap_ms=10)
    played = _play(script, stream=True, late_ns=5 * MS)

    timings = played.events[-1]["timings"]
    assert timings["prompt_ms"] == 35
    assert timings["predicted_ms"] == 20


def test_a_plain_server_reports_no_timings() -> None:
    """Its headers are sent before the queue, and no chunk has timings."""
    script = Script.chat(tokens=1, queue_ms=50, flavor="plain")
    played = _play(script, stream=True, stream_options={"include_usage": True})

    assert [part.piece for part in played.answer.greeting[0].parts] == [PayloadPart.HEADERS]
    assert b"timings" not in played.written


def test_a_server_may_omit_usage() -> None:
    """Some servers never send usage, even if it is requested."""
    script = Script.chat(tokens=1, reports_usage=False)
    played = _play(script, stream=True, stream_options={"include_usage": True})

    assert PayloadPart.USAGE not in played.pieces


def test_an_unstreamed_response_is_sent_after_the_same_time() -> None:
    """It is one frame, due when the stream would have ended."""
    script = Script.chat(tokens=2, prefill_ms=30, gap_ms=10, reasoning_tokens=1)
    played = _play(script)

    body = played.body
    assert [frame.offset_ns for frame in played.answer.frames] == [50 * MS]
    assert body["object"] == "chat.completion"
    assert body["choices"][0]["message"]["content"] == "text0 text1 "
    assert body["usage"]["completion_tokens"] == 3
    assert body["timings"]["prompt_ms"] == 30
    assert body["timings"]["predicted_ms"] == 20


@pytest.mark.parametrize(
    ("ending", "tail", "farewell"),
    [
        (Ending.UNMARKED, [PayloadPart.TEXT, PayloadPart.FINISH, PayloadPart.END], Farewell.KEEP),
        (Ending.TRUNCATED, [PayloadPart.ROLE, PayloadPart.TEXT, PayloadPart.END], Farewell.KEEP),
        (Ending.ERROR, [PayloadPart.TEXT, PayloadPart.ERROR, PayloadPart.END], Farewell.KEEP),
        (Ending.CUT, [PayloadPart.HEADERS, PayloadPart.ROLE, PayloadPart.TEXT], Farewell.CLOSE),
        (Ending.RESET, [PayloadPart.HEADERS, PayloadPart.ROLE, PayloadPart.TEXT], Farewell.RESET),
    ],
)
def test_endings(ending: Ending, tail: list[PayloadPart], farewell: Farewell) -> None:
    """Each ending has its own last pieces and its own way to end the connection."""
    played = _play(Script.chat(tokens=1, ending=ending), stream=True)

    assert played.pieces[-3:] == tail
    assert played.answer.farewell is farewell


def test_comments_and_empty_deltas_contain_no_token() -> None:
    """They keep the connection alive during the prefill."""
    script = Script(
        prefill_ns=5,
        lead=(
            ScriptStep(PayloadPart.COMMENT, gap_ns=1, text="ping"),
            ScriptStep(PayloadPart.EMPTY, gap_ns=2),
        ),
        steps=(ScriptStep(PayloadPart.TEXT, text="hi", tokens=1),),
    )
    played = _play(script, stream=True)

    assert played.pieces[:4] == [
        PayloadPart.HEADERS,
        PayloadPart.COMMENT,
        PayloadPart.EMPTY,
        PayloadPart.TEXT,
    ]
    assert [frame.offset_ns for frame in played.answer.frames[:4]] == [0, 1, 3, 5]
    assert b": ping\n\n" in played.written


def test_a_refusal_is_json_with_retry_after() -> None:
    """An error status takes no slot, and has a Retry-After header."""
    played = _play(Script.refused(429, retry_after_s=0.5, after_ms=3), stream=True)

    head, _, _ = played.written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"retry-after: 0.5" in head
    assert played.body["error"]["message"] == "too many requests"
    assert [frame.offset_ns for frame in played.answer.frames] == [3 * MS]
    assert not played.answer.needs_slot


def test_scripts_rotate() -> None:
    """After the last script, the first one is used again."""
    first, second = Script.refused(429), Script.chat()
    rotation = Rotation([first, second])

    assert [rotation.take() for _ in range(3)] == [first, second, first]
    with pytest.raises(ValueError, match="at least one script"):
        Rotation([])
