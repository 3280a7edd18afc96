"""
Quality of the answers before and after a change, on a fixed set of items.

Each item is scored on both sides, so the comparison is paired. The question is not whether quality
changed, but whether a drop larger than the margin can be excluded; with too few items it cannot,
and the answer is inconclusive, however good the scores look.

Source: Student's t on the differences of the pairs for the interval; the sign test, which is
McNemar's for scores of 0 and 1, for a drop; an exact binomial test for the minimum number of items.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, cast

from latspan._base.shown import printable
from latspan._study.stats import at_least, at_most, requests_needed
from latspan._study.stats._beta import student_quantile
from latspan._study.verify._scorers import Scorer, scorer_of
from latspan.errors import ConfigError

_LEVEL: Final = 0.05
_MAX_TOKEN_DRIFT: Final = 0.10
"""Relative change of the mean length of the answers that is not worth a note."""
_MIN_MARGIN: Final = 1e-6
"""Smallest margin; it needs three million items even if the scores do not differ."""


class QualityJudgement(StrEnum):
    """What the answers show."""

    KEPT = "kept"
    """A drop larger than the margin is excluded, with 95 % confidence."""
    DROPPED = "dropped"
    """The scores are significantly lower."""
    INCONCLUSIVE = "inconclusive"
    """Neither is shown; more items are needed."""


@dataclass(frozen=True, slots=True)
class Quality:
    """
    Comparison of the answers.

    Args:
        judgement: What they show.
        items: Number of items with an answer on both sides.
        before: Mean score before, in [0, 1].
        after: Mean score after.
        low: Lower end of the 90 % interval of the difference.
        high: Upper end.
        margin: Largest drop that is accepted.
        worse: Items whose score is lower after.
        lengths: Mean number of characters of the answers before and after.
    """

    judgement: QualityJudgement
    items: int
    before: float
    after: float
    low: float
    high: float
    margin: float
    worse: tuple[str, ...]
    lengths: tuple[float, float] = (0.0, 0.0)

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if not self.before and not self.after:
            return (
                f"Quality {self.judgement}: all answers score 0 before and after, on"
                f" {self.items:,} items, so a drop cannot be seen; check the evaluation set and"
                " the answers."
            )
        text = (
            f"Quality {self.judgement}: mean score {self.before:.3f} before, {self.after:.3f} after"
            f" ({self.low:+.3f} to {self.high:+.3f}) on {self.items:,} items, margin"
            f" {self.margin:g}"
        )
        if self.judgement is QualityJudgement.INCONCLUSIVE:
            least = requests_needed(0, 100 * (1 - self.margin))
            text += f"; at least {max(least, self.items + 1):,} items are needed"
        return f"{text}."

    @property
    def note(self) -> str:
        """A sentence about answers of another length; empty if it is about the same."""
        before, after = self.lengths
        if not before or abs(after / before - 1) <= _MAX_TOKEN_DRIFT:
            return ""
        word = "shorter" if after < before else "longer"
        return (
            f"The answers to the evaluation set are {abs(after / before - 1):.0%} {word}:"
            f" {before:,.0f} characters before, {after:,.0f} after."
        )


@dataclass(frozen=True, slots=True)
class CommandQuality:
    """
    Result of the user's command that checks the quality of both sides.

    Args:
        judgement: Kept if its check passed on both sides, dropped if it passed only before.
        command: The command line.
        reason: Exit code and last output of the check that did not pass; empty if both passed.
    """

    judgement: QualityJudgement
    command: str
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if self.judgement is QualityJudgement.KEPT:
            return "Quality kept: the check of the quality passed before and after the change."
        return (
            "Quality dropped: the check of the quality passed before the change and not after it"
            f" ({self.reason})."
        )


def check_items(items: Path, *, margin: float) -> None:
    """
    Check an evaluation set and a margin before there are answers.

    Args:
        items: JSONL file of the evaluation set.
        margin: Largest drop of the mean score that is accepted.

    Raises:
        ConfigError: The file cannot be read, an item is invalid, or the margin is.
        MissingExtraError: A scorer needs a package that is not installed.
    """
    _checked(items, margin)


def _checked(items: Path, margin: float) -> dict[str, Scorer]:
    if not _MIN_MARGIN <= margin < 1:
        raise ConfigError(
            f"a margin of {margin:g}",
            hint=f"use a number from {_MIN_MARGIN:f} to less than 1: 0.05",
        )
    return _scorers_in(items)


def check_answers(items: Path, answers: Path) -> None:
    """
    Check that a file answers every item of an evaluation set.

    Args:
        items: JSONL file of the evaluation set.
        answers: JSONL file of the answers.

    Raises:
        ConfigError: A file cannot be read, or an item is invalid or has no answer.
        MissingExtraError: A scorer needs a package that is not installed.
    """
    _answers_to(_scorers_in(items), answers)


def _scorers_in(items: Path) -> dict[str, Scorer]:
    """Return the scorer of each item of an evaluation set."""
    scorers = {name: scorer_of(item) for _, name, item in _read(items)}
    if not scorers:
        raise ConfigError(f"{items} has no item", hint='a line is {"id": "1", "expected": "4"}')
    return scorers


def _answers_to(wanted: Collection[str], file: Path) -> dict[str, str]:
    """Return the answer to each item."""
    found: dict[str, str] = {}
    for number, name, line in _read(file):
        answer = line.get("answer")
        if not isinstance(answer, str):
            raise ConfigError(
                f"{file}, line {number}: it has no text 'answer'",
                hint='a line is {"id": "1", "answer": "4"}; a failed request has the answer ""',
            )
        found[name] = answer
    missing = [each for each in wanted if each not in found]
    if missing:
        raise ConfigError(
            f"{file} has no answer to {printable(missing[0])}, and to {len(missing) - 1:,} more"
            " items",
            hint="answer every item on both sides; a failed request has the answer ''",
        )
    return {each: found[each] for each in wanted}


def compare_quality(items: Path, before: Path, after: Path, *, margin: float = 0.05) -> Quality:
    """
    Return the comparison of the answers of both sides.

    Args:
        items: JSONL file of the evaluation set: ``id``, ``scorer`` and its arguments; see
            :func:`~latspan._study.verify._scorers.scorer_of`.
        before: JSONL file of the answers before: ``id`` and ``answer``.
        after: The same after.
        margin: Largest drop of the mean score that is accepted, in [1e-6, 1).

    Raises:
        ConfigError: A file cannot be read, an item is invalid, or sides have different items.
        MissingExtraError: A scorer needs a package that is not installed.
    """
    scorers = _checked(items, margin)
    answers = [_answers_to(scorers, before), _answers_to(scorers, after)]
    scores = {
        each: tuple(scored(side[each]) for side in answers) for each, scored in scorers.items()
    }
    differences = [after - before for before, after in scores.values()]
    size = len(differences)
    mean = sum(differences) / size
    low = high = mean
    if size > 1:
        variance = sum((each - mean) ** 2 for each in differences) / (size - 1)
        half = student_quantile(1 - _LEVEL, size - 1) * math.sqrt(variance / size)
        low, high = mean - half, mean + half
    worse = sum(each < 0 for each in differences)
    better = sum(each > 0 for each in differences)
    # With few items that differ, the interval is too narrow: exact tests must agree.
    excluded = at_most(max(0, worse - better), size, margin) <= _LEVEL
    lower = at_least(worse, worse + better, 0.5) <= _LEVEL
    judgement = QualityJudgement.INCONCLUSIVE
    # Scores that are all 0 cannot drop.
    if low > -margin and excluded and any(map(any, scores.values())):
        judgement = QualityJudgement.KEPT
    elif high < 0 and lower:
        judgement = QualityJudgement.DROPPED
    return Quality(
        judgement=judgement,
        items=size,
        before=sum(one for one, _ in scores.values()) / size,
        after=sum(two for _, two in scores.values()) / size,
        low=low,
        high=high,
        margin=margin,
        worse=tuple(each for each, (one, two) in scores.items() if two < one),
        lengths=(
            sum(map(len, answers[0].values())) / size,
            sum(map(len, answers[1].values())) / size,
        ),
    )


def _read(file: Path) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield the number, the id and the object of each line."""
    try:
        # Editors of some systems begin a file with a byte order mark.
        lines = file.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}",
            hint="use the path of a JSONL file",
        ) from error
    known: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            name = str(item["id"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"{file}, line {number}: it is not an object with an id",
                hint='a line is {"id": "1", "expected": "4"}',
            ) from error
        if name in known:
            raise ConfigError(
                f"{file}, line {number}: a second item {printable(name)}", hint="ids are unique"
            )
        known.add(name)
        yield number, name, cast("Mapping[str, Any]", item)
