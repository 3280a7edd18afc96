"""Spans of other instrumentations are read as far as they go, and no farther."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome, Side
from latspan._study.traces import Imported, read_otlp
from latspan._study.traces._otlp import requests_in
from latspan._study.traces._spans import spans_of

DATA: Final = Path(__file__).parents[3] / "data"
MS: Final = 1_000_000
START_NS: Final = 1_795_532_000 * 10**9
FORMS: Final = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
VLLM: Final = {
    "gen_ai.latency.time_in_queue": 0.2,
    "gen_ai.latency.time_to_first_token": 0.7,
    "gen_ai.latency.e2e": 1.6,
    "gen_ai.latency.time_in_model_prefill": 0.5,
    "gen_ai.latency.time_in_model_decode": 0.9,
    "gen_ai.usage.prompt_tokens": 12,
    "gen_ai.usage.completion_tokens": 10,
}
"""Attributes of a vLLM's span; SGLang's have no queue."""

OFFICIAL: Final = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
STREAMED: Final = {**OFFICIAL, "gen_ai.response.time_to_first_chunk": 0.8}


def span(
    number: int,
    attributes: dict[str, Any],
    *,
    parent: int | None = None,
    start_ms: int = 0,
    end_ms: int = 1_700,
    **fields: Any,
) -> dict[str, Any]:
    listed = [
        {"key": name, "value": {FORMS[type(value)]: value}} for name, value in attributes.items()
    ]
    return {
        "traceId": f"{1:032x}",
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": f"span {number}",
        "kind": 3,
        "startTimeUnixNano": str(START_NS + start_ms * MS),
        "endTimeUnixNano": str(START_NS + end_ms * MS),
        "attributes": listed,
        **fields,
    }


def served_by(service: str, *spans: dict[str, Any]) -> dict[str, Any]:
    name = {"key": "service.name", "value": {"stringValue": service}}
    return {"resource": {"attributes": [name]}, "scopeSpans": [{"spans": list(spans)}]}


def imported(*resources: dict[str, Any], **selection: str) -> Imported:
    spans = spans_of([{"resourceSpans": list(resources)}], "a test", hint="none")
    return requests_in(spans, **selection)


def times(record: RequestRecord) -> list[tuple[str, int, str]]:
    return [(str(each.name), each.duration_ns // MS, each.source.value) for each in record.segments]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("genai-openai-1.3b0.json", "the GenAI conventions"),
        ("openinference-openai-0.1.66.json", "OpenInference"),
        ("openllmetry-openai-0.62.4.json", "OpenLLMetry"),
    ],
)
def test_spans_of_a_real_instrumentation(file: str, name: str) -> None:
    """Tokens, outcomes, the wait and the stream of three calls; no queue, prefill or content."""
    read = read_otlp(DATA / file)
    streamed, whole, _ = read.records

    assert [each.kind for each in read.records] == [Kind.CALL] * 3
    assert [each.side for each in read.records] == [Side.CLIENT] * 3
    assert [each.outcome for each in read.records] == [
        Outcome.COMPLETED,
        Outcome.COMPLETED,
        Outcome.REJECTED,
    ]
    assert [(str(each.name), each.source.value) for each in streamed.segments] == [
        ("server_wait", "unknown"),
        ("decode", "estimated"),
    ]
    first_ns = streamed.metrics["time_to_first_chunk"].value
    assert streamed.segments[0].end_ns == pytest.approx(first_ns, abs=1)
    assert [str(each.name) for each in whole.segments] == ["server_wait"]
    for record in (streamed, whole):
        assert (record.tokens.input, record.tokens.output) == (12, 4)
        assert record.attributes == {"model": "m", "provider": "openai"}
        assert "time_to_first_token" not in record.metrics
    assert "secret" not in str(read.records)
    assert [lack.partition(" have ")[0] for lack in read.lacks] == [f"calls of {name}"]


def test_openllmetry_has_an_event_for_each_chunk() -> None:
    """Its gaps are estimates, because a chunk may have no token."""
    streamed, whole, _ = read_otlp(DATA / "openllmetry-openai-0.62.4.json").records

    assert len(streamed.chunk_gaps) == 6
    assert {gap.source.value for gap in streamed.chunk_gaps} == {"estimated"}
    assert streamed.metrics["chunk_gap_max"].value == max(g.value for g in streamed.chunk_gaps)
    assert whole.chunk_gaps == ()


def test_older_names_of_openllmetry() -> None:
    """As its releases until 2025 wrote them."""
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.system": "OpenAI",
        "gen_ai.request.model": "m",
        "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 3,
    }
    chunks = [
        {"name": "llm.content.completion.chunk", "timeUnixNano": str(START_NS + at * MS)}
        for at in (900, 950, 1_000)
    ]

    (record,) = imported(served_by("shop", span(1, attributes, events=chunks))).records

    assert times(record) == [("server_wait", 900, "unknown"), ("decode", 800, "estimated")]
    assert (record.tokens.input, record.tokens.output) == (7, 3)
    assert record.attributes == {"model": "m", "provider": "OpenAI"}


@pytest.mark.parametrize("kind", ["CHAIN", "RETRIEVER", "AGENT", "TOOL", "RERANKER"])
def test_other_kinds_of_openinference_are_no_calls(kind: str) -> None:
    """Only LLM and EMBEDDING are."""
    attributes = {"openinference.span.kind": kind, "llm.model_name": "m"}

    assert imported(served_by("shop", span(1, attributes))).records == ()


def test_the_span_of_a_vllm_alone_is_a_call_on_the_server() -> None:
    """Its times are the server's, and what it does not report comes first."""
    found = imported(served_by("vllm", span(1, VLLM, kind=2)))
    (record,) = found.records

    assert (record.kind, record.side) == (Kind.CALL, Side.SERVER)
    assert times(record) == [
        ("server_wait", 100, "unknown"),
        ("queue", 200, "server_reported"),
        ("prefill", 500, "server_reported"),
        ("decode", 900, "server_reported"),
    ]
    assert record.metrics["time_to_first_token"].value == 700 * MS
    assert record.metrics["time_per_output_token"].value == 100 * MS
    assert (record.tokens.input, record.tokens.output) == (12, 10)
    assert found.lacks == (
        (
            "spans of model servers begin when the server has received the request, so the"
            " client, the network and gateways are missing"
        ),
    )


