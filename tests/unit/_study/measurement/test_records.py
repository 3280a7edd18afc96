"""Which requests of a load test count: everywhere those that ``latspan measure`` counts."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from latspan import write_interval
from latspan._base.clock import SystemClock
from latspan._model.recording import Recorder
from latspan._model.recording.folder import RecordFile, Recording, begin_recording, open_recording
from latspan._model.segments import Outcome
from latspan._study.diagnose import Conclusion, diagnose, diagnose_recording, parse_goal
from latspan._study.measurement import summarize
from latspan._study.scorecard import Cycle, ScorecardBuilder, add_source
from latspan._study.stats import Verdict
from latspan._study.traces import convert
from latspan.errors import RecordingError
from latspan.histogram import HistogramLogWriter
from latspan.testing import Segment
from support.measurements import call, load_test, step


def _interrupted(folder: Path) -> Recording:
    """Return a load test whose end cancelled two of its 62 measured requests."""
    records = [
        *(call(index, at_ms=100 * index) for index in range(60)),
        *(call(index, at_ms=6_000, outcome=Outcome.CANCELLED) for index in (60, 61)),
        call(62, phase="warmup"),
    ]
    account = step(intended=100, unsent=38, cut=[60, 61], interrupted=True)
    return load_test(folder, records, [account], interrupted=True)


def test_every_command_counts_what_the_end_cancelled_as_given_up(tmp_path: Path) -> None:
    """``report`` and ``scorecard`` count the 62 requests that ``measure`` and ``diagnose`` do."""
    recording = _interrupted(tmp_path / "recording")
    builder = ScorecardBuilder(cycles=(Cycle.WEEK,))
    notes = add_source(builder, str(recording.folder))
    ((row,),) = [card.rows[Cycle.WEEK] for card in builder.build().cards]

    assert summarize(recording).steps[0].measured == 62
    assert recording.snapshot().metric("duration", kind="call").cut() == 2
    assert row.figures.outcomes == {Outcome.COMPLETED: 60, Outcome.CANCELLED: 2}
    assert row.figures.unsent == 0
    assert any("interrupted" in note for note in notes)
    assert (diagnose_recording(recording).units, diagnose_recording(recording).cut) == (62, 2)


def test_a_request_of_no_phase_does_not_count(tmp_path: Path) -> None:
    """The measured function started a thread that made requests of its own."""
    background = [replace(call(index, duration_ms=500), details={}) for index in range(60, 120)]
    records = [*(call(index) for index in range(60)), *background]
    recording = load_test(tmp_path / "recording", records, [step(intended=60)])
    builder = ScorecardBuilder(cycles=(Cycle.WEEK,))
    add_source(builder, str(recording.folder))
    ((row,),) = [card.rows[Cycle.WEEK] for card in builder.build().cards]

    assert row.figures.requests == recording.snapshot().count(kind="call") == 60
    assert diagnose_recording(recording).units == 60


def test_traces_of_a_load_test_are_diagnosed_without_their_warm_up() -> None:
    """Their file has no account of it, but each call has its phase."""
    records = [call(index, phase="warmup" if index < 30 else "measured") for index in range(90)]

    assert diagnose(records, parse_goal("p95 duration")).units == 60


def test_a_recording_at_its_size_limit_is_counted_by_its_histograms(tmp_path: Path) -> None:
    """Its lines are the first requests, which were fast."""
    records = [
        replace(call(index, duration_ms=10 if index < 100 else 900), details={})
        for index in range(400)
    ]
    begin_recording(tmp_path, source="run")
    file = RecordFile(tmp_path, largest=20_000)
    file.begin()
    recorder = Recorder(SystemClock(), keep=0)
    for record in records:
        recorder.record(record)
        with suppress(OSError, RecordingError):
            file.append(record)
    file.end()
    with HistogramLogWriter(tmp_path / "a.hlog") as writer:
        write_interval(writer, recorder.snapshot())
    recording = open_recording(tmp_path)
    builder = ScorecardBuilder(cycles=(Cycle.WEEK,))
    add_source(builder, str(tmp_path))
    ((row,),) = [card.rows[Cycle.WEEK] for card in builder.build().cards]
    found = diagnose_recording(recording, parse_goal("p95 duration <= 100ms"))

    assert len(list(recording.records())) < 100
    assert row.figures.requests == 400
    assert found.target is not None
    assert found.target.verdict is Verdict.MISSED
    assert found.conclusion is not Conclusion.NOTHING_TO_FIX


def test_a_killed_measurement_has_no_diagnosis(tmp_path: Path) -> None:
    """It is invalid, as for ``measure``, and its warm-up is left out, with and without steps."""
    records = [call(index, phase="warmup" if index < 30 else "measured") for index in range(90)]
    for name, steps in (("early", []), ("late", [step(intended=60)])):
        recording = load_test(tmp_path / name, records, steps, ended=False)
        diagnosis = diagnose_recording(recording)

        assert diagnosis.conclusion is Conclusion.INVALID
        assert diagnosis.units == 60


def test_a_converted_report_of_guidellm_is_diagnosed(tmp_path: Path) -> None:
    """Its account of a step has less than one of latspan, and each benchmark is a step."""
    requests = [
        {
            "info": {
                "timings": {
                    "request_start": 1.76e9 + index,
                    "request_end": 1.76e9 + index + 1,
                    "resolve_end": 1.76e9 + index + 1,
                    "first_token_iteration": 1.76e9 + index + 0.2,
                    "last_token_iteration": 1.76e9 + index + 0.9,
                }
            }
        }
        for index in range(60)
    ]
    benchmarks = [{"requests": {"successful": each}} for each in (requests, requests[:40])]
    file = tmp_path / "guidellm.json"
    file.write_text(
        json.dumps({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": benchmarks})
    )
    convert(file, tmp_path / "rival")
    recording = open_recording(tmp_path / "rival")

    assert diagnose_recording(recording, step=0).units == 60
    assert diagnose_recording(recording, step=1).units == 40


@pytest.mark.parametrize(
    ("prompts", "cache", "cause"),
    [
        ({"source": "file", "shared": 0.8}, "as-is", "reprocessed_prefix"),
        ({"source": "file", "shared": 0.8}, "cold", "slow_prefill"),
        ({"source": "file", "shared": 0.05}, "as-is", "slow_prefill"),
        ({"source": "generated", "shared": 0.8}, "as-is", "slow_prefill"),
        ({}, "as-is", "slow_prefill"),
    ],
    ids=["shared", "the load generator spoils the cache", "hardly shared", "generated", "older"],
)
def test_the_text_that_all_prompts_of_a_file_share_is_their_stable_part(
    prompts: dict[str, object], cache: str, cause: str, tmp_path: Path
) -> None:
    """So a diagnosis of the recording alone names a prefix that is processed again."""
    segments = (Segment("prefill", 0, 90_000_000), Segment("decode", 90_000_000, 100_000_000))
    records = [
        replace(call(index, at_ms=500 * index, prompt=1_000), segments=segments)
        for index in range(60)
    ]
    recording = load_test(tmp_path, records, [step(intended=60)])
    conditions = {**recording.conditions, "prompts": prompts, "cache": cache}
    found = diagnose_recording(
        Recording(recording.folder, {**recording.manifest, "conditions": conditions})
    )
    assert found.finding is not None
    assert found.finding.cause == cause
