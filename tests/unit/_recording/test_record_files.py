"""Files of complete records: what one process writes, another reads."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from latspan import Kind, Source, TokenSource
from latspan._recording import RecordFile, prepare_records_folder, read_records
from latspan._recording._record_files import MOST_RECORDS, RunRecords
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment, Side, TokenCounts

FULL = RequestRecord(
    name="chat \N{SNOWMAN}\u2028",
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
)


@pytest.fixture(autouse=True)
def prepared(tmp_path: Path) -> None:
    prepare_records_folder(tmp_path)


def test_a_record_is_read_back_equal(tmp_path: Path) -> None:
    """Every field that a report shows, with large ids and line separators in texts."""
    records = [FULL, replace(FULL, reports=None, tokens=TokenCounts())]
    file = RecordFile(tmp_path)
    file.begin()
    for record in records:
        file.append(record)
    file.end()

    assert read_records(tmp_path) == RunRecords(records, 1, False, 0, 0)


def test_no_file_exists_before_the_first_request(tmp_path: Path) -> None:
    """A process that records nothing is not counted."""
    RecordFile(tmp_path).end()

    assert read_records(tmp_path) == RunRecords([], 0, False, 0, 0)


def test_a_process_that_does_not_end_in_order_is_counted(tmp_path: Path) -> None:
    """Whether or not it wrote a record: its last ones may be missing."""
    RecordFile(tmp_path).begin()
    RecordFile(tmp_path).append(FULL)

    assert read_records(tmp_path) == RunRecords([FULL], 1, False, 0, 2)


def test_a_record_after_the_end_is_read(tmp_path: Path) -> None:
    """A request may end while the process shuts down; the process still ended in order."""
    file = RecordFile(tmp_path)
    file.begin()
    file.end()
    file.append(FULL)

    assert read_records(tmp_path) == RunRecords([FULL], 1, False, 0, 0)


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

    assert read_records(tmp_path) == RunRecords([], 0, False, 4, 0)


def test_a_deleted_folder_is_not_a_run_without_records(tmp_path: Path) -> None:
    """A program may delete all temporary files."""
    for path in tmp_path.iterdir():
        path.unlink()

    assert read_records(tmp_path).lost is None


@pytest.mark.parametrize("end", ['{"name": "cha', "\n[]\n{}\n", "\x00\xff\n"])
def test_a_truncated_line_costs_only_itself(tmp_path: Path, end: str) -> None:
    """A process was killed while it wrote, or the disk was full."""
    RecordFile(tmp_path).append(FULL)
    (path,) = tmp_path.glob("*.jsonl")
    with path.open("a", encoding="latin-1") as file:
        file.write(end)

    assert read_records(tmp_path).records == [FULL]


def test_records_above_the_limit_are_not_written(tmp_path: Path) -> None:
    """A long run fills neither the disk nor the memory of the report."""
    file = RecordFile(tmp_path, limit=2)
    for _ in range(3):
        file.append(FULL)

    assert len(read_records(tmp_path).records) == 2
    assert MOST_RECORDS > 2


def test_a_forked_child_writes_a_file_of_its_own(tmp_path: Path) -> None:
    """Two processes with one file position would write over each other."""
    file = RecordFile(tmp_path)
    file.begin()
    file.append(FULL)
    child = os.fork()
    if child == 0:
        file.end()
        file.begin()
        file.append(FULL)
        os._exit(0)
    os.waitpid(child, 0)
    file.end()

    assert read_records(tmp_path) == RunRecords([FULL, FULL], 2, False, 0, 1)
