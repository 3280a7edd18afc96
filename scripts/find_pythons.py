#!/usr/bin/env python3
"""
Print the version and the path of each other Python of this machine that latspan supports.

One line per minor version, for example ``3.13 /usr/bin/python3.13``. The versions are those of the
classifiers in ``pyproject.toml``, without that of the Python that runs this script. An interpreter
is found on ``PATH`` or among those of pyenv, whose commands on ``PATH`` may refuse to start.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from shutil import which

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
PRINT_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def supported() -> list[str]:
    """Return the minor versions that latspan supports, for example ``3.11``."""
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each)
             for each in project["classifiers"])  # fmt: skip
    return [each[1] for each in named if each]


def candidates(version: str) -> Iterator[str]:
    """Yield the paths at which an interpreter of a minor version may be."""
    if on_path := which(f"python{version}"):
        yield on_path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in sorted(pyenv.glob(f"versions/{version}.*")):
        yield str(folder / "bin" / "python3")


def runs(python: str, version: str) -> bool:
    """Return whether an interpreter starts, and has a minor version."""
    try:
        done = subprocess.run(  # noqa: S603 - a path that was found on this machine
            [python, "-c", PRINT_VERSION], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def main() -> None:
    """Print the interpreters."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in supported():
        found = (each for each in candidates(version) if runs(each, version))
        if version != own and (python := next(found, None)):
            sys.stdout.write(f"{version} {python}\n")


if __name__ == "__main__":
    main()
