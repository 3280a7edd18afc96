"""Comparison of two sides: conditions first, then the goal, the guards, and the explanation."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from latspan._metrics import LATENCY_METRICS, metric_named
from latspan._segments import KIND_NOUNS, Kind
from latspan._study.compare._conditions import Difference, differences
from latspan._study.compare._explanation import Explanation, explain
from latspan._study.compare._rows import Change, Row, judged, rows_of
from latspan._study.compare._run import Form, Run, part_of
from latspan._study.stats import (
    TargetVerdict,
    more_often,
    permutation,
    runs_needed,
    target_verdict,
)
from latspan._targets import Target
from latspan.errors import ConfigError

__all__ = ["Comparison", "Failures", "Judgement", "Question", "compare", "compare_by", "question"]

_DEFAULT_RUNS: Final = 5
_LEVEL: Final = 0.05
_SURE: Final = 0.01
_LEAST_MORE: Final = 0.005
"""Increase of the fraction of failed requests that is no difference."""
_GOAL: Final = re.compile(r"p(?P<percentile>\d+(?:\.\d+)?)\s+(?P<metric>\w+)")


class Judgement(StrEnum):
    """What a comparison concludes."""

    IMPROVED = "improved"
    NO_WORSE = "no worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    NOT_INTERPRETABLE = "not interpretable"


@dataclass(frozen=True, slots=True)
class Question:
    """
    The percentile that a comparison is about.

    Args:
        metric: Name of the metric.
        percentile: In [1, 100).
        limit_ns: Target in nanoseconds; ``None`` without one.
        margin: Ratio up to which it is no worse; ``None`` for 1.1 below p90, and 1.2 above.
    """

    metric: str
    percentile: float
    limit_ns: int | None = None
    margin: float | None = None

    def __str__(self) -> str:
        return f"p{self.percentile:g} {self.metric}"


@dataclass(frozen=True, slots=True)
class Failures:
    """
    Failed requests of both sides.

    Args:
        before: Fraction before.
        after: Fraction after.
        more: Whether there are more after, and that is no chance.
    """

    before: float
    after: float
    more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    Result of a comparison.

    Args:
        question: The percentile that it is about.
        kind: Kind of the units.
        judgement: What it concludes.
        sentence: The conclusion in one sentence.
        runs: Number of runs of each side.
        units: Number of units of each side, failed ones included.
        rows: Percentiles, that of the question first.
        differences: Conditions that differ, those that explain a change first.
        failures: Failed requests.
        explanation: Segments that changed; ``None`` if they are unknown.
        target: Verdict on the limit after the change; ``None`` without a limit.
        met_in: Number of runs after the change whose percentile is within the limit.
        needed: Runs per side that would probably suffice; ``None`` if that is not the problem.
        exact_p: P-value of the exact permutation of the runs; ``None`` with too many or few runs.
        group: Attribute and value of the compared requests; ``None`` for all.
        notes: What a reader must know, one sentence each.
    """

    question: Question
    kind: Kind
    judgement: Judgement
    sentence: str
    runs: tuple[int, int]
    units: tuple[int, int]
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    failures: Failures
    explanation: Explanation | None
    target: TargetVerdict | None
    met_in: int
    needed: int | None
    exact_p: float | None
    group: tuple[str, str] | None
    notes: tuple[str, ...]

    @property
    def goal(self) -> Row:
        """Row of the question."""
        return self.rows[0]

    @property
    def makes_claim(self) -> bool:
        """Whether there are enough runs for a claim about the change."""
        return min(self.runs) >= 1 and sum(self.runs) >= 3

    @property
    def worse(self) -> tuple[Row, ...]:
        """Guards that are worse."""
        return tuple(row for row in self.rows[1:] if row.change is Change.WORSE)

    @property
    def is_attributable(self) -> bool:
        """Whether at most one accepted difference can be the reason of the change."""
        return sum(each.accepted for each in self.differences) <= 1


