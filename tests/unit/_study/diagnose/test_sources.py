"""A diagnosis of traces or of histogram logs concludes no more than they prove."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from latspan._base.clock import ManualClock
from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, write_interval
from latspan._model.recording.folder import RecordFile, begin_recording, open_recording
from latspan._model.segments import Kind, Outcome, Segment
from latspan._model.tokens import TokenCounts, TokenSource
from latspan._study.diagnose import Conclusion, Diagnosis, Goal, diagnose_source
from latspan._study.traces import TraceQuery
from latspan.errors import ConfigError, RecordingError
from latspan.histogram import HistogramLogWriter

MS: Final = 1_000_000
START_NS: Final = 1_795_392_000 * 10**9
REQUESTS: Final = 200
QUEUE_OR_PREFILL: Final = frozenset({"queue", "prefill"})


def span(number: int, attributes: dict[str, Any], duration_ms: int) -> dict[str, Any]:
    forms = {str: "stringValue", int: "intValue", float: "doubleValue"}
    start_ns = START_NS + number * 10_000 * MS
    return {
        "traceId": f"{number + 1:032x}",
        "spanId": f"{number + 1:016x}",
        "name": "chat m",
        "kind": 3,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + duration_ms * MS),
        "attributes": [
            {"key": name, "value": {forms[type(value)]: value}}
            for name, value in attributes.items()
        ],
    }


def traces(path: Path, call: Callable[[float], tuple[dict[str, Any], int]]) -> str:
    """Write a file of calls: each fifth waits 2 s for its first chunk, the others 0.2 s."""
    spans = [span(number, *call(2.0 if number % 5 == 0 else 0.2)) for number in range(REQUESTS)]
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    return str(path)


def official(wait_s: float) -> tuple[dict[str, Any], int]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.response.time_to_first_chunk": wait_s,
    }
    return attributes, round(wait_s * 1_000) + 100


def unstreamed(wait_s: float) -> tuple[dict[str, Any], int]:
    tokens = {"llm.token_count.prompt": 12, "llm.token_count.completion": 10}
    return {"openinference.span.kind": "LLM", **tokens}, round(wait_s * 1_000) + 100


def long_streams(wait_s: float) -> tuple[dict[str, Any], int]:
    """Return a call whose stream is long where the others wait, without a number of tokens."""
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.response.time_to_first_chunk": 0.1}
    return attributes, round(wait_s * 1_000) + 100


def vllm(wait_s: float) -> tuple[dict[str, Any], int]:
    attributes = {
        "gen_ai.latency.time_in_queue": wait_s - 0.1,
        "gen_ai.latency.time_in_model_prefill": 0.1,
        "gen_ai.latency.time_in_model_decode": 0.1,
        "gen_ai.latency.time_to_first_token": wait_s,
        "gen_ai.latency.e2e": wait_s + 0.1,
        "gen_ai.usage.completion_tokens": 10,
    }
    return attributes, round(wait_s * 1_000) + 100


def leader(found: Diagnosis) -> str:
    return str(found.shares[0].name)


@pytest.mark.parametrize(("call", "lack"), [(official, "the GenAI"), (unstreamed, "OpenInference")])
def test_a_call_without_segments_is_a_wait_for_the_server(
    call: Callable[[float], tuple[dict[str, Any], int]], lack: str, tmp_path: Path
) -> None:
    """Nothing separates queue and prefill, so neither is named; the notes state what lacks."""
    found = diagnose_source(traces(tmp_path / "traces.json", call))

    assert (found.conclusion, found.units, leader(found)) == (
        Conclusion.FIX,
        REQUESTS,
        "server_wait",
    )
    assert not QUEUE_OR_PREFILL & {str(share.name) for share in found.shares}
    assert found.finding is not None
    assert found.finding.cause == "server_wait"
    assert found.notes[0].startswith(f"Calls of {lack}")


def test_a_long_stream_of_an_unknown_number_of_tokens_has_no_invented_cause(
    tmp_path: Path,
) -> None:
    """The segment is known; what made it long needs tokens or chunks."""
    found = diagnose_source(traces(tmp_path / "traces.json", long_streams))

    assert (found.conclusion, leader(found)) == (Conclusion.FIX, "decode")
    assert found.finding is None or "token" not in " ".join(found.finding.evidence)


def test_a_calibration_divides_the_wait_of_traces(tmp_path: Path) -> None:
    """As of a recording: what is longer than the server needs alone is a queue."""
    alone = tmp_path / "alone"
    begin_recording(alone, source="record_dir", conditions={})
    file = RecordFile(alone)
    file.begin()
    for number in range(40):
        needed_ns = (90 + number) * MS
        file.append(
            replace(
                call(1),
                segments=(Segment("server_wait", 0, call(1).duration_ns),),
                metrics={"time_to_first_token": MetricValue(needed_ns)},
                tokens=TokenCounts(input=number + 10, source=TokenSource.PROVIDER),
            )
        )
    file.end()

    def with_tokens(wait_s: float) -> tuple[dict[str, Any], int]:
        attributes, duration_ms = official(wait_s)
        return {**attributes, "gen_ai.usage.input_tokens": 20}, duration_ms

    path = traces(tmp_path / "traces.json", with_tokens)
    found = diagnose_source(path, calibration=open_recording(alone))

    assert found.finding is not None
    assert found.finding.cause in ("bursts", "under_capacity")
    assert found.notes[-1] == "Estimated, and not measured: queue and prefill."


def test_the_spans_of_a_vllm_name_its_queue(tmp_path: Path) -> None:
    """They have its times; the client's are missing, and the notes state it."""
    found = diagnose_source(traces(tmp_path / "traces.json", vllm), Goal("time_to_first_token"))

    assert (found.conclusion, leader(found)) == (Conclusion.FIX, "queue")
    assert found.notes[0].startswith("Spans of model servers begin when the server has received")


