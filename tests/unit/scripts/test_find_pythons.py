"""Which other interpreters of the machine the tests run with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

SCRIPT: Final = Path(__file__).resolve().parents[3] / "scripts" / "find_pythons.py"
OWN: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHER, THIRD, *_ = [each for each in ("3.11", "3.12", "3.13") if each != OWN]


def program(path: Path, version: str) -> str:
    """Write an interpreter that states a version, or does not start if the version is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n" if version else "#!/bin/sh\nexit 127\n")
    path.chmod(0o755)
    return str(path)


def found(folder: Path) -> list[str]:
    """Return the lines of the script, on a machine that has the interpreters in a folder only."""
    places = {"PATH": str(folder / "bin"), "PYENV_ROOT": str(folder / "pyenv")}
    done = subprocess.run(
        [sys.executable, SCRIPT],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **places},
    )
    return done.stdout.splitlines()


def test_one_interpreter_of_each_other_version_is_found(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / f"python{OTHER}", OTHER)
    program(tmp_path / "bin" / f"python{OWN}", OWN)
    program(tmp_path / "pyenv" / "versions" / f"{OTHER}.1" / "bin" / "python3", OTHER)
    of_pyenv = program(tmp_path / "pyenv" / "versions" / f"{THIRD}.4" / "bin" / "python3", THIRD)

    assert found(tmp_path) == [f"{OTHER} {on_path}", f"{THIRD} {of_pyenv}"]


def test_a_command_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    """Those that pyenv puts on PATH start only if the version is selected."""
    program(tmp_path / "bin" / f"python{OTHER}", "")
    python = program(tmp_path / "pyenv" / "versions" / f"{OTHER}.0" / "bin" / "python3", OTHER)

    assert found(tmp_path) == [f"{OTHER} {python}"]


def test_a_version_that_is_not_supported_is_not_found(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "python3.10", "3.10")

    assert found(tmp_path) == []
