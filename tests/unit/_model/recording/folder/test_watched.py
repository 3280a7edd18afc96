"""The progress of reading a recording, and how often commands read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from latspan._model.recording.folder import Recording, open_recording, watched_reading
from latspan._study.compare import run_of
from latspan._study.diagnose import diagnose_recording
from support.comparisons import recording
from support.measurements import call, load_test, step


def _load_test(folder: Path) -> Recording:
    """Return a load test with a step that calibrates."""
    alone = {"load": {"concurrency": 1}}
    made = [call(index, at_ms=100 * index, number=index % 2) for index in range(200)]
    return load_test(folder, made, [step(intended=100, **alone), step(intended=100)])


def _plain(folder: Path) -> Recording:
    return open_recording(recording(folder / "plain", 1))


@pytest.mark.parametrize("read", [diagnose_recording, run_of])
@pytest.mark.parametrize("make", [_load_test, _plain])
def test_a_command_reads_a_recording_once(
    make: Callable[[Path], Recording], read: Callable[[Recording], object], tmp_path: Path
) -> None:
    """Parsing its lines takes nearly all of the time."""
    made, seen = make(tmp_path), list[tuple[int, int]]()
    with watched_reading(lambda done, total: seen.append((done, total))):
        read(made)
    size = sum(path.stat().st_size for path in made.folder.glob("*.jsonl"))
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen].count(size) == 1


def test_each_mebibyte_is_reported(tmp_path: Path) -> None:
    """In ascending order, with the size of all files as the total."""
    made, seen = _load_test(tmp_path), list[tuple[int, int]]()
    (path,) = made.folder.glob("*.jsonl")
    line = path.read_bytes().splitlines(keepends=True)[0]
    path.write_bytes(line * (3_500_000 // len(line)))
    with watched_reading(lambda done, total: seen.append((done, total))):
        count = sum(1 for _ in made.records())
    size = path.stat().st_size
    assert count == size // len(line)
    assert [done >> 20 for done, _ in seen] == [1, 2, 3, size >> 20]
    assert {total for _, total in seen} == {size}


def test_reading_outside_the_block_is_not_reported(tmp_path: Path) -> None:
    """The watcher belongs to one command."""
    made, seen = _load_test(tmp_path), list[int]()
    with watched_reading(lambda done, _: seen.append(done)):
        pass
    assert sum(1 for _ in made.records()) == 200
    assert seen == []
