"""The manifest of a recording: created once, replaced as a whole, refused if it is not one."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from latspan import open_recording
from latspan._model.recording.folder import Manifest, begin_recording, join_recording
from latspan.errors import RecordingError


def test_a_new_recording_can_be_opened(tmp_path: Path) -> None:
    """The folder is created, and the manifest has the conditions of the machine too."""
    folder = tmp_path / "runs" / "monday"
    begin_recording(folder, source="measure", conditions={"model": "m"})
    recording = open_recording(folder)

    assert recording.manifest["schema"] == "latspan.recording/2"
    assert recording.manifest["source"] == "measure"
    assert recording.conditions["model"] == "m"
    assert recording.conditions["processors"] >= 1
    assert list(recording.records()) == []


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    """A second run into the same folder would mix two measurements."""
    begin_recording(tmp_path, source="run")
    with pytest.raises(RecordingError, match="already holds a recording"):
        begin_recording(tmp_path, source="run")


def test_a_folder_with_other_files_is_refused_unchanged(tmp_path: Path) -> None:
    """The files and the mode of the folder belong to the user."""
    (tmp_path / "lost").write_text("a user's file")
    tmp_path.chmod(0o750)
    with pytest.raises(RecordingError, match="is not empty") as caught:
        begin_recording(tmp_path, source="run")

    assert caught.value.hint == "use a folder that does not exist yet, or an empty one"
    assert [path.name for path in tmp_path.iterdir()] == ["lost"]
    assert (tmp_path / "lost").read_text() == "a user's file"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


@pytest.mark.parametrize("begin", [partial(begin_recording, source="run"), join_recording])
def test_a_folder_that_exists_keeps_its_mode(
    tmp_path: Path, begin: Callable[[Path], Manifest]
) -> None:
    """Only a folder that latspan creates gets a mode."""
    tmp_path.chmod(0o750)
    begin(tmp_path)

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


def test_joining_overwrites_no_file(tmp_path: Path) -> None:
    """Neither the user's files, nor the count of another process of the same recording."""
    (tmp_path / "lost").write_text("a user's file")
    (tmp_path / "requests.lost").write_text("7")
    join_recording(tmp_path)

    assert (tmp_path / "lost").read_text() == "a user's file"
    assert (tmp_path / "requests.lost").read_text() == "7"


def test_processes_that_join_share_the_manifest(tmp_path: Path) -> None:
    """The first one creates it."""
    first, second = join_recording(tmp_path), join_recording(tmp_path)

    assert first.fields["id"] == second.fields["id"]
    assert first.fields["source"] == "record_dir"


def test_an_update_keeps_what_was_there(tmp_path: Path) -> None:
    """Values of one mapping are merged, and no temporary file is left."""
    manifest = begin_recording(tmp_path, source="measure", conditions={"a": 1})
    manifest.update(conditions={"b": 2}, measurement={"valid": True})
    recording = open_recording(tmp_path)

    assert {"a": 1, "b": 2}.items() <= recording.conditions.items()
    assert recording.manifest["measurement"] == {"valid": True}
    assert {path.name for path in tmp_path.iterdir()} == {"recording.json", "requests.lost"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema":', "[" * 100_000, "\x00"])
def test_a_damaged_manifest_is_an_error(tmp_path: Path, text: str) -> None:
    """And never a traceback."""
    (tmp_path / "recording.json").write_text(text)
    with pytest.raises(RecordingError, match="is not the manifest of a recording"):
        open_recording(tmp_path)


_STEPS: list[dict[str, Any]] = [
    {"generator": {"busy": None}},
    {"generator": {"busy": math.nan}},
    {"generator": {"dispatch_lag": {}}},
    {"generator": {"dispatch_lag": {"p99": None}}},
    {"generator": {"loop_lag": {"p50": "x", "p99": 0.1}}},
    {"load": {"rate_per_s": "x"}},
    {"load": {"concurrency": [1]}},
    {"offered_per_s": "x"},
    {"reached_per_s": math.inf},
    {"intended": 10**400},
    {"cut": [[]]},
]
"""Accounts of steps with a value of another type."""


@pytest.mark.parametrize(
    "fields",
    [
        {"schema": []},
        {"conditions": [1]},
        {"conversion": "x"},
        {"conversion": {"lacks": 5}},
        {"conversion": {"lacks": [5]}},
        {"measurement": "x"},
        {"measurement": {"kind": "zz"}},
        {"measurement": {"steps": [1]}},
        {"measurement": {"steps": [{"load": 1}]}},
        {"measurement": {"targets": [{"metric": 5}]}},
        {"measurement": {"percentile": "x"}},
        {"measurement": {"name": 5}},
        {"conditions": {"prompts": None}},
        *({"measurement": {"steps": [step]}} for step in _STEPS),
    ],
)
def test_a_field_of_another_type_is_an_error(tmp_path: Path, fields: dict[str, object]) -> None:
    """It is found when the recording is opened, not by each of its readers."""
    text = json.dumps({"schema": "latspan.recording/2", **fields})
    (tmp_path / "recording.json").write_text(text)
    with pytest.raises(RecordingError, match="is not the manifest of a recording"):
        open_recording(tmp_path)


def test_a_manifest_that_is_no_file_is_an_error(tmp_path: Path) -> None:
    """A FIFO without a writer does not block the reader."""
    os.mkfifo(tmp_path / "recording.json")
    with pytest.raises(RecordingError, match="is not a recording: it is not a regular file"):
        open_recording(tmp_path)


def test_a_later_schema_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """It might be misunderstood."""
    (tmp_path / "recording.json").write_text(json.dumps({"schema": "latspan.recording/99"}))
    with pytest.raises(RecordingError, match=r"latspan\.recording/99") as caught:
        open_recording(tmp_path)

    assert caught.value.hint is not None
    assert caught.value.hint.startswith("update latspan")


@pytest.mark.parametrize("name", ["missing", "file", "empty"])
def test_anything_else_is_not_a_recording(tmp_path: Path, name: str) -> None:
    """A missing folder, a file, a folder with other files."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordingError, match="is not a recording") as caught:
        open_recording(tmp_path / name)

    assert caught.value.hint is not None
    assert "latspan run --record" in caught.value.hint


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """With the reason of the operating system."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="cannot write a recording to"):
        begin_recording(tmp_path / "file" / "inside", source="run")
