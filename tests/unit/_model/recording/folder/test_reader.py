"""A recording as its reader sees it: records, columns, snapshot."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from math import inf, isnan
from pathlib import Path
from typing import Any

import pytest

import latspan
from latspan import Kind, Recording, Source, TokenSource, write_interval
from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.recording import Recorder
from latspan._model.recording.folder import RecordFile, begin_recording
from latspan._model.recording.folder import _reader as reader
from latspan._model.recording.folder._lines import line_of
from latspan.cli import main
from latspan.errors import RecordingError, UnknownNameError
from latspan.histogram import HistogramLogWriter
from latspan.integrations import Outcome
from latspan.testing import ManualClock, MetricValue, RequestRecord, Segment, TokenCounts


def call(number: int, **changes: object) -> RequestRecord:
    duration_ns = (number + 1) * NS_PER_MS
    record = RequestRecord(
        name="chat m",
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=number * NS_PER_S,
        duration_ns=duration_ns,
        segments=(Segment("send", 0, NS_PER_MS), Segment("server_wait", NS_PER_MS, duration_ns)),
        metrics={
            "duration": MetricValue(duration_ns),
            "time_to_first_token": MetricValue(duration_ns // 2),
        },
        tokens=TokenCounts(input=number, source=TokenSource.PROVIDER),
        attributes={"model": "m"},
        details={"latspan.load.dispatch_lag": 0.5, "shard": number},
    )
    return replace(record, **changes)  # pyright: ignore[reportArgumentType]


def recorded(folder: Path, *records: RequestRecord) -> Recording:
    begin_recording(folder, source="run")
    file = RecordFile(folder)
    file.begin()
    for record in records:
        file.append(record)
    file.end()
    return latspan.open_recording(folder)


def notes_of(recording: Recording) -> object:
    return recording.notes


def test_a_number_that_no_double_can_hold_is_an_object(tmp_path: Path) -> None:
    """Another program may have written it."""
    recording = recorded(tmp_path / "recording", call(0, details={"shard": 7}), call(1))
    (lines,) = (tmp_path / "recording").glob("*.jsonl")
    huge = 10**400
    lines.write_text(lines.read_text().replace('"shard":7', f'"shard":{huge}'))
    assert recording.columns("shard")["shard"].tolist() == [huge, 1]


def test_tokens_may_be_null(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "recording", call(0))
    (lines,) = (tmp_path / "recording").glob("*.jsonl")
    fields = json.loads(lines.read_text())
    lines.write_text(json.dumps({**fields, "tokens": None}) + "\n")
    assert len(list(recording.records())) == 1
    assert "tokens.input" not in recording.columns()
    assert isnan(recording.columns("tokens.input")["tokens.input"][0])


@pytest.mark.parametrize("name", ["name", "kind", "outcome", "start", "tokens.input", "ttft"])
def test_an_attribute_with_the_name_of_a_column_adds_no_value_to_it(
    name: str, tmp_path: Path
) -> None:
    recording = recorded(tmp_path / "recording", call(0, attributes={name: "mine"}), call(1))
    assert {len(column) for column in recording.columns().values()} == {2}


@pytest.mark.parametrize(
    ("name", "meant"),
    [("ttftt", "ttft"), ("segment.qeue", "segment.queue"), ("tokens.inputs", "tokens.input")],
)
def test_a_misspelt_column_is_an_error_with_the_name_that_was_meant(
    name: str, meant: str, tmp_path: Path
) -> None:
    recording = recorded(tmp_path / "recording", call(0))
    with pytest.raises(UnknownNameError, match=f"did you mean '{meant}'"):
        recording.columns(name)


def test_a_column_without_a_value_is_no_error_if_latspan_defines_it(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "recording", call(0))
    names = ("ttfv", "segment.queue", "tokens.cached", "tenant", "duration.from_schedule")
    assert recording.columns(*names).keys() == set(names)


def test_an_unknown_kind_is_an_error_with_the_kinds_that_exist(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "recording", call(0))
    with pytest.raises(UnknownNameError, match="hint: one of request, inner_request"):
        next(recording.records("calls"))
    with pytest.raises(UnknownNameError, match="no kind 'calls'"):
        recording.columns("duration", kind="calls")
    with pytest.raises(UnknownNameError, match="no kind 'calls'"):
        latspan.diagnose(kind="calls", snapshot=recording.snapshot())


def test_columns_have_one_value_per_request(tmp_path: Path) -> None:
    """In seconds and counts, NaN where a request has no value, under any name of a metric."""
    stage = call(9, kind=Kind.STAGE, metrics={}, tokens=TokenCounts(), details={}, attributes={})
    recording = recorded(tmp_path, call(0), call(1), stage)
    columns = recording.columns("ttft", "duration", "segment.send", "tokens.input", "model", "kind")

    assert list(columns) == ["ttft", "duration", "segment.send", "tokens.input", "model", "kind"]
    assert columns["ttft"][:2].tolist() == [0.0005, 0.001]
    assert isnan(columns["ttft"][2])
    assert columns["duration"].tolist() == [0.001, 0.002, 0.01]
    assert columns["segment.send"].tolist() == [0.001, 0.001, 0.001]
    assert columns["tokens.input"][:2].tolist() == [0, 1]
    assert columns["model"].tolist() == ["m", "m", None]
    assert columns["kind"].tolist() == ["call", "call", "stage"]


def test_a_latency_also_exists_from_its_scheduled_time(tmp_path: Path) -> None:
    """It is later by the dispatch lag that the load generator measured."""
    columns = recorded(tmp_path, call(1)).columns("duration.from_schedule", "ttft.from_schedule")

    assert columns["duration.from_schedule"].tolist() == [0.502]
    assert columns["ttft.from_schedule"].tolist() == [0.501]


def test_without_names_every_column_that_occurs_is_returned(tmp_path: Path) -> None:
    """And a name that does not occur is a column without values."""
    recording = recorded(tmp_path, call(0), call(1, details={"shard": "b"}))

    assert {"shard", "model", "duration", "segment.server_wait"} <= set(recording.columns())
    assert recording.columns("shard")["shard"].tolist() == [0, "b"]
    assert recording.columns("nothing")["nothing"].tolist() == [None, None]
    assert recording.columns("stall_count", kind="stage")["stall_count"].shape == (0,)


def test_a_data_frame_has_one_row_per_request(tmp_path: Path) -> None:
    """Of the kind that is asked for."""
    recording = recorded(tmp_path, call(0), call(1, kind=Kind.STAGE))

    assert recording.to_pandas("duration", kind="call")["duration"].tolist() == [0.001]


def test_a_snapshot_counts_every_request(tmp_path: Path) -> None:
    """And has all of them complete if they are few."""
    calls = [call(number) for number in range(20)]
    snapshot = recorded(tmp_path, *calls).snapshot()

    assert snapshot.records == tuple(calls)
    assert snapshot.count() == 20
    assert snapshot.percentile("duration", 95) == pytest.approx(19, rel=0.001)


def test_a_large_snapshot_keeps_a_sample_with_the_slowest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the recording, and the same one each time."""
    # A name that looks like the field from which the duration is read.
    monkeypatch.setattr(reader, "RECORDS_KEPT", 5)
    hostile = '"duration_ns":99999999999,'
    calls = [call(number, name=hostile) for number in (*range(50), 99, *range(50))]
    recording = recorded(tmp_path, *calls)
    records = recording.snapshot().records

    assert 5 <= len(records) <= 6
    assert calls[50] in records
    assert records == recording.snapshot().records
    assert recording.snapshot().count() == 101