def test_an_sglang_without_a_queue_splits_nothing() -> None:
    """Its prefill includes the queue, so both are server_wait."""
    attributes = {name: value for name, value in VLLM.items() if "queue" not in name}

    (record,) = imported(served_by("sglang", span(1, attributes, kind=2))).records

    assert times(record) == [
        ("server_wait", 800, "unknown"),
        ("decode", 900, "server_reported"),
    ]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            STREAMED,
            [
                ("server_wait", 100, "unknown"),
                ("queue", 200, "server_reported"),
                ("prefill", 500, "server_reported"),
                ("decode", 900, "estimated"),
            ],
        ),
        (
            OFFICIAL,
            [
                ("server_wait", 100, "unknown"),
                ("queue", 200, "server_reported"),
                ("prefill", 500, "server_reported"),
                ("decode", 900, "server_reported"),
            ],
        ),
    ],
)
def test_the_servers_span_divides_the_wait_of_the_call_around_it(
    attributes: dict[str, Any], expected: list[tuple[str, int, str]]
) -> None:
    """Through an HTTP client's span, and counted once; the call takes its tokens too."""
    found = imported(
        served_by("shop", span(1, attributes), span(2, {}, parent=1)),
        served_by("vllm", span(3, VLLM, parent=2, start_ms=20, end_ms=1_640, kind=2)),
    )
    (record,) = found.records

    assert times(record) == expected
    assert (record.tokens.input, record.tokens.output) == (12, 10)
    assert record.side is Side.CLIENT


def test_the_servers_span_divides_the_wait_that_latspan_measured() -> None:
    """What is left of the wait of a stream is the network's, as with a report in the response."""
    call = {"latspan.kind": "call", "latspan.outcome": "completed"}
    parts = [("send", 0, 10), ("server_wait", 10, 790), ("decode", 790, 1_700)]
    segments = [
        span(
            number,
            {"latspan.segment": name, "latspan.source": "measured"},
            parent=1,
            start_ms=start,
            end_ms=end,
        )
        for number, (name, start, end) in enumerate(parts, 10)
    ]

    (record,) = imported(
        served_by("shop", span(1, call), *segments), served_by("vllm", span(3, VLLM, parent=1))
    ).records

    assert times(record) == [
        ("send", 10, "measured"),
        ("queue", 200, "server_reported"),
        ("prefill", 500, "server_reported"),
        ("network", 80, "estimated"),
        ("decode", 910, "measured"),
    ]


@pytest.mark.parametrize("queue_s", [3.0, -1.0])
def test_a_report_that_does_not_fit_splits_nothing(queue_s: float) -> None:
    """It is of another request, or its clock jumped."""
    server = {**VLLM, "gen_ai.latency.time_in_queue": queue_s}

    (record,) = imported(served_by("shop", span(1, STREAMED), span(3, server, parent=1))).records

    assert times(record) == [("server_wait", 800, "unknown"), ("decode", 900, "estimated")]


def test_only_one_service_and_one_route_are_selected() -> None:
    """A call has the route of the served request around it."""
    served = {"http.route": "/chat"}
    resources = (
        served_by("shop", span(1, served, kind=2), span(2, OFFICIAL, parent=1), span(3, OFFICIAL)),
        served_by("bakery", span(4, OFFICIAL)),
    )

    assert [each.name for each in imported(*resources, service="shop").records] == [
        "span 2",
        "span 3",
    ]
    assert [each.name for each in imported(*resources, route="/chat").records] == ["span 2"]
    assert imported(*resources, route="/other").records == ()


def test_a_call_that_seems_to_end_after_its_request_comes_before_it() -> None:
    """Each span has a clock reading of its own; a recording has the calls first."""
    request = {"latspan.kind": "request", "latspan.outcome": "completed"}
    call = {"latspan.kind": "call", "latspan.outcome": "completed"}

    found = imported(served_by("shop", span(1, request), span(2, call, parent=1, end_ms=1_701)))

    assert [each.kind for each in found.records] == [Kind.CALL, Kind.REQUEST]


@pytest.mark.parametrize("at_ns", [0, START_NS - 1, START_NS + 1_701 * MS, 2**64])
def test_chunks_outside_their_span_have_no_times(at_ns: int) -> None:
    """No gap of 56 years and no first chunk; the call itself counts."""
    chunks = [
        {"name": "llm.content.completion.chunk", "timeUnixNano": str(each)}
        for each in (START_NS + 500 * MS, START_NS + 600 * MS, at_ns)
    ]
    found = imported(
        served_by("shop", span(1, {**OFFICIAL, "llm.is_streaming": True}, events=chunks))
    )
    (record,) = found.records

    assert record.metrics.keys() == {"duration"}
    assert record.chunk_gaps == ()
    assert found.left_out == (
        "the chunk times of 1 span were left out: a chunk arrived outside its span",
    )
