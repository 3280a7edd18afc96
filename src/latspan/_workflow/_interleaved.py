"""
Measurements of two states of a system in turn, so that its slow changes affect both alike.

Each run is ``latspan measure`` in a process of its own, with its own connections and a recording of
its own. All runs have one seed: generated prompts depend on it, and other prompts are another test.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from latspan._shown import printable
from latspan.errors import ConfigError, MeasurementError

__all__ = ["Order", "Plan", "measure_both", "sides_in_order"]

_MEASURED: Final = frozenset({0, 1, 3, 4})
"""Exit codes of ``latspan measure`` with which there is a recording."""
_LAST_LINES: Final = 8
_INTERRUPTED: Final = frozenset({130, 143, -2, -15})


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
            _measure(plan.what, sides[side] / f"run-{counts[side]}", options)
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
            f" {_tail(done.stderr or done.stdout)}",
            hint="it must switch the system and return 0 when requests can be sent",
        )


def _measure(what: str, folder: Path, options: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "latspan", "measure", what, "--output", str(folder)]
    # The result of the inference path is that of the verification, not that of one run.
    command.append("--no-result")
    done = subprocess.run(  # noqa: S603 - this program
        [*command, *options], capture_output=True, text=True, check=False
    )
    if done.returncode in _INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode not in _MEASURED or not folder.exists():
        raise MeasurementError(
            f"latspan measure {printable(what)} failed: {_tail(done.stderr)}",
            hint="try it alone first, with the same options",
        )


def _tail(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    # What latspan measure prints before its error is not the reason.
    first = next((i for i, line in enumerate(lines) if line.startswith("error: ")), 0)
    lines = lines[first:]
    return printable(" / ".join(lines), longest=2_000)
