"""
Answers of the commands that judge: a name in documents, and an exit code.

The exit codes are for scripts and CI. The code 2 is that of every command for an invalid command
line or setting.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Final, Self


class ExitCode(IntEnum):
    """Exit code of a command that judges."""

    GOOD = 0
    MISSED = 1
    """A target is missed, or a comparison ended worse."""
    INCONCLUSIVE = 3
    """There is no answer yet: more requests or runs are needed, or two causes are too close."""
    NOT_INTERPRETABLE = 4
    """A measurement is invalid, two sides are not comparable, or a file cannot be interpreted."""


_URGENCY: Final = (ExitCode.MISSED, ExitCode.NOT_INTERPRETABLE, ExitCode.INCONCLUSIVE)


def most_urgent(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code of several answers: missed, not interpretable, inconclusive, good."""
    found = set(codes)
    return next((code for code in _URGENCY if code in found), ExitCode.GOOD)


class Answer(StrEnum):
    """
    Base class of what a command concludes.

    The value is the name in documents, for example ``no_worse``.
    """

    exit_code: ExitCode

    def __new__(cls, value: str, exit_code: ExitCode) -> Self:
        answer = str.__new__(cls, value)
        answer._value_ = value
        answer.exit_code = exit_code
        return answer
