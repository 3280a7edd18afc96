"""The demo's JSON document has a fixed shape, with null for every unknown number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from latspan import Kind, Snapshot, Source
from latspan._study.render.report_json import DEMO_SCHEMA, demo_document
from latspan.integrations import Outcome
from latspan.testing import RequestRecord, Step
from support.schemas import validated

TakeSnapshot = Callable[[Iterable[RequestRecord]], Snapshot]


def test_the_document_of_one_unstreamed_call(
    call: Callable[..., RequestRecord], snapshot_of: TakeSnapshot
) -> None:
    """Every field is present; undefined values and percentiles of too few values are null."""
    only = call(
        [("send", 1, Source.MEASURED), ("server_wait", 99, Source.UNKNOWN)], outcome=Outcome.ERROR
    )
    failed = {"failed": 1, "cut": 0, "p50": None, "p95": None, "p99": None}

    assert {
        "schema": "latspan.demo/1",
        "kind": "call",
        "requests": [
            {
                "duration_ns": 100_000_000,
                "outcome": "error",
                "segments": [
                    {"name": "send", "duration_ns": 1_000_000, "source": "measured"},
                    {"name": "server_wait", "duration_ns": 99_000_000, "source": "unknown"},
                ],
                "steps": [],
                "metrics": {
                    "duration": 0.1,
                    "time_to_first_chunk": None,
                    "time_to_first_token": None,
                    "time_to_first_visible_token": None,
                    "time_per_output_token": None,
                    "chunk_gap_max": None,
                    "stall_count": None,
                    "stall_duration": None,
                    "stall_ratio": None,
                    "fluidity": None,
                    "buffer_needed": None,
                },
                "tokens": {
                    "input": None,
                    "cached": None,
                    "output": None,
                    "reasoning": None,
                    "source": "unknown",
                },
            }
        ],
        "summary": {
            "segments": [
                {
                    "name": "send",
                    "n": 1,
                    "p50_ns": None,
                    "p95_ns": None,
                    "p99_ns": None,
                    "slow_share": 0.01,
                },
                {
                    "name": "server_wait",
                    "n": 1,
                    "p50_ns": None,
                    "p95_ns": None,
                    "p99_ns": None,
                    "slow_share": 0.99,
                },
            ],
            "steps": [],
            "metrics": {
                "duration": {"n": 1, **failed},
                "time_to_first_chunk": {"n": 0, **failed},
                "time_to_first_token": {"n": 0, **failed},
                "time_to_first_visible_token": {"n": 0, **failed},
                "time_per_output_token": {"n": 0, **failed},
                "chunk_gap": {"n": 0, **failed, "failed": 0},
                "chunk_gap_max": {"n": 0, **failed},
                "stall_count": {"n": 0, **failed},
                "stall_duration": {"n": 0, **failed},
                "stall_ratio": {"n": 0, **failed},
                "fluidity": {"n": 0, **failed},
                "buffer_needed": {"n": 0, **failed},
            },
            "sentence": "The only call spent 99 % of its time in server_wait (waiting for the"
            " server, which reports no times; unknown) (it ended as error).",
        },
    } == validated(demo_document(snapshot_of([only])))


def test_p99_is_null_for_forty_calls(
    forty_calls: tuple[RequestRecord, ...], snapshot_of: TakeSnapshot
) -> None:
    """Forty values are enough for a p95 but not for a p99; 400 gaps are enough for both."""
    document: Any = validated(demo_document(snapshot_of(forty_calls)))
    (queue,) = (row for row in document["summary"]["segments"] if row["name"] == "queue")
    gaps = document["summary"]["metrics"]["chunk_gap"]

    assert document["schema"] == DEMO_SCHEMA
    assert 40 == queue["n"] == len(document["requests"])
    assert 12_000_000 <= queue["p50_ns"] <= 12_012_000
    assert isinstance(queue["p50_ns"], int)
    assert 6_000_000_000 <= queue["p95_ns"] <= 6_006_000_000
    assert queue["p99_ns"] is None
    assert gaps["n"] == 400
    assert 0.04 <= gaps["p50"] <= 0.0401
    assert 0.74 <= gaps["p99"] <= 0.741


def test_ratios_are_written_as_ratios(
    forty_calls: tuple[RequestRecord, ...], snapshot_of: TakeSnapshot
) -> None:
    """In requests and in the summary, whatever their internal unit."""
    document = json.loads(json.dumps(demo_document(snapshot_of(forty_calls)), allow_nan=False))
    stalled = document["requests"][0]["metrics"]
    summary = document["summary"]["metrics"]

    assert stalled["stall_ratio"] == pytest.approx(0.24 / 1.1)
    assert document["requests"][1]["metrics"]["stall_ratio"] == 0
    assert stalled["fluidity"] == 1
    assert stalled["buffer_needed"] == 0
    assert summary["stall_ratio"] == {
        "n": 40,
        "failed": 0,
        "cut": 0,
        "p50": 0,
        "p95": pytest.approx(0.24 / 1.1, rel=1e-3),
        "p99": None,
    }


def test_pieces_of_a_segment_are_summed_and_shares_add_up_to_one(
    call: Callable[..., RequestRecord], snapshot_of: TakeSnapshot
) -> None:
    """A name occurs once per request, and shares refer to the whole time."""
    pieces = [("decode", 2, Source.MEASURED), ("consumer", 1, Source.MEASURED)] * 3
    document = demo_document(snapshot_of([call(pieces), call(pieces, kind=Kind.REQUEST)]))
    (request,) = json.loads(json.dumps(document))["requests"]

    assert {segment["name"]: segment["duration_ns"] for segment in request["segments"]} == {
        "decode": 6_000_000,
        "consumer": 3_000_000,
    }
    shares = [row["slow_share"] for row in json.loads(json.dumps(document))["summary"]["segments"]]
    assert abs(1 - sum(shares)) < 1e-9


def test_requests_come_before_their_calls_and_have_their_steps(
    call: Callable[..., RequestRecord], snapshot_of: TakeSnapshot
) -> None:
    """As in the report, which begins with what users waited for."""
    pieces = [("search", 3, Source.MEASURED), ("application", 1, Source.MEASURED)]
    request = replace(
        call(pieces, kind=Kind.REQUEST),
        steps=(Step("search", Kind.STAGE, 0, 3_000_000), Step("chat m", Kind.CALL, 1, None, 1)),
        segment_steps=(1, 0),
    )

    document: Any = validated(demo_document(snapshot_of([call(pieces), request])))

    assert document["kind"] == "request"
    (shown,) = document["requests"]
    assert shown["steps"] == [
        {
            "name": "search",
            "kind": "stage",
            "start_ns": 0,
            "end_ns": 3_000_000,
            "parent": 0,
            "merged": 1,
        },
        {
            "name": "chat m",
            "kind": "call",
            "start_ns": 1,
            "end_ns": None,
            "parent": 1,
            "merged": 1,
        },
    ]


def test_requests_without_calls_are_those_of_the_document(
    call: Callable[..., RequestRecord], snapshot_of: TakeSnapshot
) -> None:
    """As in the tables of the report, of which the document is the same for a script."""
    pieces = [("retrieve", 3, Source.MEASURED), ("unattributed", 1, Source.UNKNOWN)]
    outcomes = [Outcome.CANCELLED, *[Outcome.COMPLETED] * 19]
    requests = [call(pieces, kind=Kind.REQUEST, outcome=outcome) for outcome in outcomes]

    document = json.loads(json.dumps(demo_document(snapshot_of(requests)), allow_nan=False))

    assert document["kind"] == "request"
    assert len(document["requests"]) == 20
    assert {row["name"] for row in document["summary"]["segments"]} == {"retrieve", "unattributed"}
    assert document["summary"]["metrics"]["duration"] == {
        "n": 20,
        "failed": 0,
        "cut": 1,
        "p50": pytest.approx(0.004, rel=1e-3),
        "p95": pytest.approx(0.004, rel=1e-3),
        "p99": None,
    }
    assert "retrieve" in document["summary"]["sentence"]
