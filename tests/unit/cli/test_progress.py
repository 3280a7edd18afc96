"""Progress goes to stderr, as lines where that is no terminal."""

from __future__ import annotations

import re

import pytest

from latspan.cli._progress import progress


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
