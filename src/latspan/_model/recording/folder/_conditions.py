"""Conditions of this machine and checkout, for the manifest of a recording."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any, Final

_GIT_TIMEOUT_S: Final = 2.0


def host_conditions(folder: str | os.PathLike[str] = ".") -> dict[str, Any]:
    """
    Return facts about the machine and the revision of the code, none of which can be a secret.

    Args:
        folder: Folder inside a git checkout, if there is one.
    """
    conditions: dict[str, Any] = {
        "host": platform.node(),
        "processors": _processors(),
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
    }
    revision = _revision(Path(folder))
    if revision is not None:
        conditions["revision"] = revision
    return conditions


def _processors() -> int:
    """Return the number of processors that this process may use, which a container can limit."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _revision(folder: Path) -> str | None:
    """Return the commit of a git checkout, with ``-dirty`` if files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],  # noqa: S607
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
