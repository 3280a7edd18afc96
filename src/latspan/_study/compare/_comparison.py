"""Comparison of two sides: conditions first, then the goal, the guards, and the explanation."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from latspan._base.shown import printable
from latspan._model.recording.folder import refuse_copies
from latspan._model.segments import Kind
from latspan._model.text import count
from latspan._model.units import rounded_ms
from latspan._study.compare._conditions import RATE, Difference, differences
from latspan._study.compare._explanation import Explanation, explain
from latspan._study.compare._mix import MAX_SHOWN, MIX, Mix, mix_of
from latspan._study.compare._opposite import opposite_strata
from latspan._study.compare._order import OrderEffect, order_of
from latspan._study.compare._question import Judgement, Question
from latspan._study.compare._rows import PercentileChange, PercentileRow, judged_rows, mean_of
from latspan._study.compare._run import STRATA, Run, part_of
from latspan._study.compare._sentence import conclusion, notes
from latspan._study.stats import (
    TargetVerdict,
    WeightedSample,
    more_often,
    permutation,
    runs_needed,
    target_verdict_of_weights,
)
from latspan._study.table import MAX_VALUES
from latspan.errors import ConfigError

_DEFAULT_RUNS: Final = 5
_LEVEL: Final = 0.05
_SURE: Final = 0.01
_MIN_MORE: Final = 0.005
"""Largest increase of the fraction of failed requests that does not count."""


@dataclass(frozen=True, slots=True)
class Failures:
    """
    Failed requests of both sides.

    Args:
        before: Fraction before.
        after: Fraction after.
        more: Whether significantly more fail after.
        cut_before: Fraction of the requests that were given up before.
        cut_after: The same after.
        more_cut: Whether significantly more are given up after.
    """

    before: float
    after: float
    more: bool
    cut_before: float = 0.0
    cut_after: float = 0.0
    more_cut: bool = False


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
        changes: Names of what was changed.
        notes: What a reader must know, one sentence each.
        mix: Shares of the kinds of requests; ``None`` if they are unknown.
    """

    question: Question
    kind: Kind
    judgement: Judgement
    sentence: str
    runs: tuple[int, int]
    units: tuple[int, int]
    rows: tuple[PercentileRow, ...]
    differences: tuple[Difference, ...]
    failures: Failures
    explanation: Explanation | None
    target: TargetVerdict | None
    met_in: int
    needed: int | None
    exact_p: float | None
    group: tuple[str, str] | None
    changes: tuple[str, ...]
    notes: tuple[str, ...]
    mix: Mix | None = None

    @property
    def goal(self) -> PercentileRow:
        """Row of the question."""
        return self.rows[0]

    @property
    def makes_claim(self) -> bool:
        """Whether there are enough runs for a claim about the change."""
        return min(self.runs) >= 1 and sum(self.runs) >= 3

    @property
    def is_no_worse(self) -> bool:
        """Whether nothing is worse, whatever the reason for an improvement may be."""
        return self.judgement in (Judgement.IMPROVED, Judgement.NO_WORSE) or (
            self.judgement is Judgement.INCONCLUSIVE
            and self.goal.change in (PercentileChange.IMPROVED, PercentileChange.NO_WORSE)
            and not self.worse
        )

    @property
    def worse(self) -> tuple[PercentileRow, ...]:
        """Guards that are worse."""
        return tuple(row for row in self.rows[1:] if row.change is PercentileChange.WORSE)

    @property
    def is_attributable(self) -> bool:
        """Whether at most one change can be the reason for the difference."""
        return len(self.changes) <= 1


class GroupComparisons(NamedTuple):
    """
    Comparisons of groups of requests.

    Args:
        comparisons: One for each of the most frequent values of an attribute, the most frequent
            one first.
        notes: Values that are not compared, and why, one sentence each.
    """

    comparisons: list[Comparison]
    notes: list[str]


