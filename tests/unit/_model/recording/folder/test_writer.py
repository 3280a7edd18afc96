"""Files of complete records: what one process writes, another reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from latspan import Kind, Source, TokenSource
from latspan._model.recording.folder import RecordFile, Recording, prepare
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, Side, TokenCounts

FULL = RequestRecord(
    name="chat \N{SNOWMAN}\u2028\ud800",
    kind=Kind.REQUEST,
    side=Side.SERVER,
    outcome=Outcome.CLOSED_EARLY,
    start_epoch_ns=1_700_000_000_000_000_001,
    duration_ns=7,
    segments=(Segment("prepare", 0, 3), Segment("rerank", 3, 7, Source.ESTIMATED)),
    metrics={"time_to_first_token": MetricValue(5, Source.SERVER_REPORTED)},
    chunk_gaps=(MetricValue(1), MetricValue(2, Source.ESTIMATED)),
    tokens=TokenCounts(input=3, output=4, source=TokenSource.PROVIDER, cache_write=1),
    attributes={"model": "m"},
    trace_id=2**127,
    span_id=2**63,
    reports=(Segment("prepare", 0, 3),),
    marks_ns={"start": 0, "first_token": 5},
    scope_id=3,
    parent_id=2,
    details={"prompt.version": "7", "latspan.connection.reused": True, "n": 1.5},
)


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path) -> None:
    prepare(tmp_path, is_new=True)


def read(folder: Path) -> tuple[list[RequestRecord], tuple[str, ...]]:
    recording = Recording(folder, {})
    return list(recording.records()), recording.notes


def test_a_record_is_read_back_equal(tmp_path: Path) -> None:
    """Every field that a recording has, with large ids, line separators and a lone surrogate."""
    records = [FULL, replace(FULL, reports=None, tokens=TokenCounts())]
    file = RecordFile(tmp_path)
    file.begin()
    for record in records:
        file.append(record)
    file.end()

    assert read(tmp_path) == (records, ())


def test_a_number_that_json_does_not_have_becomes_text(tmp_path: Path) -> None:
    """An application may set any attribute, and its request must not be lost."""
    file = RecordFile(tmp_path)
    file.append(replace(FULL, details={"x": float("inf"), "y": (1.0, float("nan"))}))
    (record,) = read(tmp_path)[0]

    assert record.details == {"x": "inf", "y": [1.0, "nan"]}


def test_no_file_exists_before_the_first_request(tmp_path: Path) -> None:
    """A process that records nothing is not counted."""
    RecordFile(tmp_path).end()

    assert read(tmp_path) == ([], ())


def test_a_process_that_does_not_end_in_order_is_counted(tmp_path: Path) -> None:
    """Whether or not it wrote a record: its last ones may be missing."""
    RecordFile(tmp_path).begin()
    RecordFile(tmp_path).append(FULL)
    (note,) = read(tmp_path)[1]

    assert note.startswith("The last requests of 2 processes may be missing: they were")


def test_a_record_after_the_end_is_read(tmp_path: Path) -> None:
    """A request may end while the process shuts down; the process still ended in order."""
    file = RecordFile(tmp_path)
    file.begin()
    file.end()
    file.append(FULL)

    assert read(tmp_path) == ([FULL], ())


def test_scopes_of_two_processes_have_different_numbers(tmp_path: Path) -> None:
    """A number is unique in its process; in a recording, it must not link strangers."""
    for _ in range(2):
        file = RecordFile(tmp_path)
        file.append(replace(FULL, scope_id=1, parent_id=0))
        file.append(replace(FULL, scope_id=0, parent_id=1))
        file.end()
    records = read(tmp_path)[0]
    numbers = {record.scope_id for record in records if record.scope_id}

    assert len(numbers) == 2
    assert {record.parent_id for record in records if record.parent_id} == numbers


def test_records_that_cannot_be_written_are_counted(tmp_path: Path) -> None:
    """Of all processes together; each of them raises the error once, for its log line."""
    for _ in range(2):
        file = RecordFile(tmp_path)
        file.begin()
        (path,) = tmp_path.glob("*.jsonl")
        path.unlink()
        path.mkdir()
        with pytest.raises(IsADirectoryError):
            file.append(FULL)
        path.rmdir()
        file.append(FULL)
    records, (note,) = read(tmp_path)

    assert records == []
    assert note.startswith("Missing: 4 records of requests or calls could not be written")


def test_the_count_of_an_older_recording_is_read(tmp_path: Path) -> None:
    """Its file had another name."""
    (tmp_path / "requests.lost").rename(tmp_path / "lost")
    (tmp_path / "lost").write_text("00000000000000000002")
    (note,) = read(tmp_path)[1]

    assert note.startswith("Missing: 2 records of requests or calls could not be written")


@pytest.mark.parametrize("text", ["-5", "", "x", "1" * 5_000])
def test_a_count_that_is_no_number_of_records_is_unknown(tmp_path: Path, text: str) -> None:
    """Another user may write into the file."""
    (tmp_path / "requests.lost").write_text(text)
    (note,) = read(tmp_path)[1]

    assert note.startswith("Missing: an unknown number of records")


def test_a_deleted_folder_is_not_a_run_without_records(tmp_path: Path) -> None:
    """A program may delete all temporary files."""
    for path in tmp_path.iterdir():
        path.unlink()
    (note,) = read(tmp_path)[1]

    assert note.startswith("Missing: files of the recording were deleted")


@pytest.mark.parametrize("end", ['{"name": "cha', "[]\n{}\n", "\x00\xff\n", "[" * 100_000])
def test_a_truncated_line_costs_only_itself(tmp_path: Path, end: str) -> None:
    """A process was killed while it wrote, or the disk was full."""
    RecordFile(tmp_path).append(FULL)
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("a", encoding="latin-1") as file:
        file.write(end)
    records, notes = read(tmp_path)

    assert records == [FULL]
    assert notes[0].startswith("Skipped: ")


def test_records_above_the_size_limit_are_counted(tmp_path: Path) -> None:
    """A long run fills neither the disk nor the memory of the report."""
    file = RecordFile(tmp_path, largest=1)
    for _ in range(3):
        file.append(FULL)
    records, notes = read(tmp_path)

    assert len(records) == 1
    assert file.is_full
    assert notes[0].startswith("Missing: 2 records")
