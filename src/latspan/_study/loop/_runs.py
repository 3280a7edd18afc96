"""
One run of a measurement: ``latspan measure`` in a process of its own.

Each run has its own connections and a recording of its own, so runs vary as those of different days
do.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from latspan._base.shown import printable
from latspan.errors import ConfigError, MeasurementError

_MEASURED: Final = frozenset({0, 1, 3, 4})
"""Exit codes of ``latspan measure`` with which there is a recording."""
_INVALID: Final = 4
_LAST_LINES: Final = 8
_INTERRUPTED: Final = frozenset({130, 143, -2, -15})
_KEPT_LINES: Final = 200
_GRACE_S: Final = 0.25
"""Time in which an interrupted measurement may end by itself, as in :func:`subprocess.run`."""
_PROGRESS: Final = re.compile(r"  (?:warmup|measured|drain): ([\d,]+)( of [\d,]+)? measured;")
"""Line of the display of ``latspan measure`` if stderr is not a terminal."""


def measure_run(
    what: str,
    folder: Path,
    options: Sequence[str],
    progress: Callable[[str], None] | None = None,
) -> bool:
    """
    Measure once, and return whether the measurement is valid.

    Args:
        what: Inference path, address or function: what ``latspan measure`` measures.
        folder: Folder of the recording.
        options: Further options of ``latspan measure``.
        progress: Receives how much of the run has been measured, every 5 s.

    Raises:
        MeasurementError: The measurement could not begin.
        KeyboardInterrupt: It was interrupted.
    """
    command = [sys.executable, "-m", "latspan", "measure", what, "--output", str(folder)]
    # The result of the inference path is that of all runs, not that of one.
    command.append("--no-result")
    code, errors = _run([*command, *options], progress)
    if code in _INTERRUPTED:
        raise KeyboardInterrupt
    if code not in _MEASURED or not folder.exists():
        raise MeasurementError(
            f"latspan measure {printable(what)} failed: {last_lines(errors)}",
            hint="try it alone first, with the same options",
        )
    return code != _INVALID


def _run(command: Sequence[str], progress: Callable[[str], None] | None) -> tuple[int, str]:
    """Run a command to its end, and return its exit code and the last lines of its stderr."""
    with subprocess.Popen(  # noqa: S603 - this program
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        try:
            assert process.stderr is not None  # noqa: S101 - it is a pipe
            errors = _followed(process.stderr, progress)
        except BaseException:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            process.kill()
            raise
    return process.returncode, errors


def _followed(lines: Iterable[str], progress: Callable[[str], None] | None) -> str:
    last: deque[str] = deque(maxlen=_KEPT_LINES)
    for line in lines:
        last.append(line)
        measured = progress_in(line)
        if measured and progress is not None:
            progress(measured)
    return "".join(last)


def progress_in(line: str) -> str:
    """Return how many requests a line of ``latspan measure`` reports; empty for another line."""
    found = _PROGRESS.match(line)
    return "" if found is None else f"{found[1]}{found[2] or ''} requests"


def reason_of(folder: Path) -> str:
    """Return why the measurement in a folder is invalid."""
    from latspan._model.recording.folder import open_recording
    from latspan._study.compare import run_of

    return next(iter(run_of(open_recording(folder)).invalid), "it has no valid step")


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    """
    Run a command line of the user in the system's shell, and return its result.

    Raises:
        ConfigError: The shell cannot be started, for example because the command is too long.
    """
    try:
        return subprocess.run(  # noqa: S602 - the user's own command, which may have pipes
            command, shell=True, capture_output=True, text=True, errors="replace", check=False
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot run {printable(command)}: {error}", hint="put a long command into a script"
        ) from error


def last_lines(text: str) -> str:
    """Return the last lines of what a program wrote, on one line."""
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    # What `latspan measure` prints before its error is not the reason.
    first = next((at for at, line in enumerate(lines) if line.startswith("error: ")), 0)
    lines = lines[first:]
    return printable(" / ".join(lines), max_length=2_000)
