"""A client, the documentation's server and a model: what Phoenix has of them, and what it shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from support.daemons import program
from support.pages import BROWSER, names_shown, trace_page
from support.phoenix import Told, told

pytestmark = pytest.mark.llama

NEVER_A_SPAN: Final = {"consumer", "retry"}
SERVED: Final = "POST /v1/chat/completions"
STAGES: Final = ("auth", "parse", "route", "tokenize", "safety", "queue", "prefill", "decode")

EPOCH: Final = datetime.fromtimestamp(0, UTC)

Span = dict[str, Any]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The request that waited longest of several."""
    with told(tmp_path_factory.mktemp("phoenix")) as it:
        yield it


@pytest.fixture(scope="module")
def spans(story: Told) -> list[Span]:
    """What Phoenix has of it."""
    return story.phoenix.spans(story.trace_id)


def beneath(spans: list[Span], parent: Span) -> list[Span]:
    return [span for span in spans if span["parent_id"] == parent["context"]["span_id"]]


def named(spans: list[Span], name: str) -> Span:
    (found,) = [span for span in spans if span["name"] == name]
    return found


def test_every_process_is_in_one_trace(spans: list[Span]) -> None:
    """The client's request, its call, the server's request beneath, and its call of the model."""
    root = named(spans, "answer")
    call = named(beneath(spans, root), "chat smollm2")
    served = named(beneath(spans, call), SERVED)
    inner = named(beneath(spans, served), "chat smollm2")

    assert root["parent_id"] is None
    assert {span["name"] for span in beneath(spans, served)} >= set(STAGES)
    assert {span["name"] for span in beneath(spans, inner)} >= {"queue", "prefill", "decode"}


def test_the_segments_are_where_latspan_had_them(story: Told, spans: list[Span]) -> None:
    """To a microsecond, for Phoenix keeps times as such and rounds them on the way."""
    (call,) = [each for each in story.records if each["kind"] == "call"]
    recorded = {
        name: [(call["start_epoch_ns"] + ns) / 1000 for ns in (start, end)]
        for name, start, end, source in call["segments"]
        if start < end and source != "unknown" and name not in several(call)
    }
    read = {
        span["name"]: [microseconds(span["start_time"]), microseconds(span["end_time"])]
        for span in spans
        if span["parent_id"] == call["span_id"] and span["name"] != SERVED
    }

    assert read.keys() == recorded.keys()
    for name, times in recorded.items():
        assert read[name] == pytest.approx(times, rel=0, abs=1)


def several(call: dict[str, Any]) -> set[str]:
    """Return what is interleaved, and so has no span."""
    intervals = Counter(name for name, *_ in call["segments"])
    return NEVER_A_SPAN | {name for name, count in intervals.items() if count > 1}


def microseconds(time: str) -> int:
    return (datetime.fromisoformat(time) - EPOCH) // timedelta(microseconds=1)


def test_a_model_is_known_as_one(spans: list[Span]) -> None:
    """By the GenAI conventions' names, from which Phoenix makes its own."""
    kinds = {(span["name"], span["span_kind"]) for span in spans}
    assert {name for name, kind in kinds if kind == "LLM"} == {"chat smollm2", SERVED}
    said = named(spans, SERVED)["attributes"]
    assert said["llm.model_name"] == "smollm2-135m"
    assert said["llm.token_count.completion"] == said["gen_ai.usage.output_tokens"] > 0
    assert said["llm.token_count.prompt"] == said["gen_ai.usage.input_tokens"] > 0


def test_tokens_of_all_spans_are_added_up(story: Told, spans: list[Span]) -> None:
    """A total of a trace has those of every hop that counts its own."""
    counts = [
        span["attributes"]["llm.token_count.total"]
        for span in spans
        if "llm.token_count.total" in span["attributes"]
    ]

    assert len(counts) == 2
    assert story.phoenix.tokens(story.trace_id) == sum(counts)


def test_its_page_shows_every_span_in_order(story: Told, spans: list[Span]) -> None:
    """In a real browser: each beneath its parent, by time."""
    browser = program(BROWSER)
    if browser is None:
        pytest.skip(f"{BROWSER} is not installed")

    def rows(parent: str | None) -> Iterator[str]:
        for span in spans:
            if span["parent_id"] == parent:
                yield span["name"]
                yield from rows(span["context"]["span_id"])

    with trace_page(story.phoenix.page(story.trace_id), browser, len(spans)) as trace:
        assert names_shown(trace) == list(rows(None))
