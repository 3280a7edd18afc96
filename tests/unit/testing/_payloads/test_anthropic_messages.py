"""Anthropic's messages are typed events for blocks, and always include usage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latspan.testing import Ending, PayloadPart, Script, ScriptStep
from support.answers import Played, play


def _play(script: Script, **asked: Any) -> Played:
    return play(script, path="/v1/messages", messages=[], **asked)


EVERY_KIND = Script.chat(
    tokens=1,
    reasoning_tokens=1,
    tool_call_tokens=2,
    prompt_tokens=12,
    cached_tokens=3,
    cache_write_tokens=4,
)


def test_blocks_open_and_close_around_their_deltas() -> None:
    """Thinking is signed before its block ends."""
    events = _play(EVERY_KIND, stream=True).events

    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [event["delta"] for event in events if event["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "reasoning0 "},
        {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="},
        {"type": "text_delta", "text": "text0 "},
        {"type": "input_json_delta", "partial_json": '{"words": "tool_call0 '},
        {"type": "input_json_delta", "partial_json": 'tool_call1 "}'},
    ]
    assert [event["index"] for event in events if "index" in event] == [0] * 4 + [1] * 3 + [2] * 4


def test_every_event_is_named_after_its_type() -> None:
    """The client library reads the name, not the type."""
    played = _play(EVERY_KIND, stream=True)
    names = [
        line.removeprefix(b"event: ").decode()
        for line in played.written.split(b"\n")
        if line.startswith(b"event: ")
    ]

    assert names == [event["type"] for event in played.events]


def test_input_tokens_exclude_the_cache() -> None:
    """The three input counts add up to the prompt; the output is counted at the end."""
    start, *_, delta, _ = _play(EVERY_KIND, stream=True).events

    assert start["message"]["usage"] == {
        "input_tokens": 5,
        "cache_creation_input_tokens": 4,
        "cache_read_input_tokens": 3,
        "output_tokens": 0,
    }
    assert delta["usage"]["output_tokens"] == 4
    assert delta["usage"]["output_tokens_details"] == {"thinking_tokens": 1}
    assert delta["delta"]["stop_reason"] == "tool_use"


def test_a_script_has_the_same_schedule_as_in_a_chat() -> None:
    """A script yields the same pieces at the same times for every API."""
    messages = _play(EVERY_KIND, stream=True)
    chat = play(EVERY_KIND, messages=[], stream=True)

    assert messages.pieces == chat.pieces
    assert [frame.offset_ns for frame in messages.answer.frames] == [
        frame.offset_ns for frame in chat.answer.frames
    ]


def test_a_ping_contains_no_token() -> None:
    """It may precede the start of the message; a token starts the message if necessary."""
    script = Script(
        prefill_ns=5,
        lead=(ScriptStep(PayloadPart.EMPTY),),
        steps=(ScriptStep(PayloadPart.TEXT, text="hi", tokens=1),),
    )
    types = [event["type"] for event in _play(script, stream=True).events]

    assert types[:4] == ["ping", "message_start", "content_block_start", "content_block_delta"]


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (Ending.DONE, "message_stop"),
        (Ending.UNMARKED, "message_delta"),
        (Ending.TRUNCATED, "content_block_delta"),
        (Ending.ERROR, "error"),
    ],
)
def test_endings(ending: Ending, last: str) -> None:
    """Each ending has its own last event."""
    assert _play(Script.chat(tokens=1, ending=ending), stream=True).events[-1]["type"] == last


def test_a_whole_message_contains_its_blocks() -> None:
    """Arguments are parsed, and kept as text if they are not valid JSON."""
    body = _play(EVERY_KIND).body
    thinking, text, call = body["content"]

    assert (thinking["thinking"], text["text"]) == ("reasoning0 ", "text0 ")
    assert call["input"] == {"words": "tool_call0 tool_call1 "}
    assert (body["stop_reason"], body["usage"]["output_tokens"]) == ("tool_use", 4)
    odd = Script(steps=(ScriptStep(PayloadPart.TOOL_CALL, text="odd", tokens=1),))
    assert _play(odd).body["content"][0]["input"] == {"text": "odd"}


@pytest.mark.parametrize(
    ("reason", "stop_reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("pause_turn", "pause_turn")],
)
def test_finish_reasons_are_translated(reason: str, stop_reason: str) -> None:
    """Anthropic's own reasons are not changed."""
    script = replace(EVERY_KIND, finish_reason=reason)
    assert _play(script).body["stop_reason"] == stop_reason


def test_overload_has_its_own_status() -> None:
    """Status 529 is not standardised."""
    played = _play(Script.refused(529))

    assert played.written.startswith(b"HTTP/1.1 529 \r\n")
    assert played.body["error"]["type"] == "overloaded_error"