def compare_by(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    name: str,
    *,
    accept: Collection[str] = (),
) -> GroupComparisons:
    """
    Return one comparison for each value of an attribute that both sides have.

    Args:
        before: Runs of the first side, read from recordings.
        after: Runs of the second side, read from recordings.
        asked: The question.
        name: Attribute, for example ``route``, ``model`` or ``tenant``.
        accept: Names of the differences that are the change.

    Raises:
        ConfigError: A run has no single requests, or no request has the attribute.
    """
    for run in (*before, *after):
        if run.table is None:
            raise ConfigError(
                f"{run.name} has no single requests, so they cannot be divided",
                hint="compare recordings, or omit --by",
            )
    one, two = (_values_of(side, name) for side in (before, after))
    counts = one + two
    if not counts:
        names = {
            each
            for run in (*before, *after)
            if run.table is not None
            for each, (_, texts) in run.table.groups.items()
            if len(texts) > 1
        }
        known = ", ".join(sorted(names)) or "none"
        raise ConfigError(
            f"no request has the attribute {printable(name)}",
            hint=f"attributes with several values: {known}",
        )
    found: list[Comparison] = []
    left_out: defaultdict[str, list[str]] = defaultdict(list)
    several = f"{MAX_VALUES} values have more requests"
    for value, number in counts.most_common():
        if value not in one or value not in two:
            when = "before" if value in one else "after"
            left_out[f"it occurs only {when}"].append(f"{value} ({count(number, 'request')})")
            continue
        if len(found) == MAX_VALUES:
            left_out[several].append(f"{value} ({count(number, 'request')})")
            continue
        sides = [
            [part for run in side if (part := part_of(run, name, value)).units]
            for side in (before, after)
        ]
        if not all(any(asked.metric in run.samples for run in side) for side in sides):
            left_out[f"it has no {asked.metric}"].append(f"{value} ({count(number, 'request')})")
            continue
        found.append(compare(sides[0], sides[1], asked, accept=accept, group=(name, value)))
    return GroupComparisons(
        found, [_left_out(name, values, why) for why, values in left_out.items()]
    )


def _left_out(name: str, values: Sequence[str], why: str) -> str:
    more = len(values) - MAX_SHOWN
    others = f" and {more:,} more" if more > 0 else ""
    return f"Not compared, because {why}: {name} {', '.join(values[:MAX_SHOWN])}{others}."


def _values_of(runs: Sequence[Run], name: str) -> Counter[str]:
    """Return the number of requests with each value of an attribute."""
    counts: Counter[str] = Counter()
    for run in runs:
        if run.table is not None and name in run.table.groups:
            codes, values = run.table.groups[name]
            known = codes >= 0
            weights = np.bincount(codes[known], run.table.weight[known], len(values)).tolist()
            counts += Counter(dict(zip(values, map(round, weights), strict=True)))
    return counts


def compare(
    before: Sequence[Run],
    after: Sequence[Run],
    asked: Question,
    *,
    accept: Collection[str] = (),
    exactly: bool = False,
    changes: Sequence[str] | None = None,
    group: tuple[str, str] | None = None,
) -> Comparison:
    """
    Return the comparison of two sides.

    Args:
        before: Runs of the first side, at least one.
        after: Runs of the second side, at least one.
        asked: The question.
        accept: Names of the differences that are the change.
        exactly: Whether a condition's name accepts only its difference between the two sides.
        changes: Names of what was changed; if not given, those of the accepted differences.
        group: Attribute and value of the compared requests.

    Raises:
        ConfigError: A side has no value of the metric, ``accept`` names no difference, or two runs
            are copies of one recording.
    """
    refuse_copies((run.name, run.recording) for run in (*before, *after))
    for runs, side in ((before, "BEFORE"), (after, "AFTER")):
        if not any(asked.metric in run.samples for run in runs):
            known = sorted({name for run in runs for name in run.samples if "." not in name})
            raise ConfigError(
                f"{side} has no values of {asked.metric}",
                hint=f"it has {', '.join(known)}" if known else "it has no requests",
            )
    mix = mix_of(before, after, asked.percentile, accept)
    unweighted, after = after, mix.runs
    differ = differences(before, after, accept, exactly=exactly)
    if group is None:
        named = {MIX, *STRATA} if mix.changed or mix.is_accepted else set[str]()
        _refuse_unknown([name for name in accept if name not in named], differ)
    else:
        # The load of a system is the rate of all its requests, not that of a group.
        differ = tuple(each for each in differ if each.condition != RATE)
    rows = judged_rows(before, after, asked.metric, asked.percentile, margin=asked.margin)
    every = [*before, *after]
    invalid = [f"{run.name}: {reason}" for run in every for reason in run.invalid]
    failures = _failures(before, after)
    explanation = explain(before, after, asked.metric, asked.percentile)
    # The limit is judged on the requests as they were, whatever their mix.
    samples = [run.samples[asked.metric] for run in unweighted if asked.metric in run.samples]
    target = None
    met_in = 0
    if asked.limit_ns is not None and not invalid:
        target = _target(samples, asked.limit_ns, asked.percentile)
        met_in = sum(each.high.quantile(asked.percentile) <= asked.limit_ns for each in samples)
    # A condition that differs between runs of one side is the same change as between sides.
    accepted = dict.fromkeys(each.condition for each in differ if each.accepted)
    changed = tuple(accepted if changes is None else changes)
    order = order_of(before, after, _logarithms(rows[0]))
    doubts = [*_doubts(differ, failures, order), *opposite_strata(before, after, asked, accept)]
    judgement, why = _judge(
        rows, differ, invalid, failures, mix, order, doubts, len(before), len(after)
    )
    needed = _needed(rows[0], len(before), len(after)) if judgement is _OPEN else None
    sides = rows[0].single
    return Comparison(
        question=asked,
        kind=after[0].kind,
        judgement=judgement,
        sentence=conclusion(
            asked,
            rows[0],
            judgement,
            why,
            explanation=explanation,
            needed=needed,
            target=target,
            changes=changed,
        ),
        runs=(len(before), len(after)),
        units=(sum(run.units for run in before), sum(run.units for run in unweighted)),
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
        changes=changed,
        notes=(*notes(before, after, rows, explanation), *_notes(mix, order, unweighted, asked)),
        mix=mix if mix.before else None,
    )


