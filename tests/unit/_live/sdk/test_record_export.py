"""Outputs of complete records: to the files of recordings, without an effect on the application."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import latspan
from latspan import Kind
from latspan._live.process.worker import Worker
from latspan._live.sdk._config import Config
from latspan._live.sdk._record_export import RECORDS_FOLDER, RecordOutputs, recording_folders
from latspan._model.recording.folder import begin_recording, prepare
from support.records import RECORD


def written(outputs: RecordOutputs, worker: Worker, *, records: int = 1) -> None:
    """Write a record some times, as the thread of a request does, and end."""
    write = outputs.write()
    assert write is not None
    outputs.begin()
    for _ in range(records):
        write(RECORD)
    worker.stop(10)
    outputs.stop()


def test_without_a_setting_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request costs nothing more."""
    monkeypatch.delenv(RECORDS_FOLDER, raising=False)
    config = Config()

    assert RecordOutputs(config, Worker()).write() is None
    assert recording_folders(config) == []


def test_a_record_reaches_every_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of the application's setting, and that of the command that started it."""
    begin_recording(tmp_path / "of the run", source="run")
    monkeypatch.setenv(RECORDS_FOLDER, str(tmp_path / "of the run"))
    config = Config(record_dir=str(tmp_path / "of the application"))
    worker = Worker()
    written(RecordOutputs(config, worker), worker)

    for name in ("of the run", "of the application"):
        assert [each.name for each in latspan.open_recording(tmp_path / name).records()] == [
            RECORD.name
        ]
    assert recording_folders(config) == [
        str(tmp_path / "of the run"),
        str(tmp_path / "of the application"),
    ]


def test_a_temporary_folder_is_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets lines for the report at the end of the program, and no histograms."""
    prepare(tmp_path, is_new=False)
    monkeypatch.setenv(RECORDS_FOLDER, str(tmp_path))
    worker = Worker()
    written(RecordOutputs(Config(), worker), worker, records=2)
    (path,) = tmp_path.glob("requests-*.ended.jsonl")

    assert path.read_text().count("\n") == 2
    assert recording_folders(Config()) == []


def test_a_full_file_and_a_full_disk_are_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The application goes on, and the recording counts what it lacks."""
    monkeypatch.delenv(RECORDS_FOLDER, raising=False)
    worker = Worker()
    outputs = RecordOutputs(Config(record_dir=str(tmp_path), record_size_limit_mb=1), worker)
    (file,) = outputs._files  # pyright: ignore[reportPrivateUsage]
    file._largest = 1  # pyright: ignore[reportPrivateUsage]
    with caplog.at_level(logging.WARNING):
        written(outputs, worker, records=3)
    recording = latspan.open_recording(tmp_path)

    assert len(list(recording.records(Kind.CALL))) <= 1
    assert [line for line in caplog.messages if "record_size_limit_mb" in line] == [
        (
            "the recording lacks further requests of this process, because its file has reached"
            " record_size_limit_mb; histograms still count them"
        )
    ]
    assert recording.notes[0].startswith("Missing: 2 records")


def test_an_error_of_the_disk_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the reason; no request waits for it or fails."""
    monkeypatch.delenv(RECORDS_FOLDER, raising=False)
    worker = Worker()
    outputs = RecordOutputs(Config(record_dir=str(tmp_path / "recording")), worker)
    (tmp_path / "recording").rename(tmp_path / "moved")
    with caplog.at_level(logging.WARNING):
        written(outputs, worker, records=3)

    (line,) = caplog.messages
    assert line.startswith("the recording lacks further requests of this process: ")
    assert "No such file or directory" in line
