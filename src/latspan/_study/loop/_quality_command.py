"""
The user's check of the quality: a command that runs once per side, when that side is in effect.

It runs before the first measured run of a side. A check that cannot run is then an error before the
load and not after it, and both sides have the check before them, so that it warms both alike.

With an evaluation set, the command answers it, and the answers are compared in pairs. Without one,
its exit code is the result, as for every linter: 0 is good enough, 1 is not. Every other exit code
is a failure of the command, which shows nothing about the quality.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from latspan._base.shown import printable
from latspan._study.loop._runs import last_lines, run_in_shell
from latspan._study.verify import (
    CommandQuality,
    Quality,
    QualityJudgement,
    check_answers,
    compare_quality,
)
from latspan.errors import ConfigError

_SIDE: Final = "{side}"
_ANSWERS: Final = "{answers}"
_NOT_GOOD: Final = 1


@dataclass(frozen=True, slots=True)
class QualityCommand:
    """
    Check of the quality of both sides.

    Args:
        command: Command line of the shell. ``{side}`` becomes ``before`` or ``after``,
            ``{answers}`` the file of the answers of that side.
        items: JSONL file of the evaluation set; ``None`` if the exit code is the result.
        answers: File of the answers of each side.
        margin: Largest drop of the mean score that is accepted.
        report: Shows a line to the user.
    """

    command: str
    items: Path | None
    answers: Mapping[str, Path]
    margin: float
    report: Callable[[str], None]
    _outcomes: dict[str, tuple[bool, str]] = field(default_factory=dict[str, tuple[bool, str]])

    def refuse_equal_sides(self, *, is_switched: bool) -> None:
        """
        Check that the command depends on the side.

        Args:
            is_switched: Whether commands switch the system, so that one command line answers from
                both states.

        Raises:
            ConfigError: It would check the same on both sides.
        """
        if self.items is not None and not (_ANSWERS in self.command or _SIDE in self.command):
            raise ConfigError(
                f"{self._shown} has neither {_ANSWERS} nor {_SIDE}: both sides would have the same"
                " file of answers",
                hint=f"a command is: python answer.py --output {_ANSWERS}",
            )
        if not is_switched and not (_ANSWERS in self.command or _SIDE in self.command):
            raise ConfigError(
                f"{self._shown} has no {_SIDE}, and the change is made by options of the"
                " measurement: it would check the same on both sides",
                hint=f"use the word {_SIDE} in the command; it becomes before or after",
            )

    @property
    def _shown(self) -> str:
        return f"the check of the quality, {printable(self.command)},"

    def run(self, side: str) -> None:
        """
        Run the command for a side that is in effect.

        Args:
            side: ``before`` or ``after``.

        Raises:
            ConfigError: The command failed, wrote no answers, or its check does not pass before.
        """
        self.report(f"quality {side}: {printable(self.command)}")
        file = self.answers[side]
        stamp = _stamp(file)
        done = self._done(side, file)
        shown = last_lines(done.stderr or done.stdout)
        reason = f"exit code {done.returncode}" + (f": {shown}" if shown else "")
        if self.items is None and done.returncode == _NOT_GOOD:
            if side == "before":
                raise ConfigError(
                    f"{self._shown} does not pass before the change ({reason}), so it cannot show"
                    " a drop",
                    hint="correct the check or the system first; it must return 0 there",
                )
        elif done.returncode:
            codes = "0" if self.items is not None else f"0, or {_NOT_GOOD} if it is not good enough"
            raise ConfigError(
                f"{self._shown} failed {side} the change with {reason}",
                hint=f"try it alone first; it must return {codes}",
            )
        if self.items is not None:
            if _stamp(file) == stamp:
                raise ConfigError(
                    f"{self._shown} did not write {file}",
                    hint='write one line {"id": ..., "answer": ...} per item there',
                )
            check_answers(self.items, file)
        self._outcomes[side] = done.returncode == 0, reason

    def _done(self, side: str, file: Path) -> subprocess.CompletedProcess[str]:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write {file.parent}: {error.strerror or error}") from error
        command = self.command.replace(_SIDE, side).replace(_ANSWERS, shlex.quote(str(file)))
        return run_in_shell(command)

    def result(self) -> Quality | CommandQuality:
        """Return what the check shows, after it ran on both sides."""
        if self.items is not None:
            sides = self.answers["before"], self.answers["after"]
            return compare_quality(self.items, *sides, margin=self.margin)
        is_good, reason = self._outcomes["after"]
        judgement = QualityJudgement.KEPT if is_good else QualityJudgement.DROPPED
        return CommandQuality(judgement, self.command, "" if is_good else reason)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is written; ``None`` if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
