"""A comparison in words: its conclusion in one or two sentences, and what a reader must know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from latspan._model.segments import KIND_NOUNS
from latspan._model.text import difference, listed
from latspan._model.units import milliseconds
from latspan._study.compare._explanation import Explanation, SegmentChange
from latspan._study.compare._question import Judgement, Question
from latspan._study.compare._rows import PercentileChange, PercentileRow
from latspan._study.compare._run import Division, Run, RunForm
from latspan._study.stats import TargetVerdict, Verdict

_EXPLAINED: Final = frozenset(
    {PercentileChange.IMPROVED, PercentileChange.WORSE, PercentileChange.DIFFERS}
)


def conclusion(
    asked: Question,
    goal: PercentileRow,
    judgement: Judgement,
    reason: str,
    *,
    explanation: Explanation | None,
    needed: int | None,
    target: TargetVerdict | None,
    changes: Sequence[str],
) -> str:
    """
    Return the conclusion as text.

    Args:
        asked: The question.
        goal: Row of the question.
        judgement: What is concluded.
        reason: Reason of it, unless the row is the reason.
        explanation: Segments that changed.
        needed: Runs per side that would probably decide.
        target: Verdict on the limit.
        changes: Names of what was changed.
    """
    if judgement is Judgement.NOT_INTERPRETABLE:
        return f"Not interpretable: {reason}."
    parts = [_first(asked, goal, judgement, reason, needed)]
    is_claim = judgement is not Judgement.INCONCLUSIVE or goal.change is PercentileChange.DIFFERS
    if is_claim and explanation is not None and explanation.leading and goal.change in _EXPLAINED:
        leading = explanation.leading
        parts.append(
            f"{leading.name} explains it: {difference(leading.difference_ns)} of"
            f" {difference(explanation.difference_ns)} in slow requests"
        )
        parts += _opposed(explanation, leading)
    if target is not None and asked.limit_ns is not None:
        limit = f"the target of {asked.limit_ns / 1e6:,.6g} ms"
        if target.verdict is Verdict.UNDECIDED:
            parts.append(f"Whether {limit} is met is undecided: {target}")
        else:
            parts.append(f"{limit.capitalize()} is {target.verdict}")
    if len(changes) > 1:
        parts.append(f"The change is not attributable: {' and '.join(changes)} changed together")
    return ". ".join(parts) + "."


def _opposed(explanation: Explanation, leading: SegmentChange) -> list[str]:
    """Return a sentence on the segments that changed significantly in the other direction."""
    found = [
        f"{each.name} changed by {difference(each.difference_ns)}"
        for each in explanation.segments
        if each.is_real and each.difference_ns * leading.difference_ns < 0
    ]
    return [f"In the other direction, {listed(found)}"] if found else []


def _first(
    asked: Question, goal: PercentileRow, judgement: Judgement, reason: str, needed: int | None
) -> str:
    change = _in_words(goal)
    if judgement is Judgement.IMPROVED:
        return f"{asked} improved: {change}"
    if judgement is Judgement.NO_WORSE:
        return f"{asked} is no worse: {change}; the margin is {goal.margin - 1:+.0%}"
    if judgement is Judgement.WORSE:
        return f"Worse: {reason}; {asked}: {change}" if reason else f"{asked} is worse: {change}"
    text = f"{asked}: {change}; {reason}" if reason else f"{asked} could be chance: {change}"
    return text if needed is None else f"{text}; {needed} runs per side would probably decide"


def _in_words(row: PercentileRow) -> str:
    low_ns = row.before_ns, row.after_ns
    before, after = map(_interval, low_ns, row.high_ns or low_ns)
    text = f"{before} before, {after} after"
    if row.ratio is None:
        return text
    text += f", {row.ratio - 1:+.1%}"
    if row.low is None or row.high is None or math.isinf(row.high):
        return text
    return f"{text} ({row.low - 1:+.1%} to {row.high - 1:+.1%})"


def _interval(low_ns: float, high_ns: float) -> str:
    if math.isnan(low_ns):
        return "unknown"
    if math.isinf(low_ns):
        return "unbounded"
    low, high = milliseconds(low_ns), milliseconds(high_ns)
    if low_ns == high_ns:
        return low
    return f"at least {low}" if math.isinf(high_ns) else f"{low} to {high}"


def notes(
    before: Sequence[Run],
    after: Sequence[Run],
    rows: Sequence[PercentileRow],
    explanation: Explanation | None,
) -> Iterator[str]:
    """Yield what a reader of the comparison must know, one sentence each."""
    every = [*before, *after]
    intervals = [(row.low, row.high, 1.0) for row in rows if row.change is PercentileChange.CHANCE]
    if explanation is not None:
        intervals += [
            (each.low_ns, each.high_ns, 0.0) for each in explanation.segments if not each.is_real
        ]
    if any(
        low is not None and high is not None and not low <= same <= high
        for low, high, same in intervals
    ):
        yield (
            "Each interval is that of its row alone. A result also depends on how many rows are"
            " tested, so that few of them change by chance, and on the margin of a guard."
        )
    if any(run.form is RunForm.HISTOGRAMS for run in every):
        yield (
            "Histograms have no single requests: conditions, the order of requests and the segments"
            " near the percentile are unknown, so intervals assume independent requests."
        )
    divisions = {run.division for run in every}
    if len(divisions) > 1 and Division.HISTOGRAMS in divisions:
        yield (
            "Recordings divide a request into segments in another way than histograms, so segments"
            " are not compared."
        )
    if {Division.STEPS, Division.LAST_CALL} <= divisions:
        yield (
            "An earlier release of latspan divided only the last call of a request into segments,"
            " so segments are not compared."
        )
    if len(before) + len(after) >= 3 and min(len(before), len(after)) == 1:
        yield "One side has a single run: its variation is taken from the other side."
    elif len(before) + len(after) >= 3 and min(len(before), len(after)) < 4:
        yield "With fewer than four runs per side, runs are assumed to be normally distributed."
    noun = KIND_NOUNS[after[0].kind][1]
    for run in every:
        for note in run.notes:
            yield f"{run.name}: {note}"
        if not run.units:
            yield f"{run.name} has no {noun}."
