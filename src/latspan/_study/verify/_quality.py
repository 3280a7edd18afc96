"""
Quality of the answers before and after a change, on a fixed set of items.

Each item is scored on both sides, so the comparison is paired. The question is not whether quality
changed, but whether a drop larger than the margin can be excluded; with too few items it cannot,
and the answer is inconclusive, however good the scores look.

Source: Student's t on the differences of the pairs for the interval; the sign test, which is
McNemar's for scores of 0 and 1, for a drop; an exact binomial test for the least number of items.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast

from latspan._study.stats import at_least, at_most, requests_needed
from latspan._study.stats._beta import student_quantile
from latspan.errors import ConfigError, MissingExtraError

__all__ = ["Quality", "QualityJudgement", "compare_quality", "score"]

_LEVEL: Final = 0.05
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")


class QualityJudgement(StrEnum):
    """What the answers show."""

    KEPT = "kept"
    """A drop larger than the margin is excluded, with 95 % confidence."""
    DROPPED = "dropped"
    """The scores are lower, and that is more than chance."""
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
    """

    judgement: QualityJudgement
    items: int
    before: float
    after: float
    low: float
    high: float
    margin: float
    worse: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        text = (
            f"Quality {self.judgement}: mean score {self.before:.3f} before, {self.after:.3f} after"
            f" ({self.low:+.3f} to {self.high:+.3f}) on {self.items:,} items, margin"
            f" {self.margin:g}"
        )
        if self.judgement is QualityJudgement.INCONCLUSIVE:
            least = requests_needed(0, 100 * (1 - self.margin))
            text += f"; at least {max(least, self.items + 1):,} items are needed"
        return f"{text}."


def compare_quality(items: Path, before: Path, after: Path, *, margin: float = 0.05) -> Quality:
    """
    Return the comparison of the answers of both sides.

    Args:
        items: JSONL file of the evaluation set: ``id``, ``scorer`` and its arguments; see
            :func:`score`.
        before: JSONL file of the answers before: ``id`` and ``answer``.
        after: The same after.
        margin: Largest drop of the mean score that is accepted, in (0, 1).

    Raises:
        ConfigError: A file cannot be read, an item is invalid, or sides have different items.
        MissingExtraError: A scorer needs a package that is not installed.
    """
    if not 0 < margin < 1:
        raise ConfigError(f"a margin of {margin:g}", hint="use a number between 0 and 1: 0.05")
    wanted = _read(items)
    answers = [_read(before), _read(after)]
    for file, found in ((before, answers[0]), (after, answers[1])):
        missing = [each for each in wanted if each not in found]
        if missing:
            raise ConfigError(
                f"{file} has no answer to {missing[0]}, and to {len(missing) - 1:,} more items",
                hint="answer every item on both sides; a failed request has the answer ''",
            )
    if not wanted:
        raise ConfigError(f"{items} has no item", hint='a line is {"id": "1", "expected": "4"}')
    scores = {
        each: tuple(score(item, str(side[each].get("answer", ""))) for side in answers)
        for each, item in wanted.items()
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
    if low > -margin and excluded:
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
    )


def _read(file: Path) -> dict[str, Mapping[str, Any]]:
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}",
            hint="use the path of a JSONL file",
        ) from error
    found: dict[str, Mapping[str, Any]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
            name = str(item["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{file}, line {number}: it is not an object with an id",
                hint='a line is {"id": "1", "expected": "4"}',
            ) from error
        if name in found:
            raise ConfigError(f"{file}, line {number}: a second item {name}", hint="ids are unique")
        found[name] = cast("Mapping[str, Any]", item)
    return found


def score(item: Mapping[str, Any], answer: str) -> float:
    """
    Return the score of an answer, in [0, 1].

    Args:
        item: ``scorer`` (``exact`` by default) with ``expected``: ``exact`` compares without outer
            spaces; ``contains`` looks for a text, or the share of several; ``regex`` searches a
            pattern; ``numeric`` compares the last number, within ``tolerance``; ``json_schema``
            validates JSON; ``module:function`` is called with the item and the answer.
        answer: The answer.

    Raises:
        ConfigError: The scorer is unknown, or its arguments are invalid.
        MissingExtraError: ``jsonschema`` is not installed.
    """
    name = str(item.get("scorer", "exact"))
    if ":" in name:
        return _bounded(_callable(name)(item, answer), name)
    if name not in _SCORERS:
        raise ConfigError(
            f"no scorer '{name}'", hint=f"one of {', '.join(_SCORERS)}, or module:function"
        )
    if "expected" not in item:
        raise ConfigError(f"the item {item.get('id')} has no 'expected'", hint="add it to the line")
    try:
        return _SCORERS[name](item, answer)
    except (re.error, ValueError, TypeError) as error:
        raise ConfigError(
            f"the item {item.get('id')} is not valid for the scorer {name}: {error}",
            hint="correct 'expected' in its line",
        ) from error


def _exact(item: Mapping[str, Any], answer: str) -> float:
    return float(answer.strip() == str(item["expected"]).strip())


def _contains(item: Mapping[str, Any], answer: str) -> float:
    expected = item["expected"]
    several = cast("list[object]", expected) if isinstance(expected, list) else [expected]
    wanted = [str(each) for each in several]
    return sum(each.casefold() in answer.casefold() for each in wanted) / max(len(wanted), 1)


def _regex(item: Mapping[str, Any], answer: str) -> float:
    return float(re.search(str(item["expected"]), answer) is not None)


def _numeric(item: Mapping[str, Any], answer: str) -> float:
    numbers = _NUMBER.findall(answer)
    if not numbers:
        return 0.0
    value = float(numbers[-1].replace(",", ""))
    return float(abs(value - float(item["expected"])) <= float(item.get("tolerance", 1e-9)))


def _json_schema(item: Mapping[str, Any], answer: str) -> float:
    try:
        jsonschema = import_module("jsonschema")
    except ImportError as error:
        raise MissingExtraError("jsonschema", extra="study") from error
    try:
        document = json.loads(answer)
    except ValueError:
        return 0.0
    return float(jsonschema.Draft202012Validator(item["expected"]).is_valid(document))


_SCORERS: Final[dict[str, Callable[[Mapping[str, Any], str], float]]] = {
    "exact": _exact,
    "contains": _contains,
    "regex": _regex,
    "numeric": _numeric,
    "json_schema": _json_schema,
}


def _callable(name: str) -> Callable[[Mapping[str, Any], str], object]:
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"cannot import the scorer {name}: {error}", hint="use module:function"
        ) from error


def _bounded(value: object, name: str) -> float:
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise ConfigError(f"the scorer {name} returned {value!r}", hint="return a number from 0 to 1")