def question(
    text: str | None,
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    limit_ms: float | None = None,
    margin: float | None = None,
) -> Question:
    """
    Return the question of a text such as ``p95 ttft``.

    Args:
        text: Percentile and metric; if ``None``, the first target of the load test, and without one
            the p95 of the duration.
        before: Runs of the first side.
        after: Runs of the second side.
        limit_ms: Target in milliseconds, more than 0.
        margin: Ratio up to which it is no worse, more than 1.

    Raises:
        ConfigError: The text is no question, or a number is outside its range.
        UnknownNameError: There is no such metric.
    """
    targets: Sequence[Target] = after[0].targets or before[0].targets
    if limit_ms is not None and not (math.isfinite(limit_ms) and limit_ms > 0):
        raise ConfigError(f"a limit of {limit_ms:g} ms", hint="use a number greater than 0")
    if margin is not None and not (math.isfinite(margin) and margin > 1):
        raise ConfigError(
            f"a margin of {margin:g}", hint="use a ratio above 1: 1.1 allows 10 percent more"
        )
    limit_ns = None if limit_ms is None else round(limit_ms * 1e6)
    if text is None and targets:
        first = targets[0]
        return Question(first.metric, first.percentile, limit_ns or first.limit_ns, margin)
    found = _GOAL.fullmatch((text or "p95 duration").strip())
    if found is None or not 1 <= float(found["percentile"]) < 100:
        raise ConfigError(
            f"'{text}' is not a goal", hint="for example 'p95 ttft' or 'p99 duration'"
        )
    metric, percentile = metric_named(found["metric"]).name, float(found["percentile"])
    if metric not in LATENCY_METRICS or LATENCY_METRICS[metric].unit != "s":
        raise ConfigError(f"'{metric}' is not a time", hint="for example 'p95 duration'")
    for each in targets:
        if limit_ns is None and (each.metric, each.percentile) == (metric, percentile):
            limit_ns = each.limit_ns
    return Question(metric, percentile, limit_ns, margin)


def compare_by(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    name: str,
    *,
    accept: Collection[str] = (),
) -> list[Comparison]:
    """
    Return one comparison for each value of an attribute, the most frequent value first.

    Args:
        before: Runs of the first side, read from recordings.
        after: Runs of the second side, read from recordings.
        asked: The question.
        name: Attribute, for example ``route``, ``model`` or ``tenant``.
        accept: Names of the differences that are the change.

    Raises:
        ConfigError: The requests do not have several values of the attribute.
    """
    counts: dict[str, int] = {}
    names: set[str] = set()
    for run in (*before, *after):
        for table in run.tables.values():
            names |= table.groups.keys()
            if name in table.groups:
                codes, values = table.groups[name]
                for number, value in enumerate(values):
                    counts[value] = counts.get(value, 0) + int((codes == number).sum())
    if not counts:
        known = ", ".join(sorted(names)) or "none has"
        raise ConfigError(
            f"requests have no attribute '{name}' with several values",
            hint=f"these have: {known}",
        )
    found: list[Comparison] = []
    for value in sorted(counts, key=lambda each: -counts[each]):
        sides = [
            [part for run in side if (part := part_of(run, name, value)).units]
            for side in (before, after)
        ]
        if all(sides):
            found.append(compare(sides[0], sides[1], asked, accept=accept, group=(name, value)))
    return found


