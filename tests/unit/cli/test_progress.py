"""Progress goes to stderr, as lines where that is no terminal."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from latspan._model.recording.folder import open_recording
from latspan.cli._progress import progress, reading
from support.measurements import call, load_test, step


def test_a_line_every_ten_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """A log gets three lines for twenty-five, not twenty-five."""
    with progress(25, "chats") as advance:
        for _ in range(25):
            advance()

    written = capsys.readouterr()
    assert written.out == ""
    assert re.findall(r"^  (\d+ of 25 chats), \d+\.\d s$", written.err, re.MULTILINE) == [
        "10 of 25 chats",
        "20 of 25 chats",
        "25 of 25 chats",
    ]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _large(folder: Path, size: int) -> Path:
    """Return a recording of that size in bytes."""
    load_test(folder, [call(1)], [step(intended=1)])
    (path,) = folder.glob("*.jsonl")
    line = path.read_bytes()
    path.write_bytes(line * (size // len(line)))
    return folder


@pytest.mark.parametrize(
    ("size", "stream", "shown"),
    [
        (25_000_000, _Terminal(), True),
        (1_500_000, _Terminal(), False),
        (25_000_000, io.StringIO(), False),
    ],
    ids=["a large one", "a small one", "not a terminal"],
)
def test_a_large_recording_shows_its_progress_on_a_terminal(
    size: int, stream: io.StringIO, *, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the percentage that has been read; nothing in a log, and nothing of a short wait."""
    folder = _large(tmp_path / "recording", size)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with reading():
        for _ in open_recording(folder)._lines():  # pyright: ignore[reportPrivateUsage]
            pass
    assert ("reading the recording" in stream.getvalue()) is shown
    assert ("%" in stream.getvalue()) is shown
