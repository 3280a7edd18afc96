"""OpenAI's responses are typed events for items, and the last event has the whole response."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latspan.testing import Ending, PayloadPart, Script, ScriptStep
from support.answers import Played, play


def _play(script: Script, **asked: Any) -> Played:
    return play(script, path="/v1/responses", input="hello", **asked)


EVERY_KIND = Script.chat(tokens=2, reasoning_tokens=1, tool_call_tokens=1, cached_tokens=3)


def test_items_open_and_close_around_their_deltas() -> None:
    """The order is the documented one, and the sequence numbers are consecutive."""
    events = _play(EVERY_KIND, stream=True).events

    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_the_last_event_contains_the_unstreamed_response() -> None:
    """It is the same response, streamed or not."""
    streamed = _play(EVERY_KIND, stream=True).events[-1]["response"]
    whole = _play(EVERY_KIND).body

    assert streamed == whole
    assert [item["type"] for item in whole["output"]] == ["reasoning", "message", "function_call"]
    assert whole["usage"]["input_tokens_details"]["cached_tokens"] == 3
    assert whole["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}


@pytest.mark.parametrize(
    ("reason", "status"), [("stop", "completed"), ("length", "incomplete"), ("error", "failed")]
)
def test_the_finish_reason_sets_the_status(reason: str, status: str) -> None:
    """The last event is named after the status."""
    last = _play(replace(EVERY_KIND, finish_reason=reason), stream=True).events[-1]

    assert (last["type"], last["response"]["status"]) == (f"response.{status}", status)
    assert (last["response"]["error"] is None) is (status != "failed")


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (Ending.UNMARKED, "response.output_item.done"),
        (Ending.TRUNCATED, "response.output_text.delta"),
        (Ending.ERROR, "error"),
    ],
)
def test_endings(ending: Ending, last: str) -> None:
    """Each ending has its own last event."""
    assert _play(Script.chat(tokens=1, ending=ending), stream=True).events[-1]["type"] == last


def test_a_refusal_is_part_of_a_message() -> None:
    """It has its own events."""
    script = Script(steps=(ScriptStep(PayloadPart.REFUSAL, text="no", tokens=1),))
    types = [event["type"] for event in _play(script, stream=True).events]

    assert "response.refusal.delta" in types
    assert _play(script).body["output"][0]["content"] == [{"type": "refusal", "refusal": "no"}]


def test_an_empty_step_becomes_a_progress_event() -> None:
    """It contains no token."""
    script = Script(
        lead=(ScriptStep(PayloadPart.EMPTY),),
        steps=(ScriptStep(PayloadPart.TEXT, text="hi", tokens=1),),
    )
    types = [event["type"] for event in _play(script, stream=True).events]

    assert types[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
