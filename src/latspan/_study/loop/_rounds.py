"""
Measurements of several inference paths in rounds: the first run of each, the second of each, ...

Rounds spread the runs of a path over the whole sweep, so that a disturbance of some minutes affects
one run of each path and not all runs of one. An interrupted sweep has measured each path about
equally often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from latspan._model.goals import SUFFIX
from latspan._model.text import span_of_time
from latspan._study.loop._runs import measure_run
from latspan.errors import ConfigError, MeasurementError


@dataclass(frozen=True, slots=True)
class Rounds:
    """
    Measurements of a sweep, by the name of the inference path.

    Args:
        folders: Recordings of the runs that ended.
        seconds: How long each of them took, in seconds.
        errors: Why a path could not be measured (further).
        interrupt: Interrupt that ended the sweep early; ``None`` if it ended by itself.
    """

    folders: dict[str, list[Path]] = field(default_factory=dict[str, list[Path]])
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    interrupt: KeyboardInterrupt | None = None


def measure_rounds(
    paths: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    runs: int,
    expected_s: Mapping[str, float | None],
    report: Callable[[str], None],
) -> Rounds:
    """
    Measure inference paths whose files are in the current folder.

    A path that cannot be measured does not stop the others. An interrupt ends the sweep, and the
    runs that ended before are returned.

    Args:
        paths: Options of ``latspan measure`` by the name of the file without its suffix.
        folder: Folder of the recordings: ``NAME/run-1`` and so on.
        runs: Number of rounds, at least 1.
        expected_s: How long a run of each path probably takes, in seconds.
        report: Shows a line to the user.

    Raises:
        ConfigError: The folder holds recordings.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty", hint="use another folder with --output")
    done = Rounds({name: [] for name in paths}, {name: [] for name in paths})
    order = [(run, name) for run in range(1, runs + 1) for name in paths]
    try:
        for number, (run, name) in enumerate(order, 1):
            if name in done.errors:
                continue
            left_s = [
                _expected_s(done.seconds[each], expected_s[each])
                for _, each in order[number - 1 :]
                if each not in done.errors
            ]
            known = [each for each in left_s if each is not None]
            left = f", about {span_of_time(sum(known))} left" if len(known) == len(left_s) else ""
            report(f"run {number} of {len(order)}: {name}{left}")
            began_s = monotonic()
            try:
                target = folder / name / f"run-{run}"
                measure_run(f"{name}{SUFFIX}", target, paths[name])
            except MeasurementError as error:
                done.errors[name] = error.message
                report(f"  {error.message}")
            else:
                done.folders[name].append(target)
                done.seconds[name].append(monotonic() - began_s)
    except KeyboardInterrupt as interrupt:
        return Rounds(done.folders, done.seconds, done.errors, interrupt)
    return done


def _expected_s(seconds: Sequence[float], otherwise: float | None) -> float | None:
    return sum(seconds) / len(seconds) if seconds else otherwise
