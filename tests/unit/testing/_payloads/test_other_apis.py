"""The APIs of Google, Cohere, Ollama and Bedrock have their shapes, and the schedule of a chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from latspan._model.wire import Framing, open_reader
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan.testing import Ending, PayloadPart, Script, ScriptStep, ServerFlavor
from latspan.testing._payloads import InvalidRequestError, read_request
from support.answers import Played, as_request, play
from support.apis import Api, api_named, with_every_api

EVERY_KIND = Script.chat(
    tokens=2,
    reasoning_tokens=1,
    tool_call_tokens=2,
    prefill_ms=30,
    gap_ms=10,
    queue_ms=5,
    prompt_tokens=12,
    cached_tokens=3,
    cache_write_tokens=2,
)


def _play(script: Script, api: Api, **more: Any) -> Played:
    return play(script, path=api.path.partition("?")[0], **{**api.body, **more})


def _bodies(played: Played) -> bytes:
    """Return the content of a chunked body."""
    chunks = (each for each in played.frames if not each.startswith((b"HTTP/1.1", b"0\r\n")))
    return b"".join(
        each.partition(b"\r\n")[2].removesuffix(b"\r\n") for each in chunks if each != b""
    )


def _messages(played: Played) -> Iterator[Any]:
    texts: list[bytes] = []
    known = (BEDROCK_CONVERSE, BEDROCK_INVOKE)
    open_reader(Framing.MESSAGES, known, texts.append).feed(_bodies(played))
    return map(json.loads, texts)


@with_every_api
def test_a_script_has_the_same_schedule_as_in_a_chat(api: Api) -> None:
    """The same parts are written at the same times; only the end mark may be missing."""
    chat = play(EVERY_KIND, messages=[], stream=True)
    assert _play(EVERY_KIND, api).pieces == chat.pieces


@with_every_api
def test_the_media_type_is_that_of_the_api(api: Api) -> None:
    """A client selects its parser by it."""
    (line,) = (
        line
        for line in _play(EVERY_KIND, api).written.split(b"\r\n")
        if line.startswith(b"content-type")
    )
    expected = {"ollama": b"application/x-ndjson", "bedrock": b"application/vnd.amazon.eventstream"}
    assert line.partition(b": ")[2] == expected.get(
        api.name.partition("-")[0], b"text/event-stream"
    )


def test_googles_events_are_responses() -> None:
    """Reasoning is marked as a thought; the last event has the finish reason and all counts."""
    played = _play(EVERY_KIND, api_named("gemini"))
    events = [json.loads(each[6:]) for each in _bodies(played).split(b"\r\n\r\n") if each]
    parts = [event["candidates"][0]["content"]["parts"][0] for event in events]

    assert [list(part.values()) for part in parts[:4]] == [
        [""],
        ["reasoning0 ", True],
        ["text0 "],
        ["text1 "],
    ]
    assert [part["functionCall"]["name"] for part in parts[4:6]] == ["look_up"] * 2
    assert [event["candidates"][0].get("finishReason") for event in events] == [None] * 6 + ["STOP"]
    assert events[-1]["usageMetadata"] == {
        "promptTokenCount": 12,
        "cachedContentTokenCount": 3,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 1,
        "totalTokenCount": 17,
    }
    assert events[0]["usageMetadata"]["totalTokenCount"] == 12


def test_ollamas_last_line_has_counts_and_durations() -> None:
    """They are those of the writes, and a late server reports a longer time."""
    for late_ns in (0, 7_000_000):
        path = api_named("ollama").path
        played = play(EVERY_KIND, path=path, late_ns=late_ns, messages=[])
        lines = [json.loads(line) for line in _bodies(played).splitlines()]
        last = lines[-1]
        assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
        assert (last["prompt_eval_count"], last["eval_count"], last["done_reason"]) == (
            12,
            5,
            "stop",
        )
        assert last["load_duration"] == 5_000_000
        assert last["prompt_eval_duration"] == 30_000_000 + late_ns
        assert last["eval_duration"] == 40_000_000
        assert last["total_duration"] == 75_000_000 + late_ns


def test_a_plain_server_reports_no_timings() -> None:
    """Neither Ollama's durations nor Bedrock's latencies."""
    script = replace(EVERY_KIND, flavor=ServerFlavor.PLAIN)
    last = json.loads(_bodies(_play(script, api_named("ollama"))).splitlines()[-1])
    assert not [name for name in last if name.endswith("duration")]
    *_, metadata = _messages(_play(script, api_named("bedrock-converse")))
    assert list(metadata["metadata"]) == ["usage"]
    *_, stop = _messages(_play(script, api_named("bedrock-invoke")))
    metrics = stop["chunk"]["amazon-bedrock-invocationMetrics"]
    assert set(metrics) == {"inputTokenCount", "outputTokenCount"}


def test_ollama_streams_unless_the_request_declines() -> None:
    """As the real server."""
    api = api_named("ollama")
    whole = _play(EVERY_KIND, api, stream=False).body
    assert whole["message"]["content"] == "text0 text1 "
    assert whole["message"]["thinking"] == "reasoning0 "
    (call,) = whole["message"]["tool_calls"]
    assert call["function"]["arguments"] == {"words": "tool_call0 tool_call1 "}
    assert whole["done"] is True


def test_coheres_events_open_and_close_blocks() -> None:
    """A message starts, its blocks follow, and its end has the counts."""
    events = _play(EVERY_KIND, api_named("cohere")).events
    assert [event["type"] for event in events] == [
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "content-start",
        "content-delta",
        "content-delta",
        "content-end",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-delta",
        "tool-call-end",
        "message-end",
    ]
    assert events[-1]["delta"]["finish_reason"] == "TOOL_CALL"
    assert events[-1]["delta"]["usage"]["billed_units"] == {"input_tokens": 12, "output_tokens": 5}


def test_converse_ends_with_the_reason_and_the_metadata() -> None:
    """Tokens read from or written to the cache are counted apart."""
    events = list(_messages(_play(EVERY_KIND, api_named("bedrock-converse"))))
    assert [name for event in events for name in event] == [
        "messageStart",
        "contentBlockDelta",
        "contentBlockStop",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockStop",
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockDelta",
        "contentBlockStop",
        "messageStop",
        "metadata",
    ]
    assert events[-2]["messageStop"] == {"stopReason": "tool_use"}
    assert events[-1]["metadata"] == {
        "usage": {
            "inputTokens": 7,
            "outputTokens": 5,
            "totalTokens": 17,
            "cacheReadInputTokens": 3,
            "cacheWriteInputTokens": 2,
        },
        "metrics": {"latencyMs": 75},
    }


def test_an_invoked_model_sends_its_own_events() -> None:
    """Anthropic's, and Bedrock's metrics in the last one."""
    chunks = [each["chunk"] for each in _messages(_play(EVERY_KIND, api_named("bedrock-invoke")))]
    assert chunks[0]["type"] == "message_start"
    assert chunks[0]["message"]["model"] == "eu.anthropic.claude-x-v1:0"
    assert [chunk["type"] for chunk in chunks[-2:]] == ["message_delta", "message_stop"]
    assert chunks[-1]["amazon-bedrock-invocationMetrics"] == {
        "inputTokenCount": 12,
        "outputTokenCount": 5,
        "firstByteLatency": 35,
        "invocationLatency": 75,
    }


@with_every_api
def test_endings(api: Api) -> None:
    """A truncated stream breaks off before its finish reason; only Cohere has an end mark."""
    whole, unmarked, truncated, failed = (
        _bodies(_play(replace(EVERY_KIND, ending=ending), api))
        for ending in (Ending.DONE, Ending.UNMARKED, Ending.TRUNCATED, Ending.ERROR)
    )
    assert whole == unmarked + (b"data: [DONE]\n\n" if api.name == "cohere" else b"")
    assert unmarked.startswith(truncated)
    assert len(truncated) < len(unmarked)
    assert failed.startswith(truncated)
    assert b"scripted error" in failed


@with_every_api
def test_a_refusal_has_the_shape_of_its_api(api: Api) -> None:
    """Each client library reads its own."""
    played = _play(Script.refused(429, error="slow down"), api)
    assert played.written.startswith(b"HTTP/1.1 429")
    error = played.body
    assert "slow down" in json.dumps(error)
    names = {"gemini": "error", "cohere": "message", "bedrock": "__type", "ollama": "error"}
    assert names[api.name.partition("-")[0]] in error


@with_every_api
def test_a_request_without_its_content_is_refused(api: Api) -> None:
    """As by every other API."""
    with pytest.raises(InvalidRequestError) as caught:
        read_request(as_request({"model": "m"}, path=api.path.partition("?")[0]))
    assert caught.value.status == 400


@with_every_api
def test_comments_do_not_break_the_framing(api: Api) -> None:
    """Only server-sent events have comments."""
    steps = (ScriptStep(PayloadPart.COMMENT, text="alive"), *EVERY_KIND.steps)
    body = _bodies(_play(replace(EVERY_KIND, steps=steps), api))
    assert (b": alive" in body) is (api.name in {"gemini", "cohere"})
