"""Damaged lines: each is left out and counted, and the lines around it are read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from latspan import Recording, open_recording
from latspan._model.recording.folder import SnapshotReader, begin_recording
from latspan._study.table import OutermostReader, read_rows, read_table

_LINE: dict[str, Any] = {
    "kind": "call",
    "name": "chat m",
    "outcome": "completed",
    "start_epoch_ns": 1_700_000_000_000_000_000,
    "duration_ns": 100,
    "segments": [["server_wait", 0, 100, "measured"]],
    "metrics": {"time_to_first_token": 50},
    "chunk_gaps_ns": [10, 20],
}


def _table(recording: Recording) -> int:
    return len(read_table(recording))


def _table_with_snapshot(recording: Recording) -> int:
    reader = SnapshotReader(recording)
    table = read_table(recording, beside=reader)
    assert reader.snapshot().count(kind="call") == len(table)
    return len(table)


def _scorecard(recording: Recording) -> int:
    reader = OutermostReader()
    read_rows(recording, reader)
    table = reader.table()
    return 0 if table is None else len(table)


def _snapshot(recording: Recording) -> int:
    return recording.snapshot().count(kind="call")


def _records(recording: Recording) -> int:
    return len(list(recording.records()))


def _columns(recording: Recording) -> int:
    return len(recording.columns("duration")["duration"])


_READERS = [_table, _table_with_snapshot, _scorecard, _snapshot, _records, _columns]


def _recording(folder: Path, lines: Sequence[dict[str, Any]]) -> Recording:
    begin_recording(folder, source="run")
    file = folder / "requests-1-a.ended.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return open_recording(folder)


@pytest.mark.parametrize(
    "damage",
    [
        {"metrics": {"time_to_first_token": []}},
        {"metrics": {"time_to_first_token": "soon"}},
        {"metrics": {"of_another_program": "1"}},
        {"segments": [["server_wait", 0, 100]]},
        {"segments": [["server_wait", 100, 0, "measured"]]},
        {"segments": [["server_wait", 0, 100, "guessed"]]},
        {"own_segments": [["server_wait", 0, "x", "measured"]]},
        {"ratio": 1e-200},
        {"ratio": 2},
        {"start_epoch_ns": 2**70},
        {"duration_ns": "1"},
        {"kind": "calls"},
        {"side": "gateway"},
        {"outcome": "lost"},
        {"streamed": 1},
        {"streamed": None},
        {"attributes": {"route": 1}},
        {"attributes": {"route": []}},
        {"attributes": []},
        {"details": ["latspan.load.phase"]},
        {"details": {"latspan.load.index": []}},
        {"chunk_gaps_ns": [1, True]},
        {"chunk_gaps_ns": [1, -2]},
        {"chunk_gap_sources": {"1": "guessed"}},
        {"marks_ns": {"start": "0"}},
        {"tokens": {}},
        {"tokens": {"input": -1, "output": 3, "source": "provider"}},
        {"tokens": {"of_another_program": "1", "source": "provider"}},
        {"trace_id": "xyz"},
        {"span_id": "f" * 17},
        {"id": -1},
        {"parent": 1.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("read", _READERS, ids=lambda read: read.__name__)
def test_every_reader_leaves_out_the_same_lines(
    read: Callable[[Recording], int],
    damage: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The three others are read, with orjson and without."""
    recording = _recording(tmp_path, [_LINE, {**_LINE, **damage}, _LINE, _LINE])

    for orjson in (sys.modules.get("orjson"), None):
        monkeypatch.setitem(sys.modules, "orjson", orjson)

        assert read(recording) == 3
        assert "Skipped: 1 line cannot be read." in recording.notes


def test_a_line_without_gaps_is_read_next_to_one_with_gaps(tmp_path: Path) -> None:
    """``null`` stands for none."""
    recording = _recording(tmp_path, [_LINE, {**_LINE, "chunk_gaps_ns": None}])

    assert [read(recording) for read in _READERS] == [2] * len(_READERS)