def compare(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    *,
    accept: Collection[str] = (),
    group: tuple[str, str] | None = None,
) -> Comparison:
    """
    Return the comparison of two sides.

    Args:
        before: Runs of the first side, at least one.
        after: Runs of the second side, at least one.
        asked: The question.
        accept: Names of the differences that are the change.
        group: Attribute and value of the compared requests.

    Raises:
        ConfigError: A side has no value of the metric, or ``accept`` names no difference.
    """
    for runs, side in ((before, "BEFORE"), (after, "AFTER")):
        if not any(asked.metric in run.samples for run in runs):
            known = sorted({name for run in runs for name in run.samples if "." not in name})
            raise ConfigError(
                f"{side} has no values of {asked.metric}",
                hint=f"it has {', '.join(known)}" if known else "it has no requests",
            )
    differ = differences(before, after, accept)
    if group is None:
        _refuse_unknown(accept, differ)
    rows = judged(rows_of(before, after, asked.metric, asked.percentile, margin=asked.margin))
    every = [*before, *after]
    invalid = [f"{run.name}: {reason}" for run in every for reason in run.invalid]
    failures = _failures(before, after)
    explanation = explain(before, after, asked.metric, asked.percentile)
    samples = [run.samples[asked.metric] for run in after if asked.metric in run.samples]
    target = None
    met_in = 0
    if asked.limit_ns is not None:
        requests = sum(each.count + each.failed for each in samples)
        misses = sum(each.above(asked.limit_ns) for each in samples)
        target = target_verdict(requests, misses, asked.percentile)
        met_in = sum(each.quantile(asked.percentile) <= asked.limit_ns for each in samples)
    judgement, why = _judge(rows, differ, invalid, failures, len(before), len(after))
    needed = _needed(rows[0], len(before), len(after)) if judgement is _OPEN else None
    sides = rows[0].single
    return Comparison(
        question=asked,
        kind=after[0].kind,
        judgement=judgement,
        sentence=_sentence(asked, rows[0], judgement, why, explanation, needed)
        + _not_attributable(differ, judgement),
        runs=(len(before), len(after)),
        units=(sum(run.units for run in before), sum(run.units for run in after)),
        rows=tuple(rows),
        differences=differ,
        failures=failures,
        explanation=explanation,
        target=target,
        met_in=met_in,
        needed=needed,
        exact_p=(
            permutation(
                [math.log(each) for each in sides[0]], [math.log(each) for each in sides[1]]
            )
            if rows[0].test is not None and rows[0].is_relative
            else None
        ),
        group=group,
        notes=tuple(_notes(before, after)),
    )


_OPEN: Final = Judgement.INCONCLUSIVE


def _refuse_unknown(accept: Collection[str], differ: Sequence[Difference]) -> None:
    names = sorted({each.name for each in differ})
    for name in accept:
        if name not in names:
            raise ConfigError(
                f"{name} is not different before and after",
                hint=f"these are: {', '.join(names)}" if names else "no known condition is",
            )


def _judge(
    rows: Sequence[Row],
    differ: Sequence[Difference],
    invalid: Sequence[str],
    failures: Failures,
    before: int,
    after: int,
) -> tuple[Judgement, str]:
    """Return the judgement, and its reason unless the row of the goal is the reason."""
    if invalid:
        return Judgement.NOT_INTERPRETABLE, f"a measurement is invalid: {invalid[0]}"
    blocking = [each for each in differ if each.blocks]
    if blocking:
        return Judgement.NOT_INTERPRETABLE, f"something else differs too: {blocking[0]}"
    if before + after < 3:
        return _OPEN, "one measurement per side describes these two, and supports no claim"
    if failures.more:
        share = f"{failures.before:.1%} before, {failures.after:.1%} after"
        return Judgement.WORSE, f"more requests fail: {share}"
    goal = rows[0]
    worse = [row for row in rows[1:] if row.change is Change.WORSE]
    if goal.change is Change.WORSE:
        return Judgement.WORSE, ""
    if worse:
        names = ", ".join(f"p{row.percentile:g} {row.name}" for row in worse[:3])
        return Judgement.WORSE, f"{names} became worse"
    if goal.change is Change.IMPROVED:
        return Judgement.IMPROVED, ""
    if goal.change is Change.NO_WORSE:
        return Judgement.NO_WORSE, ""
    if goal.change is Change.TOO_FEW:
        return _OPEN, f"a p{goal.percentile:g} needs {goal.needed:,} values in each run"
    if not math.isfinite(goal.before_ns) or not math.isfinite(goal.after_ns):
        return _OPEN, f"the p{goal.percentile:g} falls on failed requests"
    return _OPEN, ""


