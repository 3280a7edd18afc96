"""
Measurements of two states of a system in turn, so that its slow changes affect both alike.

All runs have one seed: generated prompts depend on it, and other prompts are another test.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from latspan._shown import printable
from latspan._workflow._runs import last_lines, measure_run
from latspan.errors import ConfigError

__all__ = ["Order", "Plan", "measure_both", "sides_in_order"]


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
        before_command: Command line that switches to the state before; empty for none.
        after_command: Command line that switches to the state after.
    """

    what: str
    folder: Path
    runs: int
    order: Order = Order.ABBA
    options: tuple[str, ...] = ()
    after_options: tuple[str, ...] = ()
    before_command: str = ""
    after_command: str = ""


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


def measure_both(plan: Plan, report: Callable[[str], None]) -> tuple[Path, Path]:
    """
    Measure both states, and return the folders of their recordings.

    Args:
        plan: What to measure.
        report: Shows a line to the user.

    Raises:
        ConfigError: A command that switches failed, or the folder holds recordings.
        MeasurementError: A measurement could not begin.
        KeyboardInterrupt: A measurement was interrupted.
    """
    sides = {side: plan.folder / side for side in ("before", "after")}
    for folder in sides.values():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty", hint="use another folder with --output")
    commands = {"before": plan.before_command, "after": plan.after_command}
    counts = dict.fromkeys(sides, 0)
    state = ""
    order = sides_in_order(plan.runs, plan.order)
    try:
        for number, side in enumerate(order, 1):
            counts[side] += 1
            report(f"run {number} of {len(order)}: {side}")
            switches, state = side != state, side
            if switches and commands[side]:
                _switch(commands[side])
            options = (*plan.options, *(plan.after_options if side == "after" else ()))
            measure_run(plan.what, sides[side] / f"run-{counts[side]}", options)
    except BaseException:
        # The user may be on the way to the next test, or the system may serve others.
        if state == "after" and plan.after_command:
            report(
                "the change may still be in effect; this takes it back:"
                f" {printable(plan.before_command)}"
            )
        raise
    return sides["before"], sides["after"]


def _switch(command: str) -> None:
    try:
        done = subprocess.run(  # noqa: S603 - the user's own command
            shlex.split(command), capture_output=True, text=True, check=False
        )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"cannot run {printable(command)}: {error}",
            hint="a command with pipes is: sh -c '...'",
        ) from error
    if done.returncode:
        raise ConfigError(
            f"{printable(command)} failed with exit code {done.returncode}:"
            f" {last_lines(done.stderr or done.stdout)}",
            hint="it must switch the system and return 0 when requests can be sent",
        )
