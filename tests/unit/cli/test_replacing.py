"""Atomic replacement of a file: errors of writing name the file, and others are unchanged."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from latspan.cli import main
from latspan.cli._replacing import replacing
from latspan.errors import ConfigError
from support.comparisons import recording


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path, code: int) -> None:
    """The file keeps its contents, and nothing is left next to it."""
    file = tmp_path / "b.json"
    file.write_text("old", "utf-8")
    with (
        pytest.raises(ConfigError, match=r"cannot write to .*b\.json: " + os.strerror(code)),
        replacing(str(file)),
    ):
        raise OSError(code, os.strerror(code))
    assert file.read_text("utf-8") == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_of_another_file_is_unchanged(tmp_path: Path) -> None:
    """The caller may read files inside the block."""
    with pytest.raises(FileNotFoundError, match="input"), replacing(str(tmp_path / "b.json")):
        (tmp_path / "input").read_text("utf-8")


@pytest.mark.parametrize("option", ["--save-baseline", "--junit"])
def test_compare_explains_a_full_disk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    """Exit code 2 and the name of the file instead of a traceback."""
    sides = [str(recording(tmp_path / name, seed)) for seed, name in enumerate(("a", "b"))]

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    file = str(tmp_path / "out.json")
    assert main(["compare", *sides, option, file]) == 2
    assert f"cannot write to {file}: No space left on device" in capsys.readouterr().err