def _needed(goal: Row, before: int, after: int) -> int | None:
    """Return the number of runs per side that would probably decide."""
    if goal.change is Change.TOO_FEW:
        return None
    if goal.test is None or not goal.is_relative:
        return _DEFAULT_RUNS
    limit = math.log(goal.margin)
    distance = max(abs(goal.test.difference), abs(limit - goal.test.difference))
    needed = runs_needed(goal.test.spread, distance)
    return None if needed is None else max(needed, min(before, after) + 1)


def _sentence(
    asked: Question,
    goal: Row,
    judgement: Judgement,
    why: str,
    explanation: Explanation | None,
    needed: int | None,
) -> str:
    change = _in_words(goal)
    if judgement is Judgement.NOT_INTERPRETABLE:
        return f"Not interpretable: {why}."
    parts: list[str] = []
    if judgement is Judgement.IMPROVED:
        parts.append(f"{asked} improved: {change}")
    elif judgement is Judgement.NO_WORSE:
        parts.append(f"{asked} is no worse: {change}, within the margin of ×{goal.margin:.2f}")
    elif judgement is Judgement.WORSE:
        parts.append(f"Worse: {why}; {asked}: {change}" if why else f"{asked} is worse: {change}")
    else:
        parts.append(
            f"{asked} could be chance: {change}" if not why else f"{asked}: {change}; {why}"
        )
        if needed is not None:
            parts[0] += f"; {needed} runs per side would probably decide"
    leading = None if explanation is None else explanation.leading
    if leading is not None and explanation is not None and goal.change in _EXPLAINED:
        parts.append(
            f"{leading.name} explains it: {_signed(leading.difference_ns)} of"
            f" {_signed(explanation.difference_ns)} in slow requests"
        )
    return ". ".join(parts) + "."


def _not_attributable(differ: Sequence[Difference], judgement: Judgement) -> str:
    changed = [each.name for each in differ if each.accepted]
    if len(changed) < 2 or judgement is Judgement.NOT_INTERPRETABLE:
        return ""
    return f" The change is not attributable: {' and '.join(changed)} changed together."


_EXPLAINED: Final = frozenset({Change.IMPROVED, Change.WORSE, Change.DIFFERS})


def _in_words(row: Row) -> str:
    values = [
        "unbounded" if math.isinf(each) else f"{each / 1e6:,.1f} ms"
        for each in (row.before_ns, row.after_ns)
    ]
    text = f"{values[0]} before, {values[1]} after"
    if row.ratio is None:
        return text
    text += f", ×{row.ratio:.2f}"
    return text if row.low is None else f"{text} ({row.low:.2f} to {row.high:.2f})"


def _signed(value_ns: float) -> str:
    return f"{value_ns / 1e6:+,.1f} ms"


def _failures(before: Sequence[Run], after: Sequence[Run]) -> Failures:
    failed = [sum(run.failed for run in side) for side in (before, after)]
    units = [sum(run.units for run in side) for side in (before, after)]
    shares = [one / max(of, 1) for one, of in zip(failed, units, strict=True)]
    more = (
        shares[1] - shares[0] > _LEAST_MORE
        and more_often(failed[0], units[0], failed[1], units[1]) < _SURE
    )
    return Failures(shares[0], shares[1], more)


def _notes(before: Sequence[Run], after: Sequence[Run]) -> Iterator[str]:
    every = [*before, *after]
    if any(run.form is Form.HISTOGRAMS for run in every):
        yield (
            "Histograms have no single requests: conditions, the order of requests and the segments"
            " near the percentile are unknown, so intervals assume independent requests."
        )
    if len(before) + len(after) >= 3 and min(len(before), len(after)) == 1:
        yield "One side has a single run: its variation is taken from the other side."
    elif len(before) + len(after) >= 3 and min(len(before), len(after)) < 4:
        yield "With fewer than four runs per side, runs are assumed to vary normally."
    noun = KIND_NOUNS[after[0].kind][1]
    for run in every:
        for note in run.notes:
            yield f"{run.name}: {note}"
        if not run.units:
            yield f"{run.name} has no {noun}."
