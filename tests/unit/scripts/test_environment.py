"""A problem with the machine is reported in one message with a hint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "environment"

OLD = """#!/bin/sh
# A Python that is 3.9 in all that is asked of it.
case "$2" in
  *sys.exit*) exit 1 ;;
  *) echo 3.9 ;;
esac
"""


def environment(python: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, python, folder], capture_output=True, text=True)


def test_a_missing_python_is_named(tmp_path: Path) -> None:
    made = environment("python-of-nowhere", tmp_path / "venv")

    assert made.returncode == 1
    assert made.stderr.startswith("latspan: cannot find the program 'python-of-nowhere'\nhint: ")
    assert len(made.stderr.splitlines()) == 2


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text(OLD)
    old.chmod(0o755)

    made = environment(str(old), tmp_path / "venv")

    assert made.returncode == 1
    assert f"latspan needs Python 3.11 or newer, '{old}' is 3.9" == (
        made.stderr.splitlines()[0].removeprefix("latspan: ")
    )
    assert not (tmp_path / "venv").exists()


def test_an_existing_environment_is_not_changed(tmp_path: Path) -> None:
    """The environment of these tests is one: its own interpreter has nothing to do."""
    standing = Path(sys.prefix)

    made = environment(f"{standing}/bin/python", standing)

    assert (made.returncode, made.stderr) == (0, "")
