"""A log of this process's own has every interval once, even after a full disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latspan._live.otel.export import HistogramLogs, PeriodicExport
from latspan._model.recording import Recorder, read_snapshots
from latspan.errors import HistogramWriteError
from latspan.testing import ManualClock
from support.records import RECORD


def test_each_interval_is_appended_to_one_file(tmp_path: Path) -> None:
    """The folder is made, and the file is named for the process; empty intervals are left out."""
    clock = ManualClock(epoch_offset_ns=1_700_000_000_000_000_000)
    recorder = Recorder(clock)
    logs = HistogramLogs(tmp_path / "not" / "there yet")
    for records in (0, 1, 2, 0, 3):
        for _ in range(records):
            recorder.record(RECORD)
        clock.advance(1_000_000)
        assert logs.send(recorder.swap_interval())
    logs.shutdown(1)

    [log] = (tmp_path / "not" / "there yet").iterdir()
    assert f"-{os.getpid()}-20231114T221320Z-" in log.name
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1, 2, 3]


def test_what_a_full_disk_did_not_take_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what happened, and nothing is lost or written twice."""
    recorder, logs = Recorder(ManualClock()), HistogramLogs(tmp_path)
    recorder.record(RECORD)
    assert logs.send(recorder.swap_interval())

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for _ in range(2):
            recorder.record(RECORD)
            with pytest.raises(HistogramWriteError, match="No space left"):
                logs.send(recorder.swap_interval())
    recorder.record(RECORD)
    assert logs.send(recorder.swap_interval())
    logs.shutdown(1)

    [log] = tmp_path.iterdir()
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1, 3]


def test_a_folder_that_cannot_be_created_is_logged(tmp_path: Path) -> None:
    """With how to mend it; what was recorded is still there when it is mended."""
    (tmp_path / "taken").touch()
    recorder, logs = Recorder(ManualClock()), HistogramLogs(tmp_path / "taken" / "logs")
    recorder.record(RECORD)

    with pytest.raises(HistogramWriteError, match="hint: set histogram_log_dir to a folder"):
        logs.send(recorder.swap_interval())
    (tmp_path / "taken").unlink()

    assert logs.send(recorder.swap_interval())
    logs.shutdown(1)
    [log] = (tmp_path / "taken" / "logs").iterdir()
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1]


def test_a_folder_that_cannot_be_created_is_logged_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The line names the cause and the remedy."""
    (tmp_path / "taken").touch()
    recorder = Recorder(ManualClock())
    recorder.record(RECORD)
    export = PeriodicExport(recorder, [HistogramLogs(tmp_path / "taken" / "logs")], interval_s=60)

    assert not export.force_flush()
    (tmp_path / "taken").unlink()
    export.shutdown()

    (record,) = caplog.records
    assert "hint: set histogram_log_dir to a folder" in record.getMessage()
    assert not record.exc_info


def _removes_the_file(log: Path) -> None:
    log.unlink()


def _removes_the_folder(log: Path) -> None:
    log.unlink()
    log.parent.rmdir()


def _moves_the_file(log: Path) -> None:
    log.rename(log.with_suffix(".hlog.1"))


def _puts_another_in_its_place(log: Path) -> None:
    log.rename(log.with_suffix(".hlog.1"))
    log.touch()


def _empties_the_file(log: Path) -> None:
    os.truncate(log, 0)


@pytest.mark.parametrize(
    "rotate",
    [
        _removes_the_file,
        _removes_the_folder,
        _moves_the_file,
        _puts_another_in_its_place,
        _empties_the_file,
    ],
)
def test_a_log_that_is_taken_away_is_begun_anew_under_its_name(
    tmp_path: Path, rotate: Callable[[Path], None]
) -> None:
    """The next interval is in a whole log again; what was moved stays as it was."""
    folder = tmp_path / "logs"
    recorder, logs = Recorder(ManualClock()), HistogramLogs(folder)
    recorder.record(RECORD)
    assert logs.send(recorder.swap_interval())
    [log] = folder.iterdir()
    rotate(log)
    for _ in range(2):
        recorder.record(RECORD)
        recorder.record(RECORD)
        assert logs.send(recorder.swap_interval())
    logs.shutdown(1)

    assert [snapshot.count() for snapshot in read_snapshots(log)] == [2, 2]
    for moved in folder.glob("*.hlog.1"):
        assert [snapshot.count() for snapshot in read_snapshots(moved)] == [1]


def test_an_interval_whose_file_is_removed_while_it_is_written_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is reported as written can be read."""
    recorder, logs = Recorder(ManualClock()), HistogramLogs(tmp_path)
    recorder.record(RECORD)
    assert logs.send(recorder.swap_interval())
    [log] = tmp_path.iterdir()
    write = os.write

    def removed_first(file: int, data: bytes) -> int:
        monkeypatch.undo()
        log.unlink()
        return write(file, data)

    monkeypatch.setattr(os, "write", removed_first)
    recorder.record(RECORD)

    assert logs.send(recorder.swap_interval())
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1]


def test_a_file_that_is_removed_repeatedly_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken for delivered, and it is delivered with the next interval."""
    recorder, logs = Recorder(ManualClock()), HistogramLogs(tmp_path)
    write = os.write

    def removed_first(file: int, data: bytes) -> int:
        for log in tmp_path.iterdir():
            log.unlink()
        return write(file, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", removed_first)
        recorder.record(RECORD)
        with pytest.raises(HistogramWriteError, match="was removed during"):
            logs.send(recorder.swap_interval())

    assert logs.send(recorder.swap_interval())
    [log] = tmp_path.iterdir()
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1]
