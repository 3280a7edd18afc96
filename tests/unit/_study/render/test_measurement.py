"""The result of a load test, as a terminal shows it and as a document."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latspan._base.nanoseconds import NS_PER_MS
from latspan._study.measurement import Measurement, summarize
from latspan._study.render.measurement import MeasurementReport
from latspan._study.render.measurement_json import measurement_document
from latspan.integrations import Outcome
from latspan.testing import RequestRecord
from support.measurements import call, load_test, step

_TARGET = {"metric": "time_to_first_token", "percentile": 95, "limit_ns": 60 * NS_PER_MS}


def _measurement(
    folder: Path, records: Iterable[RequestRecord], *steps: dict[str, Any], **about: Any
) -> Measurement:
    return summarize(load_test(folder, records, steps, **about))


def _text(measurement: Measurement, width: int = 80) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(
        MeasurementReport(measurement), crop=False
    )
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _hundred(*, failed: int = 0) -> list[RequestRecord]:
    return [
        call(
            index,
            at_ms=100 * index,
            lag_ms=2,
            duration_ms=100 + index,
            ttft_ms=50,
            outcome=Outcome.TIMEOUT if index < failed else Outcome.COMPLETED,
            error="TimeoutError" if index < failed else None,
        )
        for index in range(100)
    ]


def test_an_open_loop_is_shown_from_schedule_and_from_start(tmp_path: Path) -> None:
    """With the rates, the generator, and the verdict."""
    measurement = _measurement(tmp_path, _hundred(), step(intended=100), targets=[_TARGET])
    assert _text(measurement) == [
        "chat, 10 requests/s, poisson (open loop), 100 calls measured",
        "  metric             from        n       p50       p95       p99",
        "  duration           schedule  100  151.0 ms  196.0 ms  200.0 ms",
        "  duration           start     100  149.0 ms  194.0 ms  198.0 ms",
        "  TTFT, first token  schedule  100   52.0 ms   52.0 ms   52.0 ms",
        "  TTFT, first token  start     100   50.0 ms   50.0 ms   50.0 ms",
        "  offered 10/s, sent 9.95/s, completed 9.902/s, 99.02 output tokens/s",
        "  generator: dispatch lag p50 0.5 ms, p99 2.1 ms; event loop lag p50 0.6 ms, p99",
        "    2.0 ms; 12 % of a CPU used",
        "  no request failed",
        "met: p95 of time_to_first_token at most 60 ms; 0 of 100 requests took longer or",
        "failed, counted from the scheduled start",
        "",
    ]


def test_failures_are_shown_beside_what_completed(tmp_path: Path) -> None:
    """The p95 of all requests is unbounded, that of the completed ones is not."""
    lines = _text(_measurement(tmp_path, _hundred(failed=6), step(intended=100)), 120)
    assert lines[1:4] == [
        "  metric             from      requests     n       p50        p95        p99",
        "  duration           schedule  all        100  157.0 ms  unbounded  unbounded",
        "  duration           schedule  completed   94  154.0 ms   197.0 ms  needs 100",
    ]
    assert "  failed: 6 timeout (TimeoutError 6)" in lines


@pytest.mark.parametrize(
    ("outcome", "error", "line"),
    [
        ("truncated", "_OTHER", "failed: 6 truncated (6 responses ended without an end mark)"),
        ("error", "_OTHER", "failed: 6 error (6 errors without a type)"),
        ("rejected", "429", "failed: 6 rejected (429 6)"),
        ("cancelled", None, "6 given up"),
    ],
)
def test_the_reason_of_failures_is_in_words(
    tmp_path: Path, outcome: str, error: str | None, line: str
) -> None:
    """The value of the conventions for an error without a type means nothing to a reader."""
    details = {} if error is None else {"error.type": error}
    records = [
        replace(each, outcome=Outcome(outcome), details={**_without_error(each), **details})
        if each.outcome is not Outcome.COMPLETED
        else each
        for each in _hundred(failed=6)
    ]
    lines = _text(_measurement(tmp_path, records, step(intended=100)), 120)
    assert f"  {line}" in lines


def _without_error(record: RequestRecord) -> dict[str, Any]:
    return {name: value for name, value in record.details.items() if name != "error.type"}


def test_too_few_values_say_how_many_they_need(tmp_path: Path) -> None:
    """No percentile is made up."""
    lines = _text(_measurement(tmp_path, [call(1), call(2)], step(intended=2)))
    assert lines[3] == "  duration           start     2  100.0 ms  needs 20  needs 100"


def test_the_requested_percentile_has_a_column(tmp_path: Path) -> None:
    """Besides p50, p95 and p99."""
    shown = _measurement(tmp_path, _hundred(), step(intended=100), percentile=90)
    assert _text(shown)[1].split()[-4:] == ["p50", "p90", "p95", "p99"]


def test_an_invalid_measurement_has_no_verdict(tmp_path: Path) -> None:
    """The reason and a hint are shown instead."""
    late = step(intended=100, generator={"dispatch_lag": {"p50": 0.001, "p99": 0.08, "max": 0.1}})
    lines = _text(_measurement(tmp_path, _hundred(), late, targets=[_TARGET]), 160)
    assert (
        "INVALID: requests were sent late: the p99 of the dispatch lag is 80.0 ms, above 10.0 ms"
    ) in lines
    assert any(line.startswith("hint: give this process a CPU of its own") for line in lines)
    assert (
        "no verdict: p95 of time_to_first_token at most 60 ms; the measurement is invalid" in lines
    )


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"pattern": "closed", "concurrency": 1500}, "1,500 in flight (closed loop)"),
        (
            {"pattern": "gamma", "rate_per_s": 0.5, "burstiness": 0.3},
            "0.5 requests/s, gamma with burstiness 0.3 (open loop)",
        ),
        (
            {"pattern": "replay", "rate_per_s": 3.21456, "speed": 2.0},
            "3.215 requests/s, recorded arrivals at 2 times their speed (open loop)",
        ),
    ],
)
def test_a_load_is_named_in_words(tmp_path: Path, load: dict[str, Any], words: str) -> None:
    """Open or closed is always stated."""
    first, *_ = _text(_measurement(tmp_path, [call(1)], step(intended=1, load=load)), 120)
    assert first == f"chat, {words}, 1 call measured"


def test_the_document_has_both_percentiles(tmp_path: Path) -> None:
    """What is unbounded is listed, because JSON has no infinity."""
    measurement = _measurement(tmp_path, _hundred(failed=6), step(intended=100), targets=[_TARGET])
    document: Any = measurement_document(measurement, recording="r")
    assert document["schema"] == "latspan.measurement/1"
    assert (document["recording"], document["valid"]) == ("r", True)
    (only,) = document["steps"]
    assert (only["loop"], only["outcomes"]) == ("open", {"completed": 94, "timeout": 6})
    duration = next(each for each in only["latencies"] if each["from"] == "start")
    assert (duration["n"], duration["failed"]) == (100, 6)
    assert duration["all"] == {
        "p50": 0.155, "p90": 0.195, "p95": None, "p99": None, "p99.9": None,
        "unbounded": ["p95", "p99"], "at_least": {},
    }  # fmt: skip
    assert duration["completed"]["p95"] == 0.195
    assert only["targets"] == [
        {
            "metric": "time_to_first_token",
            "percentile": 95,
            "limit_s": 0.06,
            "from": "schedule",
            "verdict": "undecided",
            "requests": 100,
            "misses": 6,
            "needed": 134,
        }
    ]
