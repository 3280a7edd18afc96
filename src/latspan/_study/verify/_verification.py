"""Verification of one change: whether its lever improved the goal and hurt nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latspan._model.segments import SegmentName
from latspan._study.compare import (
    Comparison,
    Difference,
    Judgement,
    PercentileChange,
    Question,
    Run,
    compare,
    differences,
)
from latspan._study.verify._levers import STAGE, Lever
from latspan._study.verify._quality import CommandQuality, Quality, QualityJudgement
from latspan.errors import ConfigError

_PARAMETERS: Final = "parameters"
_OUTPUT_LENGTH: Final = "output_length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """
    Result of a verification.

    Args:
        levers: What was changed.
        judgement: What is concluded, quality included.
        sentence: The conclusion in a few sentences.
        comparison: The comparison of both sides.
        quality: Comparison of the answers; ``None`` if they were not compared.
        notes: What a reader must know, one sentence each.
    """

    levers: tuple[Lever, ...]
    judgement: Judgement
    sentence: str
    comparison: Comparison
    quality: Quality | CommandQuality | None
    notes: tuple[str, ...]

    @property
    def is_attributable(self) -> bool:
        """Whether only one lever was pulled."""
        return len(self.levers) == 1


def verify(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    levers: Sequence[Lever],
    *,
    quality: Quality | CommandQuality | None = None,
    is_switched: bool = False,
    returned: int = 0,
    repeated: int = 0,
) -> Verification:
    """
    Return whether a lever improved the goal, with everything else equal.

    Args:
        before: Runs before, at least one.
        after: Runs after, at least one.
        asked: The question.
        levers: What was changed, at least one. With several, the effect cannot be attributed.
        quality: Comparison of the answers.
        is_switched: Whether commands switched between both states: then the lever was pulled, even
            if no condition shows it.
        returned: Number of runs at the end of ``before`` that were measured last, with the change
            undone. If they differ from the first ones, the system itself drifted.
        repeated: Number of invalid runs that were measured again.

    Raises:
        ConfigError: No lever is given, or a side has no value of the metric.
    """
    if not levers:
        raise ConfigError("no lever is given", hint="--lever names the one thing that was changed")
    accept = [
        each.name
        for each in differences(before, after)
        if any(_belongs(each, lever) for lever in levers)
    ]
    names = [lever.name for lever in levers]
    found = compare(before, after, asked, accept=accept, exactly=True, changes=names)
    roots = {name.partition(".")[0] for name in accept}
    missing = [lever for lever in levers if lever.shown_by and not roots & set(lever.shown_by)]
    judgement, reasons = found.judgement, [found.sentence]
    if missing and not is_switched and found.judgement is not Judgement.NOT_INTERPRETABLE:
        judgement = Judgement.NOT_INTERPRETABLE
        shown = ", ".join(missing[0].shown_by)
        reason = f"the lever {missing[0].name} was not applied: none of {shown} differs"
        reasons = [f"Not interpretable: {reason}."]
    if returned and judgement in _CLAIMS and _drifted(before, returned, asked):
        judgement = Judgement.INCONCLUSIVE
        reasons.append(
            "The system drifted: with the change undone, the goal is not as it was before."
        )
    if quality is not None and judgement is not Judgement.NOT_INTERPRETABLE:
        reasons.append(quality.sentence)
        if quality.judgement is QualityJudgement.DROPPED:
            judgement = Judgement.WORSE
        elif quality.judgement is QualityJudgement.INCONCLUSIVE and judgement in _GOOD:
            judgement = Judgement.INCONCLUSIVE
    return Verification(
        levers=tuple(levers),
        judgement=judgement,
        sentence=" ".join(reasons),
        comparison=found,
        quality=quality,
        notes=tuple(_notes(found, levers, quality, is_switched=is_switched, repeated=repeated)),
    )


def _belongs(difference: Difference, lever: Lever) -> bool:
    if difference.is_within_a_side:
        # A side is one state of the system: with or without the lever.
        return False
    root = difference.name.partition(".")[0]
    return difference.name in lever.conditions or root in {*lever.conditions} & {_PARAMETERS}


_CLAIMS: Final = frozenset({Judgement.IMPROVED, Judgement.NO_WORSE, Judgement.WORSE})
_GOOD: Final = frozenset({Judgement.IMPROVED, Judgement.NO_WORSE})


def _drifted(before: Sequence[Run], returned: int, asked: Question) -> bool:
    first, last = before[:-returned], before[-returned:]
    if not first:
        return False
    change = compare(first, last, asked).goal.change
    return change in {PercentileChange.IMPROVED, PercentileChange.WORSE}


def _kind_of(segment: str) -> str:
    """Return the name of a segment, or the word that stands for every stage."""
    return segment if segment in frozenset[str](SegmentName) else STAGE


def _notes(
    found: Comparison,
    levers: Sequence[Lever],
    quality: Quality | CommandQuality | None,
    *,
    is_switched: bool,
    repeated: int,
) -> list[str]:
    notes: list[str] = []
    if repeated:
        were = "run was" if repeated == 1 else "runs were"
        notes.append(f"{repeated} {were} invalid and measured again.")
    leading = None if found.explanation is None else found.explanation.leading
    moves = {name for lever in levers for name in lever.moves}
    if leading is not None and moves and _kind_of(leading.name) not in moves:
        notes.append(
            f"{leading.name} changed most, but this lever moves other segments"
            f" ({', '.join(sorted(moves))}): something else may be the reason."
        )
    notes += [
        f"The length of the answers differs, {each.before} before and {each.after} after: it causes"
        " a part of the difference in time."
        for each in found.differences
        if each.name == _OUTPUT_LENGTH and each.accepted
    ]
    for lever in levers:
        if lever.may_hurt:
            notes.append(f"{lever.name} may worsen {lever.may_hurt}.")
        is_seen = any(each.accepted and _belongs(each, lever) for each in found.differences)
        if not lever.shown_by and not is_seen and not is_switched:
            notes.append(
                f"Recordings do not show whether {lever.name} was changed; you stated that it was."
            )
    if quality is None:
        notes.append("The answers were not compared: a faster system may answer worse.")
    elif isinstance(quality, Quality) and quality.note:
        notes.append(quality.note)
    return notes
