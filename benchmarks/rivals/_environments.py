"""
Environment of each library: a folder under ``build/rivals``, created when it is first needed.

The name of a stamp file in the folder contains a checksum of the Python version and the
requirements. So a second run uses the environment again, unless one of them has changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rivals._libraries import CLIENT, SHARED, Library

_ROOT: Final = Path(__file__).resolve().parents[2]
_FOLDER: Final = _ROOT / "build" / "rivals"
_PIP: Final = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


_VERSIONS: Final = """
import json, sys
from importlib.metadata import version
print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""


class NotInstalledError(Exception):
    """The environment of a library could not be created; the message is the reason."""


def python_of(library: Library) -> Path:
    """
    Return the interpreter of the library's environment; create the environment if necessary.

    Raises:
        NotInstalledError: The environment could not be created.
    """
    return environment_for(library.name, library.title, (*CLIENT, *library.requirements))


def environment_for(name: str, title: str, requirements: Sequence[str]) -> Path:
    """
    Return the interpreter of an environment; create the environment if necessary.

    Args:
        name: Name of its folder.
        title: Name of its content in messages.
        requirements: Requirements, as pip accepts them; relative paths count from the repository.

    Raises:
        NotInstalledError: The environment could not be created.
    """
    folder = _FOLDER / name
    python = folder / "bin" / "python"
    ready = folder / f".ready-{_key(requirements)}"
    if ready.exists():
        return python
    sys.stderr.write(f"installing {title} into {folder.relative_to(_ROOT)}\n")
    _run([str(_ROOT / "scripts" / "environment"), sys.executable, str(folder)])
    _run([str(python), *_PIP, *requirements])
    for stale in folder.glob(".ready-*"):
        stale.unlink()
    ready.touch()
    return python


def versions_of(library: Library) -> Mapping[str, str]:
    """Return the versions of the library and of the shared distributions, by distribution."""
    return _versions(python_of(library), [*SHARED, library.distribution])


def version_in(python: Path, distribution: str) -> str:
    """Return the version of a distribution in the environment of an interpreter."""
    return _versions(python, [distribution])[distribution]


def _versions(python: Path, distributions: Sequence[str]) -> Mapping[str, str]:
    return json.loads(_run([str(python), "-P", "-c", _VERSIONS, *distributions]))


def _key(requirements: Sequence[str]) -> int:
    made_from = [sys.version, *requirements]
    if "--editable" in requirements:
        made_from.append((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return zlib.crc32("\n".join(made_from).encode())


def _run(command: list[str]) -> str:
    ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        lines = ran.stderr.strip().splitlines() or [f"exit status {ran.returncode}"]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        raise NotInstalledError((errors or lines)[-1])
    return ran.stdout
