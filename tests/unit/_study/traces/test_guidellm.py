"""A report of guidellm becomes records with its own times, and without prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from latspan._model.recording.folder import LoadTest, StepAccount
from latspan._model.recording.folder._lines import line_of
from latspan._model.segments import Kind, Outcome
from latspan._model.tokens import TokenCounts, TokenSource
from latspan._study.traces import is_guidellm, read_any, read_guidellm
from latspan.errors import RecordingError

DATA: Final = Path(__file__).parents[3] / "data"
FILE: Final = DATA / "guidellm-0.8.1.json"


def report() -> Any:
    return json.loads(FILE.read_text())


def written(tmp_path: Path, contents: object) -> Path:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(contents))
    return path


def test_the_metrics_are_those_that_guidellm_computes() -> None:
    """To a microsecond, the resolution of its instants."""
    read = {record.details["gen_ai.response.id"]: record for record in read_guidellm(FILE).records
            if record.outcome is Outcome.COMPLETED}  # fmt: skip
    successful = report()["benchmarks"][0]["requests"]["successful"]

    assert len(read) == len(successful) == 2
    for request in successful:
        values = {
            name: value.value / 1e6 for name, value in read[request["response_id"]].metrics.items()
        }
        assert values["duration"] == pytest.approx(request["request_latency"] * 1e3, abs=1e-3)
        assert values["time_to_first_token"] == pytest.approx(
            request["time_to_first_token_ms"], abs=1e-3
        )
        assert values["time_to_first_visible_token"] == pytest.approx(
            request["time_to_first_output_token_ms"], abs=1e-3
        )
        # Its `time_per_output_token_ms` includes the time to the first token.
        assert values["time_per_output_token"] == pytest.approx(
            request["inter_token_latency_ms"], abs=1e-3
        )


def test_outcomes_tokens_and_segments() -> None:
    """A cancelled request is neither completed nor failed; segments tile."""
    records = read_guidellm(FILE).records

    assert sorted(each.outcome for each in records) == [
        Outcome.CANCELLED,
        Outcome.COMPLETED,
        Outcome.COMPLETED,
        Outcome.ERROR,
    ]
    for record in records:
        assert record.kind is Kind.CALL
        assert sum(each.duration_ns for each in record.segments) == record.duration_ns
        if record.outcome is Outcome.COMPLETED:
            assert record.tokens == TokenCounts(12, 0, 4, source=TokenSource.PROVIDER)
            assert [each.name for each in record.segments] == [
                "unattributed",
                "decode",
                "stream_close",
            ]


def test_conditions_and_what_is_missing_are_stated() -> None:
    """The scheduled instants of this release are relative to the start, so they are not used."""
    imported = read_guidellm(FILE)

    assert imported.conditions == {
        "guidellm": "0.8.1",
        "python": "3.11.7",
        "platform": "Linux",
        "model": "m",
        "measured": "http://127.0.0.1:41277",
    }
    assert "chunk gaps are missing" in imported.lacks
    assert imported.skipped == ("scheduled instants of 4 requests, which are impossible",)
    load = {
        "type_": "poisson",
        "worker_count": 10,
        "max_concurrency": 10240,
        "rate": 4.0,
        "random_seed": 42,
    }
    assert imported.load_test == LoadTest(
        kind=Kind.CALL, steps=(StepAccount(load=load, intended=4),)
    )


def test_no_prompt_and_no_response_is_read() -> None:
    """The report has both."""
    assert "question number" in FILE.read_text()

    for record in read_guidellm(FILE).records:
        line = line_of(record)
        assert "question" not in line
        assert "text0" not in line


def test_a_possible_schedule_gives_the_dispatch_lag(tmp_path: Path) -> None:
    """Of strategies that have a schedule; requests that were never sent are counted."""
    contents = report()
    requests = contents["benchmarks"][0]["requests"]
    first, second = requests["successful"]
    timings = first["info"]["timings"]
    timings["targeted_start"] = timings["request_start"] - 0.25
    second["info"]["timings"]["request_start"] = None

    imported = read_guidellm(written(tmp_path, contents))

    lags = [each.details.get("latspan.load.dispatch_lag") for each in imported.records]
    assert [lag for lag in lags if lag is not None] == pytest.approx([0.25], abs=1e-6)
    assert imported.load_test is not None
    assert imported.load_test.steps[0].unsent == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ("ReadTimeout('')", Outcome.TIMEOUT),
        ("HTTPStatusError(\"Client error '429 Too Many Requests'\")", Outcome.REJECTED),
    ],
)
def test_the_outcome_follows_from_the_error(error: str, outcome: Outcome, tmp_path: Path) -> None:
    """There is one state for all errors."""
    contents = report()
    contents["benchmarks"][0]["requests"]["errored"][0]["info"]["error"] = error

    records = read_guidellm(written(tmp_path, contents)).records

    assert outcome in {each.outcome for each in records}


def test_a_request_that_the_end_of_the_benchmark_cut_is_cancelled(tmp_path: Path) -> None:
    """After the time that it waited; of its stream only what arrived is known."""
    contents = report()
    requests = contents["benchmarks"][0]["requests"]
    completed, cut = requests["successful"][0], requests["incomplete"][0]
    start = cut["info"]["timings"]["request_start"]
    cut["info"]["timings"] |= {
        "first_request_iteration": start + 0.5,
        "first_token_iteration": start + 0.5,
        "first_output_token_iteration": start + 0.5,
        "last_token_iteration": start + 1,
        "request_end": None,
        "resolve_end": start + 2,
    }
    cut["output_metrics"] = completed["output_metrics"]

    (record,) = (
        each
        for each in read_guidellm(written(tmp_path, contents)).records
        if each.outcome is Outcome.CANCELLED
    )

    assert record.duration_ns == pytest.approx(2e9, abs=1e3)
    assert [(each.name, round(each.duration_ns / 1e6)) for each in record.segments] == [
        ("unattributed", 500),
        ("decode", 1_500),
    ]
    assert record.metrics.keys() == {
        "duration",
        "time_to_first_chunk",
        "time_to_first_token",
        "time_to_first_visible_token",
    }


@pytest.mark.parametrize(
    ("timings", "why"),
    [
        ({"request_start": 0}, "its start is missing"),
        ({"request_end": None, "resolve_end": None}, "its end is missing"),
        ({"request_end": 1.0}, "its end is before its start"),
        ({"request_start": -1.0}, "its start or end is out of range"),
        ({"request_start": 1.0}, "it takes more than 30 days"),
    ],
    ids=str,
)
def test_a_request_without_a_known_time_is_left_out(
    timings: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """It is intended, it has no value, and the report says so."""
    contents = report()
    contents["benchmarks"][0]["requests"]["successful"][0]["info"]["timings"] |= timings

    imported = read_guidellm(written(tmp_path, contents))

    assert len(imported.records) == 3
    assert imported.left_out == (f"1 request was left out: {why}",)
    assert imported.load_test is not None
    assert imported.load_test.steps[0].intended == 4


def test_an_instant_outside_its_request_is_not_known(tmp_path: Path) -> None:
    """A first token before the start did not take 0 ns."""
    contents = report()
    timings = contents["benchmarks"][0]["requests"]["successful"][0]["info"]["timings"]
    timings["first_token_iteration"] = timings["request_start"] - 1

    imported = read_guidellm(written(tmp_path, contents))

    assert sum("time_to_first_token" in each.metrics for each in imported.records) == 1
    assert imported.left_out == (
        "instants of 1 request were left out: they are outside the request",
    )


def test_a_sample_of_the_requests_is_stated(tmp_path: Path) -> None:
    """Each group is sampled alone, so a rare outcome seems frequent."""
    contents = report()
    contents["benchmarks"][0]["config"]["sample_size"] = 2

    (sentence,) = read_guidellm(written(tmp_path, contents)).left_out

    assert sentence == (
        "guidellm kept a sample of each group of requests (2 of 24 successful, 1 of 8 errored,"
        " 1 of 8 incomplete), so the shares of the outcomes are not those of the load test"
    )


def test_the_format_is_recognised(tmp_path: Path) -> None:
    """By the beginning of the file; a service of traces may be named like a report's field."""
    traces = written(tmp_path, {"resourceSpans": [{"resource": {"service": "benchmarks"}}]})
    assert not is_guidellm(traces)
    assert is_guidellm(FILE)
    assert not is_guidellm(DATA / "collector-0.159.0.jsonl")
    assert read_any(FILE).format == "guidellm"


_TIMES_OF_NO_CLOCK: Final[dict[str, Any]] = {
    "benchmarks": [
        {
            "requests": {
                "successful": [
                    {"info": {"timings": {"request_start": 1e300, "request_end": float("inf")}}}
                ]
            }
        }
    ]
}


@pytest.mark.parametrize(
    "text",
    [
        '{"benchmarks": [{}]}',
        '{"benchmarks": 1}',
        '{"benchmarks": [{"requests": []}]}',
        "{",
        json.dumps(_TIMES_OF_NO_CLOCK),
    ],
)
def test_another_report_is_refused(text: str, tmp_path: Path) -> None:
    """One clear error, with the versions that are read."""
    path = tmp_path / "report.json"
    path.write_text(text)

    with pytest.raises(RecordingError) as raised:
        read_guidellm(path)

    assert "0.4 or newer" in (raised.value.hint or "")