def test_a_sampled_recording_is_counted_by_its_histograms(tmp_path: Path) -> None:
    """They contain the requests that were not written."""
    recording = recorded(tmp_path, *(call(number, ratio=0.25) for number in range(3)))
    (path,) = tmp_path.glob("*.jsonl")
    path.write_text(path.read_text().replace('"kind"', '"ratio":0.25,"kind"'))
    clock = ManualClock()
    recorder = Recorder(clock)
    for number in range(12):
        recorder.record(call(number))
    with HistogramLogWriter(tmp_path / "a.hlog") as writer:
        write_interval(writer, recorder.swap_interval())
    snapshot = recording.snapshot()

    assert snapshot.count() == 12
    assert [record.ratio for record in snapshot.records] == [0.25] * 3


def test_a_killed_process_of_a_sampled_recording_is_counted_by_its_lines(tmp_path: Path) -> None:
    """Each line counts as often as it stands for; its histograms lack the last interval."""
    recorded(tmp_path)
    for process, ended in ((1, ".ended"), (2, "")):
        path = tmp_path / f"requests-{process}-ab{ended}.jsonl"
        path.write_text("".join(line_of(call(number), 0.4) for number in range(4)))
        recorder = Recorder(ManualClock())
        for number in range(11 if ended else 5):
            recorder.record(call(number))
        log = tmp_path / f"host-{process}-20261124T000000Z-abcdef.hlog"
        with HistogramLogWriter(log) as writer:
            write_interval(writer, recorder.swap_interval())

    assert latspan.open_recording(tmp_path).snapshot().count() == 11 + 4 / 0.4


