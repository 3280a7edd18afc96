"""Where a side is found: recordings, load tests and histogram logs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from latspan._base.clock import SystemClock
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.recording import Recorder, RequestRecord, write_interval
from latspan._model.segments import Kind
from latspan._study.compare import (
    Judgement,
    Question,
    RunForm,
    baseline_document,
    compare,
    question,
    runs_in,
    runs_of_baseline,
)
from latspan._study.diagnose import diagnose_source
from latspan._study.scorecard import ScorecardBuilder, add_source
from latspan.errors import ConfigError, RecordingError
from latspan.histogram import Histogram, HistogramLogWriter
from support.comparisons import recording, records
from support.measurements import call, load_test, step

P95 = Question("duration", 95)


def log_of(folder: Path, seed: int, **changes: float) -> Path:
    """Write the histogram log of a process into a folder, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(SystemClock(), keep=0)
    for record in records(seed, factors=changes, failed=4):
        recorder.record(record)
    with HistogramLogWriter(folder / f"process-{seed}.hlog") as writer:
        write_interval(writer, recorder.snapshot())
    return folder


def test_a_folder_of_logs_is_one_run_of_several_processes(tmp_path: Path) -> None:
    """Its histograms are merged; the failed requests are counted."""
    folder = log_of(tmp_path / "logs", 1)
    log_of(folder, 2)
    (one,) = runs_in(folder)
    assert (one.form, one.units, one.failed) == (RunForm.HISTOGRAMS, 800, 8)
    assert one.samples["segment.prefill"].count == 792
    (single,) = runs_in(folder / "process-1.hlog")
    assert single.units == 400


def test_logs_answer_the_same_with_fewer_facts(tmp_path: Path) -> None:
    """Percentiles are judged; conditions and the explanation are unknown, which is stated."""
    for seed in range(5):
        log_of(tmp_path / "before" / str(seed), seed)
        log_of(tmp_path / "after" / str(seed), 50 + seed, prefill=0.4)
    found = compare(
        runs_in(tmp_path / "before"),
        runs_in(tmp_path / "after"),
        Question("time_to_first_token", 95),
    )
    assert found.judgement is Judgement.IMPROVED
    assert found.explanation is None
    assert [each.name for each in found.differences] == ["conditions"]
    assert any("Histograms have no single requests" in note for note in found.notes)


def test_requests_of_an_earlier_release_are_compared_without_their_segments(tmp_path: Path) -> None:
    """They had the segments of their last call only, also in a baseline; their durations count."""

    def as_request(record: RequestRecord) -> RequestRecord:
        return replace(record, kind=Kind.REQUEST)

    (after,) = runs_in(recording(tmp_path / "after", 2, change=as_request))
    folder = recording(tmp_path / "before", 1, change=as_request, factors={"decode": 2.0})
    manifest = folder / "recording.json"
    manifest.write_text(manifest.read_text().replace("recording/2", "recording/1"))
    (before,) = runs_in(folder)
    (kept,) = runs_of_baseline(baseline_document([before]), "kept.json")
    for side in (before, kept):
        found = compare([side], [after], P95)
        assert found.rows
        assert not any("segment" in each.name for each in found.rows)
        assert found.explanation is None
        assert any("segments are not compared" in note for note in found.notes)
    (other,) = runs_in(recording(tmp_path / "other", 3, change=as_request))
    assert any("segment" in each.name for each in compare([other], [after], P95).rows)


def test_a_recording_is_compared_with_logs(tmp_path: Path) -> None:
    """One measurement per side, without the order of the requests on one of them."""
    recording(tmp_path / "one", 1)
    found = compare(runs_in(tmp_path / "one"), runs_in(log_of(tmp_path / "two", 2)), P95)
    assert found.judgement is Judgement.INCONCLUSIVE
    assert found.goal.low is not None


def test_only_the_measured_requests_of_a_load_test_count(tmp_path: Path) -> None:
    """From their schedule, with its targets; the last step if there are several."""
    target = {"metric": "time_to_first_token", "percentile": 95, "limit_ns": 60 * NS_PER_MS}
    made = [
        call(0, phase="warmup", number=0),
        *(call(index, at_ms=100 * index, lag_ms=10, number=0) for index in range(1, 31)),
        *(call(index, at_ms=100 * index, duration_ms=300, number=1) for index in range(31, 51)),
    ]
    load_test(tmp_path, made, [step(intended=30), step(intended=20)], targets=[target])
    (last,) = runs_in(tmp_path)
    (first,) = runs_in(tmp_path, step=0)
    assert (first.units, last.units) == (30, 20)
    assert first.samples["duration"].quantile(50) == pytest.approx(110 * NS_PER_MS)
    assert last.samples["duration"].quantile(50) == pytest.approx(300 * NS_PER_MS)
    asked = question(None, [first], [last])
    assert (asked.metric, asked.limit_ns) == ("time_to_first_token", 60 * NS_PER_MS)
    with pytest.raises(ConfigError, match="has no step 2"):
        runs_in(tmp_path, step=2)


