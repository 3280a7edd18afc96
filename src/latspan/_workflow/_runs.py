"""
One run of a measurement: ``latspan measure`` in a process of its own.

Each run has its own connections and a recording of its own, so runs vary as those of different days
do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from latspan._shown import printable
from latspan.errors import MeasurementError

__all__ = ["last_lines", "measure_run"]

_MEASURED: Final = frozenset({0, 1, 3, 4})
"""Exit codes of ``latspan measure`` with which there is a recording."""
_LAST_LINES: Final = 8
_INTERRUPTED: Final = frozenset({130, 143, -2, -15})


def measure_run(what: str, folder: Path, options: Sequence[str]) -> None:
    """
    Measure once.

    Args:
        what: Inference path, address or function: what ``latspan measure`` measures.
        folder: Folder of the recording.
        options: Further options of ``latspan measure``.

    Raises:
        MeasurementError: The measurement could not begin.
        KeyboardInterrupt: It was interrupted.
    """
    command = [sys.executable, "-m", "latspan", "measure", what, "--output", str(folder)]
    # The result of the inference path is that of all runs, not that of one.
    command.append("--no-result")
    done = subprocess.run(  # noqa: S603 - this program
        [*command, *options], capture_output=True, text=True, check=False
    )
    if done.returncode in _INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode not in _MEASURED or not folder.exists():
        raise MeasurementError(
            f"latspan measure {printable(what)} failed: {last_lines(done.stderr)}",
            hint="try it alone first, with the same options",
        )


def last_lines(text: str) -> str:
    """Return the last lines of what a program wrote, on one line."""
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    # What `latspan measure` prints before its error is not the reason.
    first = next((at for at, line in enumerate(lines) if line.startswith("error: ")), 0)
    lines = lines[first:]
    return printable(" / ".join(lines), longest=2_000)
