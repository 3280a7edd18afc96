"""A log of this process's own has every interval once, even after a full disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from latspan.clock import ManualClock
from latspan.errors import HistogramWriteError
from latspan.export import HistogramLogs
from latspan.recording import Recorder, read_snapshots
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


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """With how to mend it; what was recorded is still there when it is mended."""
    (tmp_path / "taken").touch()
    recorder, logs = Recorder(ManualClock()), HistogramLogs(tmp_path / "taken" / "logs")
    recorder.record(RECORD)

    with pytest.raises(HistogramWriteError, match="hint: give histogram_log a folder"):
        logs.send(recorder.swap_interval())
    (tmp_path / "taken").unlink()

    assert logs.send(recorder.swap_interval())
    logs.shutdown(1)
    [log] = (tmp_path / "taken" / "logs").iterdir()
    assert [snapshot.count() for snapshot in read_snapshots(log)] == [1]