def test_a_load_test_that_did_not_end_is_invalid(tmp_path: Path) -> None:
    """Its last requests are missing, probably the slow ones."""
    load_test(tmp_path, [call(1)], [step(intended=1)], ended=False)
    assert runs_in(tmp_path)[0].invalid == ("the measuring process did not exit cleanly",)


def test_another_load_is_another_measurement(tmp_path: Path) -> None:
    """Twice the rate explains a longer queue."""
    for name, rate in (("before", 10), ("after", 20)):
        load = {"pattern": "poisson", "rate_per_s": rate}
        made = [call(index, at_ms=100 * index) for index in range(120)]
        load_test(tmp_path / name, made, [step(intended=120, load=load)])
    found = compare(runs_in(tmp_path / "before"), runs_in(tmp_path / "after"), P95)
    assert found.judgement is Judgement.NOT_INTERPRETABLE
    assert found.differences[0].name == "load"


def test_runs_are_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    """Whatever their folders are called."""
    recording(tmp_path / "b", 1)
    recording(tmp_path / "a", 2)
    assert [Path(run.name).name for run in runs_in(tmp_path)] == ["b", "a"]


def test_a_log_without_durations_is_refused(tmp_path: Path) -> None:
    """Logs of other programs are compared with ``latspan histogram diff``."""
    foreign = tmp_path / "foreign.hlog"
    values = Histogram()
    values.record(5)
    with HistogramLogWriter(foreign) as writer:
        writer.write(0, 1, {"other": values})
    with pytest.raises(RecordingError, match="has no durations") as raised:
        runs_in(foreign)
    assert "latspan histogram diff" in (raised.value.hint or "")


def test_copies_of_one_recording_are_one_run(tmp_path: Path) -> None:
    """They do not vary as runs do, so they would prove any difference."""
    one = recording(tmp_path / "side" / "one", 1)
    shutil.copytree(one, tmp_path / "side" / "two")
    with pytest.raises(ConfigError, match=r"two is a copy of .*one: one recording is one run"):
        runs_in(tmp_path / "side")


def test_a_recording_is_on_one_side_only(tmp_path: Path) -> None:
    """It is found inside a folder, and inside a baseline."""
    folders = [recording(tmp_path / "side" / str(seed), seed) for seed in range(2)]
    side, one = runs_in(tmp_path / "side"), runs_in(folders[0])
    with pytest.raises(ConfigError, match="0 is given twice") as raised:
        compare(side, one, P95)
    assert raised.value.hint
    document = baseline_document(side)
    kept = runs_of_baseline(document, "kept.json")
    with pytest.raises(ConfigError, match=r"0 is a copy of kept\.json: 0"):
        compare(kept, one, P95)
    file = tmp_path / "twice.json"
    written = cast("list[object]", document["runs"])
    file.write_text(json.dumps({**document, "runs": [*written, written[0]]}), "utf-8")
    with pytest.raises(ConfigError, match="is given twice"):
        runs_in(file)


def test_recordings_without_a_known_identifier_are_no_copies(tmp_path: Path) -> None:
    """Runs in memory, and manifests that were edited, have none."""
    for seed in range(2):
        manifest = recording(tmp_path / str(seed), seed) / "recording.json"
        fields = json.loads(manifest.read_text("utf-8"))
        manifest.write_text(json.dumps({**fields, "id": ""}), "utf-8")
    assert len(runs_in(tmp_path)) == 2


def test_the_interval_that_a_killed_process_left_incomplete_is_named(tmp_path: Path) -> None:
    """By the comparison, the diagnosis and the scorecard; before, it was left out in silence."""
    path = log_of(tmp_path / "logs", 1) / "process-1.hlog"
    lines = path.read_text().splitlines(keepends=True)
    first_series = lines[4:6]
    path.write_text("".join([*lines, *first_series]))

    (one,) = runs_in(path.parent)
    notes = [one.notes, diagnose_source(str(path)).notes]
    notes.append(add_source(ScorecardBuilder(), str(path)))

    assert one.units == 400
    for each in notes:
        assert any(note.startswith(f"{path}: line") and "truncated" in note for note in each)