def test_a_goal_that_no_call_has_is_stated(tmp_path: Path) -> None:
    """A first chunk is not a first token."""
    found = diagnose_source(traces(tmp_path / "traces.json", official), Goal("time_to_first_token"))

    assert found.conclusion is Conclusion.TOO_FEW
    assert "none of 200 calls has the metric time_to_first_token" in found.sentence


def test_a_file_without_calls_of_a_service_is_an_error(tmp_path: Path) -> None:
    """It names what was looked for."""
    path = traces(tmp_path / "traces.json", official)

    with pytest.raises(RecordingError, match="no request or call of service 'nope'") as raised:
        diagnose_source(path, traces=TraceQuery(service="nope"))

    assert raised.value.hint is not None


def call(
    number: int, *, slow_ms: int = 1_000, outcome: Outcome = Outcome.COMPLETED
) -> RequestRecord:
    duration_ns = (slow_ms if number % 5 == 0 else 100) * MS
    return RequestRecord(
        name="chat m",
        kind=Kind.CALL,
        outcome=outcome,
        start_epoch_ns=START_NS + number * 1_000 * MS,
        duration_ns=duration_ns,
        segments=(
            Segment("queue", 0, duration_ns - 50 * MS),
            Segment("decode", duration_ns - 50 * MS, duration_ns),
        ),
        metrics={"duration": MetricValue(duration_ns)},
    )


def log(path: Path, *records: RequestRecord) -> None:
    recorder = Recorder(ManualClock(), keep=0)
    for record in records:
        recorder.record(record)
    until_ns = START_NS + 10**10
    snapshot = replace(recorder.snapshot(), start_epoch_ns=START_NS, end_epoch_ns=until_ns)
    with HistogramLogWriter(path) as writer:
        write_interval(writer, snapshot)


def test_a_histogram_log_is_never_attributed(tmp_path: Path) -> None:
    """The percentiles of the segments are given, and that they are no shares."""
    log(tmp_path / "a.hlog", *map(call, range(100)))

    found = diagnose_source(str(tmp_path / "a.hlog"))

    assert found.conclusion is Conclusion.NO_REQUESTS
    assert (found.units, found.failed, found.shares, found.finding) == (100, 0, (), None)
    assert "record_dir" in found.sentence
    assert found.notes == (
        ("p95 duration of 100 calls is 1,000 ms, and their median is 100 ms."),
        (
            "Each segment has a p95 of its own: queue 950 ms, decode 50.0 ms. They belong to"
            " different requests, so they are not shares and do not add up."
        ),
    )