def _target(samples: Sequence[WeightedSample], limit_ns: int, percentile: float) -> TargetVerdict:
    """Return the verdict on a limit over the requests of several runs."""
    total, surely, perhaps = (
        sum(each.total for each in samples),
        sum(each.above(limit_ns) for each in samples),
        sum(each.high.above(limit_ns) for each in samples),
    )
    heaviest = max((each.heaviest for each in samples), default=1.0)
    return target_verdict_of_weights(total, surely, perhaps, percentile, heaviest=heaviest)


def _logarithms(row: PercentileRow) -> tuple[list[float], list[float]]:
    one, two = ([math.log(value) for value in side if 0 < value < math.inf] for side in row.single)
    return one, two


def _doubts(differ: Sequence[Difference], failures: Failures, order: OrderEffect) -> Iterator[str]:
    """Yield why an improvement is not claimed, although the goal is faster."""
    if failures.more_cut:
        yield (
            f"more requests are given up: {failures.cut_before:.1%} before,"
            f" {failures.cut_after:.1%} after"
        )
    for each in differ:
        if each.forbids_improved:
            yield f"the answers may be shorter: {each}"
    if order.reason:
        yield order.reason


def _notes(mix: Mix, order: OrderEffect, after: Sequence[Run], asked: Question) -> Iterator[str]:
    if not mix.before:
        yield (
            "The mix of requests is unknown, so a change of it looks like a change of speed:"
            " a file of an older release has none, and histograms only for histograms."
        )
    if mix.changed and not mix.refused and mix.is_weighted:
        one, two = mix.text()
        samples = [run.samples[asked.metric] for run in after if asked.metric in run.samples]
        raw = mean_of([each.quantile(asked.percentile) for each in samples])
        yield (
            f"The mix of requests changed: {one} before, {two} after. The requests after are"
            " weighted so that they have the mix before; without weights,"
            f" {asked} is {rounded_ms(raw)} after."
        )
    if order.reason:
        yield f"{order.reason[0].upper()}{order.reason[1:]}. {order.advice}"


_OPEN: Final = Judgement.INCONCLUSIVE


def _refuse_unknown(accept: Collection[str], differ: Sequence[Difference]) -> None:
    names = sorted({each.condition for each in differ})
    for name in accept:
        if not any(each.is_named([name]) for each in differ):
            raise ConfigError(
                f"{name} is not different before and after",
                hint=f"these are: {', '.join(names)}" if names else "no known condition is",
            )


