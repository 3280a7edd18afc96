"""
Histogram logs: whether a target is met, and the percentiles of each segment.

A histogram has no single requests. So the requests near a percentile are unknown, and with them
where their time went: percentiles of segments do not add up to the percentile of the whole, and
means describe typical requests and slow ones together. No share and no cause is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from latspan._drawing import count
from latspan._recording import Snapshot, read_snapshots
from latspan._segments import KIND_NOUNS, Kind, Outcome
from latspan._study.diagnose._diagnosis import Conclusion, Diagnosis
from latspan._study.diagnose._finding import milliseconds
from latspan._study.diagnose._goal import DURATION, Goal
from latspan._study.stats import TargetVerdict, Verdict, target_verdict
from latspan.errors import RecordingError
from latspan.histogram import Histogram, values_needed

__all__ = ["diagnose_logs"]

_KINDS: Final = (Kind.REQUEST, Kind.CALL)
_MOST_SEGMENTS: Final = 5


def diagnose_logs(paths: Sequence[Path], goal: Goal | None = None) -> Diagnosis:
    """
    Return what histograms prove about a goal: its verdict, and no attribution.

    Args:
        paths: Histogram logs of the processes of one program.
        goal: Metric and percentile; the p95 of the duration if not given.

    Raises:
        HistogramFormatError: A log is damaged.
        OSError: A log cannot be read.
        RecordingError: The logs have no requests and no calls.
    """
    goal = goal or Goal()
    values = _Values()
    for path in paths:
        values.add(read_snapshots(path))
    kinds = _KINDS if goal.kind is None else (goal.kind,)
    kind = next((each for each in kinds if values.units[each]), None)
    if kind is None:
        raise RecordingError(
            f"{paths[0]} has no {' and no '.join(KIND_NOUNS[each][1] for each in kinds)}",
            hint="use a log that latspan wrote, or omit --kind",
        )
    held = values.metrics.get((kind, goal.metric)) or Histogram()
    failed = values.failed[kind]
    target = _target(held, goal, failed)
    conclusion = Conclusion.NO_REQUESTS
    sentence = (
        f"Histograms have no single {KIND_NOUNS[kind][1]}, so the time at {goal} cannot be divided"
        " among segments: write a recording with record_dir, and diagnose that."
    )
    if target is not None and target.verdict is Verdict.MET:
        conclusion = Conclusion.NOTHING_TO_FIX
        sentence = (
            f"Nothing to fix: {goal} is within {milliseconds(goal.limit_ns or 0)},"
            " with 95 % confidence."
        )
    return Diagnosis(
        goal=goal,
        kind=kind,
        units=values.units[kind],
        failed=failed,
        conclusion=conclusion,
        sentence=sentence,
        target=target,
        notes=tuple(_notes(values, held, goal, kind)),
    )


@dataclass(slots=True)
class _Values:
    """
    Merged histograms of the logs.

    Args:
        units: Number of units by kind.
        failed: Number of failed ones.
        metrics: Values of units that did not fail, by kind and metric.
        segments: Times of each segment of those units.
    """

    units: Counter[Kind] = field(default_factory=Counter[Kind])
    failed: Counter[Kind] = field(default_factory=Counter[Kind])
    metrics: dict[tuple[Kind, str], Histogram] = field(
        default_factory=dict[tuple[Kind, str], Histogram]
    )
    segments: dict[str, Histogram] = field(default_factory=dict[str, Histogram])

    def add(self, snapshots: Iterable[Snapshot]) -> None:
        """Add the intervals of a log."""
        for snapshot in snapshots:
            for key, series in snapshot.series.items():
                kind, histogram = key.kind, series.histogram
                if kind not in _KINDS:
                    continue
                has_failed = key.subject.outcome in {each.value for each in Outcome if each.failed}
                if key.metric == DURATION:
                    self.units[kind] += histogram.count
                    self.failed[kind] += histogram.count * has_failed
                if has_failed or key.is_at_least:
                    continue
                if key.segment is None:
                    held = self.metrics.setdefault((kind, key.metric), Histogram())
                else:
                    held = self.segments.setdefault(key.segment, Histogram())
                held.merge(histogram)


def _target(held: Histogram, goal: Goal, failed: int) -> TargetVerdict | None:
    if goal.limit_ns is None or not held.count + failed:
        return None
    above = round(held.fraction_above(goal.limit_ns) * held.count) if held.count else 0
    return target_verdict(held.count + failed, above + failed, goal.percentile)


def _notes(values: _Values, held: Histogram, goal: Goal, kind: Kind) -> Iterator[str]:
    noun = KIND_NOUNS[kind][1]
    if held.count >= values_needed(goal.percentile):
        value_ns = held.value_at_percentile(goal.percentile)
        median_ns = held.value_at_percentile(50)
        yield (
            f"{goal} of {held.count:,} {noun} that did not fail is {milliseconds(value_ns)},"
            f" and their median is {milliseconds(median_ns)}."
        )
    else:
        yield f"Too few {noun} for {goal}: {count(held.count, 'value')}."
    slowest = sorted(
        (
            (each.value_at_percentile(goal.percentile), name)
            for name, each in values.segments.items()
            if each.count >= values_needed(goal.percentile)
        ),
        reverse=True,
    )[:_MOST_SEGMENTS]
    if slowest:
        listed = ", ".join(f"{name} {milliseconds(value)}" for value, name in slowest)
        yield (
            f"Each segment has a p{goal.percentile:g} of its own: {listed}. They belong to"
            " different requests, so they are not shares and do not add up."
        )
