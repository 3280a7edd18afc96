"""
Measurements of two states of a system in turn, so that its slow changes affect both alike.

All runs have the same seed, because generated prompts depend on it, and other prompts would be
another test. An invalid run is measured again; there are at most as many repetitions in all as runs
per side. Its recording stays in the folder :data:`INVALID_RUNS`. A run that is still invalid then
ends the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Final

from latspan._base.shown import printable
from latspan._model.text import span_of_time
from latspan._study.loop._quality_command import QualityCommand
from latspan._study.loop._runs import last_lines, measure_run, reason_of, run_in_shell
from latspan.errors import ConfigError, RecordingError

INVALID_RUNS: Final = "invalid"
"""Folder of the recordings that were measured again."""


class Order(StrEnum):
    """Order of the runs."""

    ABBA = "abba"
    """Before, after, after, before, and so on: for a state that is switched quickly."""
    ABA = "aba"
    """Half of the runs before, all after, the other half before: for a slow deployment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    What to measure.

    Args:
        what: Inference path, address or function: what ``latspan measure`` measures.
        folder: Folder for the recordings, in ``before`` and ``after``.
        runs: Runs per side, at least 2.
        order: Order of the runs.
        options: Further options of ``latspan measure`` on both sides.
        after_options: Further options after the change.
        before_command: Command line of the shell that switches to the state before; empty for none.
        after_command: Command line of the shell that switches to the state after.
        quality: Check of the quality of both sides; ``None`` without one.
    """

    what: str
    folder: Path
    runs: int
    order: Order = Order.ABBA
    options: tuple[str, ...] = ()
    after_options: tuple[str, ...] = ()
    before_command: str = ""
    after_command: str = ""
    quality: QualityCommand | None = None


def sides_in_order(runs: int, order: Order) -> list[str]:
    """
    Return the side of each run, ``before`` or ``after``.

    Args:
        runs: Runs per side, at least 1.
        order: The order.
    """
    if order is Order.ABA:
        first = -(-runs // 2)
        return ["before"] * first + ["after"] * runs + ["before"] * (runs - first)
    pairs = (("before", "after"), ("after", "before"))
    return [side for run in range(runs) for side in pairs[run % 2]]


def measure_both(
    plan: Plan, report: Callable[[str], None], *, shows_progress: bool = True
) -> tuple[Path, Path]:
    """
    Measure both states, and return the folders of their recordings.

    Args:
        plan: What to measure.
        report: Shows a line to the user.
        shows_progress: Whether it shows during a run how much of it has been measured.

    Raises:
        ConfigError: A command that switches or checks the quality failed, or the folder holds
            recordings.
        MeasurementError: A measurement could not begin.
        RecordingError: A run is invalid, and no repetition is left.
        KeyboardInterrupt: A measurement was interrupted.
    """
    sides = {side: plan.folder / side for side in ("before", "after")}
    for folder in sides.values():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty", hint="use another folder with --output")
    if plan.quality is not None:
        plan.quality.refuse_equal_sides(is_switched=bool(plan.after_command))
    commands = {"before": plan.before_command, "after": plan.after_command}
    counts = dict.fromkeys(sides, 0)
    repeats = plan.runs
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    state = ""
    may_be_changed = False
    order = sides_in_order(plan.runs, plan.order)
    try:
        for number, side in enumerate(order, 1):
            counts[side] += 1
            name = f"run {number} of {len(order)}: {side}"
            report(f"{name}{_left(order[number - 1 :], seconds)}")
            progress = partial(_report_progress, report, name) if shows_progress else None
            switches, state = side != state, side
            if switches and commands[side]:
                # A command that fails may have switched the system, or not.
                may_be_changed |= side == "after"
                _switch(commands[side])
                may_be_changed = side == "after"
            if plan.quality is not None and counts[side] == 1:
                plan.quality.run(side)
            options = (*plan.options, *(plan.after_options if side == "after" else ()))
            run = sides[side] / f"run-{counts[side]}"
            began_s = monotonic()
            is_valid = measure_run(plan.what, run, options, progress)
            seconds[side].append(monotonic() - began_s)
            while not is_valid and repeats:
                # Its numbers are those of the load generator. Whether a run is valid depends on the
                # generator only, so repeating it selects no result.
                repeats -= 1
                aside = plan.folder / INVALID_RUNS / f"{side}-{run.name}-{plan.runs - repeats}"
                aside.parent.mkdir(exist_ok=True)
                run.rename(aside)
                report(f"run {number} is invalid, and is repeated: {reason_of(aside)}")
                is_valid = measure_run(plan.what, run, options, progress)
            if not is_valid:
                # One invalid run decides that there is no verdict; the rest would take its time.
                raise RecordingError(
                    f"no verdict is possible: run {number} of {len(order)} ({side}) is still"
                    f" invalid after {plan.runs} repetitions: {reason_of(run)}",
                    hint="free the processors, use fewer requests per second, or record the service"
                    " itself on both sides (latspan run --record) and use latspan compare",
                )
    except BaseException:
        # The user may be on the way to the next test, or the system may serve others.
        if may_be_changed:
            report(
                "the change may still be in effect; this takes it back:"
                f" {printable(plan.before_command)}"
            )
        raise
    if plan.after_command:
        _take_back(plan, report, is_changed=may_be_changed)
    return sides["before"], sides["after"]


def _take_back(plan: Plan, report: Callable[[str], None], *, is_changed: bool) -> None:
    """Leave the system as it was before, because the verdict is not known yet, and report it."""
    if is_changed:
        try:
            _switch(plan.before_command)
        except ConfigError as error:
            # The measurements are complete, and their result must not be lost.
            report(f"the change is still in effect: {error.message}")
            return
    report(
        "the system is as it was before the change; this applies the change:"
        f" {printable(plan.after_command)}"
    )


def _report_progress(report: Callable[[str], None], name: str, measured: str) -> None:
    report(f"{name}, {measured}")


def _left(order: Sequence[str], seconds: Mapping[str, Sequence[float]]) -> str:
    """Return how long the remaining runs probably take; empty until both sides had one."""
    if not all(seconds.values()):
        return ""
    left_s = sum(fmean(seconds[side]) for side in order)
    return f", about {span_of_time(left_s)} left"


def _switch(command: str) -> None:
    done = run_in_shell(command)
    if done.returncode:
        raise ConfigError(
            f"{printable(command)} failed with exit code {done.returncode}:"
            f" {last_lines(done.stderr or done.stdout)}",
            hint="it must switch the system and return 0 when requests can be sent",
        )
