"""States that a sweep is compared with: the pinned baseline, and the runs of an earlier sweep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from latspan._study.compare import Run, read_baseline, runs_of_baseline
from latspan._study.loop import Result, Task
from latspan.errors import RecordingError

_MEASURING: Final = frozenset({Task.MEASURE, Task.WATCH})


def baseline_file(file: Path) -> Path:
    """Return the file of the pinned baseline of an inference path, which need not exist."""
    return file.parent / "baselines" / f"{file.stem}.json"


def read_pinned(file: Path) -> list[Run]:
    """
    Return the runs of the pinned baseline of an inference path; none if it has no baseline.

    Raises:
        RecordingError: The file cannot be read or is damaged.
    """
    pinned = baseline_file(file)
    return read_baseline(pinned) if pinned.exists() else []


def last_sweep(results: Sequence[Result]) -> Result | None:
    """Return the newest sweep that has valid runs, of results with the oldest first."""
    sweeps = (each for each in reversed(results) if each.task is Task.WATCH)
    return next((each for each in sweeps if _path_in(each)["runs"] is not None), None)


def last_measured(results: Sequence[Result]) -> Result | None:
    """Return the newest measurement or sweep, of results with the oldest first."""
    return next((each for each in reversed(results) if each.task in _MEASURING), None)


def runs_in_sweep(sweep: Result) -> list[Run]:
    """
    Return the runs of a sweep.

    Raises:
        RecordingError: They are damaged.
    """
    return runs_of_baseline(_path_in(sweep)["runs"], f"the sweep of {sweep.day}")


def seconds_in_sweep(sweep: Result) -> float | None:
    """Return how long one run of a sweep took, in seconds."""
    seconds: float | None = _path_in(sweep)["seconds_per_run"]
    return seconds


def _path_in(sweep: Result) -> dict[str, Any]:
    try:
        (path,) = sweep.document["paths"]
        # Everything that is read later.
        return {name: path[name] for name in ("runs", "seconds_per_run")}
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"the result of the sweep of {sweep.day} is damaged",
            hint="delete its file in results, and sweep again",
        ) from error
