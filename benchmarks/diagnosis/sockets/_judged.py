"""One recording: read it, diagnose it, and compare with the answers that were written down."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from diagnosis.sockets._fault import Answer, Made
from latspan._model.recording.folder import open_recording
from latspan._study.diagnose import Conclusion, Diagnosis, diagnose_recording, parse_goal


class Result(StrEnum):
    """How a diagnosis compares with the answers."""

    RIGHT = "right"
    """It names a right cause, in a right segment."""
    HEDGED = "hedged"
    """It names no cause: a tie, time that is spread out, or a wait for the server."""
    WRONG = "wrong"
    """It names another cause, or states that there is nothing to fix."""


_HEDGES: Final = frozenset(
    {Conclusion.TIE, Conclusion.SPREAD_OUT, Conclusion.TOO_FEW, Conclusion.UNDECIDED}
)
_NO_CAUSE: Final = "server_wait"


@dataclass(frozen=True, slots=True)
class Judged:
    """
    A diagnosis and how it compares.

    Args:
        name: Name of the fault.
        answer: The right answers.
        named: Cause or conclusion of the diagnosis.
        result: How they compare.
        sentence: The diagnosis.
    """

    name: str
    answer: Answer
    named: str
    result: Result
    sentence: str


def judged(name: str, answer: Answer, made: Made) -> Judged:
    """Diagnose the recording of a fault."""
    diagnosis = diagnose_recording(
        open_recording(made.recording),
        parse_goal(answer.goal),
        calibration=None if made.calibration is None else open_recording(made.calibration),
    )
    named = _named(diagnosis)
    return Judged(name, answer, named, _result(diagnosis, named, answer), diagnosis.sentence)


def _named(diagnosis: Diagnosis) -> str:
    if diagnosis.conclusion in (Conclusion.FIX, Conclusion.UNRELIABLE):
        return "no cause" if diagnosis.finding is None else diagnosis.finding.cause
    return diagnosis.conclusion.value


def _result(diagnosis: Diagnosis, named: str, answer: Answer) -> Result:
    is_right = named in answer.causes and _names(diagnosis, answer)
    if is_right and _in_a_right_segment(diagnosis, answer):
        return Result.RIGHT
    if diagnosis.conclusion in _HEDGES or named in (_NO_CAUSE, "no cause"):
        return Result.HEDGED
    return Result.WRONG


def _in_a_right_segment(diagnosis: Diagnosis, answer: Answer) -> bool:
    if not answer.segments or diagnosis.conclusion is not Conclusion.FIX:
        return True
    found: set[str] = set()
    if diagnosis.finding is not None:
        found.update(map(str, diagnosis.finding.segments))
    if diagnosis.attribution is not None:
        found.add(diagnosis.attribution.leader.name)
    return bool(answer.segments & found)


def _names(diagnosis: Diagnosis, answer: Answer) -> bool:
    """Return whether a slow group is named, if that is the cause."""
    finding = diagnosis.finding
    if not answer.named or finding is None or finding.cause != "slow_group":
        return True
    text = " ".join((diagnosis.sentence, finding.lever, *finding.evidence))
    return any(name in text for name in answer.named)