def _judge(
    rows: Sequence[PercentileRow],
    differ: Sequence[Difference],
    invalid: Sequence[str],
    failures: Failures,
    mix: Mix,
    order: OrderEffect,
    doubts: Sequence[str],
    before: int,
    after: int,
) -> tuple[Judgement, str]:
    """Return the judgement, and its reason unless the row of the goal is the reason."""
    if invalid:
        return Judgement.NOT_INTERPRETABLE, f"a measurement is invalid: {invalid[0]}"
    if mix.refused:
        return (
            Judgement.NOT_INTERPRETABLE,
            (
                f"the mix of requests changed, and cannot be made equal: {mix.refused};"
                " compare each kind by itself with --by route"
            ),
        )
    blocking = [each for each in differ if each.blocks]
    if blocking:
        return Judgement.NOT_INTERPRETABLE, f"something else differs too: {blocking[0]}"
    if before + after < 3:
        return _OPEN, "one measurement per side describes these two, and supports no claim"
    if failures.more:
        share = f"{failures.before:.1%} before, {failures.after:.1%} after"
        return Judgement.WORSE, f"more requests fail: {share}"
    goal = rows[0]
    worse = [row for row in rows[1:] if row.change is PercentileChange.WORSE]
    if order.beyond_drift >= _LEVEL / 2 and (worse or goal.change is PercentileChange.WORSE):
        return _OPEN, order.reason
    if goal.change is PercentileChange.WORSE:
        return Judgement.WORSE, ""
    if worse:
        names = ", ".join(f"p{row.percentile:g} {row.name}" for row in worse[:3])
        return Judgement.WORSE, f"{names} became worse"
    if goal.change is PercentileChange.IMPROVED:
        if doubts:
            return _OPEN, doubts[0]
        return Judgement.IMPROVED, ""
    if goal.change is PercentileChange.NO_WORSE:
        return Judgement.NO_WORSE, ""
    if goal.change is PercentileChange.TOO_FEW:
        return _OPEN, f"a p{goal.percentile:g} needs {goal.needed:,} values in each run"
    if goal.high_ns is not None:
        return _OPEN, "requests that were given up leave it open"
    if not math.isfinite(goal.before_ns) or not math.isfinite(goal.after_ns):
        return _OPEN, f"the p{goal.percentile:g} falls on failed requests"
    return _OPEN, ""


def _needed(goal: PercentileRow, before: int, after: int) -> int | None:
    """Return the number of runs per side that would probably decide."""
    # If the goal falls on failed requests, further runs cannot decide either.
    if (
        goal.change in (PercentileChange.TOO_FEW, PercentileChange.IMPROVED)
        or goal.high_ns is not None
        or math.inf in (goal.before_ns, goal.after_ns)
    ):
        return None
    if goal.test is None or not goal.is_relative:
        return _DEFAULT_RUNS
    limit = math.log(goal.margin)
    distance = max(abs(goal.test.difference), abs(limit - goal.test.difference))
    needed = runs_needed(goal.test.spread, distance)
    return None if needed is None else max(needed, min(before, after) + 1)


def _failures(before: Sequence[Run], after: Sequence[Run]) -> Failures:
    units = [sum(run.units for run in side) for side in (before, after)]
    failed = [sum(run.failed for run in side) for side in (before, after)]
    cut = [sum(run.cut for run in side) for side in (before, after)]
    # The evidence is that of the effective number of requests, not of those they stand for.
    scale = [max(_units_per_row(side), 1.0) for side in (before, after)]

    def more(counts: Sequence[int]) -> bool:
        shares = [count / max(size, 1) for count, size in zip(counts, units, strict=True)]
        found = [round(count / by) for count, by in zip(counts, scale, strict=True)]
        sizes = [max(1, round(size / by)) for size, by in zip(units, scale, strict=True)]
        return (
            shares[1] - shares[0] > _MIN_MORE
            and more_often(min(found[0], sizes[0]), sizes[0], min(found[1], sizes[1]), sizes[1])
            < _SURE
        )

    return Failures(
        failed[0] / max(units[0], 1),
        failed[1] / max(units[1], 1),
        more(failed),
        cut[0] / max(units[0], 1),
        cut[1] / max(units[1], 1),
        more(cut),
    )


def _units_per_row(runs: Sequence[Run]) -> float:
    """Return how many requests an independent one stands for."""
    size = sum(run.size for run in runs)
    return sum(run.units for run in runs) / size if size else 1.0
