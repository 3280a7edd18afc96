"""Damaged lines: each is left out and counted, and the lines around it are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latspan import open_recording
from latspan._recording.folder import begin_recording
from latspan._study.table import read_table

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


@pytest.mark.parametrize(
    "damage",
    [
        {"metrics": {"time_to_first_token": []}},
        {"metrics": {"time_to_first_token": "soon"}},
        {"segments": [["server_wait", 0, 100]]},
        {"segments": [["server_wait", 100, 0, "measured"]]},
        {"ratio": 1e-200},
        {"ratio": 2},
        {"start_epoch_ns": 2**70},
        {"outcome": "lost"},
        {"attributes": {"route": 1}},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_a_damaged_line_is_counted_and_left_out(damage: dict[str, Any], tmp_path: Path) -> None:
    """The three others are read."""
    begin_recording(tmp_path, source="run")
    lines = [_LINE, {**_LINE, **damage}, _LINE, _LINE]
    file = tmp_path / "requests-1-a.ended.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    recording = open_recording(tmp_path)

    table = read_table(recording)

    assert len(table) == 3
    assert "Skipped: 1 line cannot be read." in recording.notes


def test_a_line_without_gaps_is_read_next_to_one_with_gaps(tmp_path: Path) -> None:
    """``null`` stands for none."""
    begin_recording(tmp_path, source="run")
    lines = [_LINE, {**_LINE, "chunk_gaps_ns": None}]
    file = tmp_path / "requests-1-a.ended.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert len(read_table(open_recording(tmp_path))) == 2