def test_a_sampled_recording_without_histograms_is_counted_by_its_lines(tmp_path: Path) -> None:
    """Each line counts as often as it stands for, also if its process ended in order."""
    recorded(tmp_path)
    path = tmp_path / "requests-1-ab.ended.jsonl"
    path.write_text("".join(line_of(call(number), 0.4) for number in range(4)))

    assert latspan.open_recording(tmp_path).snapshot().count() == 10


def test_a_measured_request_that_an_interruption_cancelled_is_a_lower_bound(
    tmp_path: Path,
) -> None:
    """It is counted, and the percentile that falls on it is not known."""
    phase = {"latspan.load.phase": "measured"}
    calls = [
        call(number, details={**phase, "latspan.load.index": number}, outcome=outcome)
        for number, outcome in enumerate([Outcome.COMPLETED] * 15 + [Outcome.CANCELLED] * 5)
    ]
    recording = recorded(tmp_path, *calls)
    steps = [{"cut": list(range(15, 20))}]
    manifest: dict[str, Any] = {**recording.manifest, "measurement": {"steps": steps}}
    snapshot = Recording(tmp_path, manifest).snapshot()

    assert (snapshot.count(), snapshot.metric("duration").cut()) == (20, 5)
    low, high = snapshot.percentile_bounds("duration", 95)
    assert (round(low), high) == (19, inf)


def test_histograms_of_a_killed_process_are_not_trusted(tmp_path: Path) -> None:
    """They lack its last interval, so its lines are counted."""
    recording = recorded(tmp_path, *(call(number) for number in range(3)))
    (path,) = tmp_path.glob("*.jsonl")
    recorder = Recorder(ManualClock())
    recorder.record(call(0))
    with HistogramLogWriter(tmp_path / "a.hlog") as writer:
        write_interval(writer, recorder.swap_interval())
    in_order = recording.snapshot().count()
    path.rename(tmp_path / path.name.replace(".ended", ""))

    assert (in_order, recording.snapshot().count()) == (1, 3)


def test_only_the_measured_requests_of_a_load_test_are_counted(tmp_path: Path) -> None:
    """Warm-up and drain are in the recording, but not in its report."""
    phases = ("warmup", "measured", "measured", "drain")
    recording = recorded(
        tmp_path,
        *(call(number, details={"latspan.load.phase": each}) for number, each in enumerate(phases)),
    )
    manifest: dict[str, Any] = {**recording.manifest, "measurement": {"steps": [{}]}}
    snapshot = Recording(tmp_path, manifest).snapshot()

    assert snapshot.count() == 2
    assert [record.details["latspan.load.phase"] for record in snapshot.records] == ["measured"] * 2


@pytest.mark.parametrize("separators", [(", ", ": "), (",", ": "), (", ", ":")])
def test_lines_with_spaces_are_counted_like_others(
    tmp_path: Path, separators: tuple[str, str]
) -> None:
    """Another program may write JSON in another form."""
    phases = ("warmup", "measured", "measured", "drain")
    recording = recorded(
        tmp_path,
        *(call(number, details={"latspan.load.phase": each}) for number, each in enumerate(phases)),
    )
    (path,) = tmp_path.glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line, separators=separators) + "\n" for line in lines))
    snapshot = Recording(tmp_path, {**recording.manifest, "measurement": {"a": 1}}).snapshot()

    assert snapshot.count() == 2
    assert [record.start_epoch_ns for record in snapshot.records] == [NS_PER_S, 2 * NS_PER_S]


