"""Text completions contain only text, and the same llama.cpp timings as chats."""

from __future__ import annotations

from latspan.testing import Script
from support.answers import play

PATH = "/v1/completions"


def test_every_token_is_text() -> None:
    """The API has neither roles nor separate reasoning."""
    script = Script.chat(tokens=1, reasoning_tokens=1)
    events = play(script, path=PATH, prompt="hello", stream=True).events

    assert {event["object"] for event in events} == {"text_completion"}
    assert [event["choices"][0]["text"] for event in events] == ["", "reasoning0 ", "text0 ", ""]
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["timings"]["predicted_n"] == 2


def test_a_whole_completion_contains_the_whole_text() -> None:
    """It includes usage."""
    body = play(Script.chat(tokens=2), path=PATH, prompt="hello").body

    assert body["choices"][0]["text"] == "text0 text1 "
    assert body["usage"]["completion_tokens"] == 2