def test_a_histogram_log_judges_a_target(tmp_path: Path) -> None:
    """Failed requests miss it; the logs of a folder are added."""
    goal = Goal(limit_ns=1_100 * MS)
    log(tmp_path / "a.hlog", *map(call, range(100)))
    log(tmp_path / "b.hlog", *map(call, range(100)))

    found = diagnose_source(str(tmp_path), goal)

    assert (found.conclusion, found.units) == (Conclusion.NOTHING_TO_FIX, 200)

    failures = [replace(call(each), outcome=Outcome.ERROR) for each in range(60)]
    log(tmp_path / "c.hlog", *failures)
    found = diagnose_source(str(tmp_path), goal)

    assert (found.conclusion, found.failed) == (Conclusion.NO_REQUESTS, 60)
    assert found.target is not None
    assert found.target.verdict.value == "missed"


@pytest.mark.parametrize("text", ["", "#[Histogram log format version 1.3]\n"])
def test_an_empty_log_is_an_error(text: str, tmp_path: Path) -> None:
    """It names the file."""
    path = tmp_path / "a.hlog"
    path.write_text(text)

    with pytest.raises(RecordingError, match="no requests and no calls"):
        diagnose_source(str(path))


def _recording(folder: Path, records: Iterable[RequestRecord]) -> str:
    begin_recording(folder, source="record_dir", conditions={})
    file = RecordFile(folder)
    file.begin()
    for record in records:
        file.append(record)
    file.end()
    return str(folder)


def test_what_only_traces_have_is_refused_for_a_recording(tmp_path: Path) -> None:
    """Otherwise the answer would be about other requests than the ones asked for."""
    source = _recording(tmp_path / "monday", [call(1)])
    with pytest.raises(ConfigError, match="--service does not apply"):
        diagnose_source(source, traces=TraceQuery(service="x"))


def _of_two_routes() -> list[RequestRecord]:
    """Return calls of two routes and many tenants; the ones of /slow take longer."""
    return [
        replace(
            call(number),
            duration_ns=(900 if number % 2 else 90) * MS,
            segments=(Segment("decode", 0, (900 if number % 2 else 90) * MS),),
            attributes={"route": "/slow" if number % 2 else "/chat", "tenant": f"t{number % 50}"},
        )
        for number in range(200)
    ]


@pytest.mark.parametrize(
    ("query", "where", "units"),
    [
        (TraceQuery(route="/chat"), {}, 100),
        (TraceQuery(), {"route": "/slow", "tenant": "t1"}, 4),
        (TraceQuery(), {}, 200),
    ],
)
def test_only_some_requests_are_judged(
    query: TraceQuery, where: dict[str, str], units: int, tmp_path: Path
) -> None:
    """Those of a route, and those with an attribute, however many values it has."""
    source = _recording(tmp_path / "monday", _of_two_routes())
    assert diagnose_source(source, traces=query, where=where).units == units


@pytest.mark.parametrize(
    ("where", "message", "hint"),
    [
        ({"tier": "gold"}, "no call has the attribute tier", "route"),
        ({"route": "/none"}, "no call has route=/none", "/chat, /slow"),
    ],
)
def test_what_no_request_has_is_an_error(
    where: dict[str, str], message: str, hint: str, tmp_path: Path
) -> None:
    """It names what they have."""
    source = _recording(tmp_path / "monday", _of_two_routes())
    with pytest.raises(ConfigError, match=message) as raised:
        diagnose_source(source, where=where)
    assert hint in (raised.value.hint or "")


def test_a_folder_that_is_nothing_is_an_error(tmp_path: Path) -> None:
    """As for every command that reads recordings."""
    with pytest.raises(RecordingError):
        diagnose_source(str(tmp_path / "none"))