def test_a_snapshot_counts_the_lines_that_cannot_be_read(tmp_path: Path) -> None:
    """A report states them."""
    recording = recorded(tmp_path, call(0), call(1))
    (path,) = tmp_path.glob("*.jsonl")
    path.write_text(path.read_text().replace('"duration_ns":1000000,', '"duration_ns":"x",'))

    assert recording.snapshot().count() == 1
    assert recording.notes == ("Skipped: 1 line cannot be read.",)


@pytest.mark.parametrize("name", ["requests-2-cd.jsonl", "x.hlog"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "dangling link"])
@pytest.mark.parametrize("command", ["report", "diagnose", "scorecard"])
def test_a_file_that_cannot_be_read_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, kind: str, name: str
) -> None:
    """Of the command too: exit code 4, with the file."""
    recorded(tmp_path, call(0), call(1))
    path = tmp_path / name
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    code = main([command, str(tmp_path)])
    if name == "x.hlog" and command != "report":
        # Only the lines are read, because there are all of them.
        return
    assert code == 4
    assert f"error: cannot read {path}: " in capsys.readouterr().err


@pytest.mark.parametrize("read", [Recording.snapshot, Recording.columns, notes_of])
def test_a_folder_that_cannot_be_listed_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Recording], object]
) -> None:
    """Another user may enter the folder of a recording that root made, but not list it."""
    recording = recorded(tmp_path, call(0))

    def refused(_: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    # The tests may run as root, to whom nothing is refused.
    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(RecordingError, match=f"cannot read {tmp_path}: Permission denied"):
        read(recording)


def test_sources_survive(tmp_path: Path) -> None:
    """An estimate stays an estimate in the snapshot of a recording."""
    estimated = MetricValue(5, Source.ESTIMATED)
    recording = recorded(
        tmp_path, *(call(0, metrics={"time_to_first_token": estimated}) for _ in range(2))
    )

    assert recording.snapshot().metric("ttft").source_fractions() == {Source.ESTIMATED: 1.0}


def test_a_log_whose_end_is_missing_is_named_and_not_trusted(tmp_path: Path) -> None:
    """The disk was full at the second interval; the lines have every request."""
    recording = recorded(tmp_path, *(call(number) for number in range(3)))
    recorder = Recorder(ManualClock())
    recorder.record(call(0))
    log = tmp_path / "host-1-20261124T000000Z-abcdef.hlog"
    with HistogramLogWriter(log) as writer:
        write_interval(writer, recorder.swap_interval())
    lines = log.read_text().splitlines(keepends=True)
    first_series = lines[4:6]
    log.write_text("".join([*lines, *first_series]))

    assert recording.snapshot().count() == 3
    assert any("truncated interval" in note for note in recording.notes)


def test_details_show_a_stream_as_a_field_does(tmp_path: Path) -> None:
    """A completed stream without a token has none, whichever of the two states the stream."""
    stated = {"gen_ai.request.stream": True}
    without_token = {"metrics": {"duration": MetricValue(NS_PER_MS)}}
    calls = [call(0), *(call(number, details=stated, **without_token) for number in range(1, 5))]

    snapshot = recorded(tmp_path, *calls).snapshot()

    assert snapshot.metric("ttft").failed() == 4


def test_the_warm_up_of_a_load_test_in_traces_does_not_count(tmp_path: Path) -> None:
    """Their recording has no account of the load test, but the lines have phases."""
    phases = ["warmup", "warmup", "measured"]
    calls = [call(at, details={"latspan.load.phase": phase}) for at, phase in enumerate(phases)]

    assert recorded(tmp_path, *calls, call(3)).snapshot().count() == 2


def test_a_line_with_an_empty_list_of_gaps_hides_no_other_gaps(tmp_path: Path) -> None:
    """It is another form of line."""
    recording = recorded(tmp_path, call(0), *(call(1, chunk_gaps=(MetricValue(5),)),) * 2)
    (path,) = tmp_path.glob("*.jsonl")
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text(first.replace('"metrics"', '"chunk_gaps_ns":[],"metrics"') + "".join(others))

    assert recording.snapshot().metric("chunk_gap").count() == 2
