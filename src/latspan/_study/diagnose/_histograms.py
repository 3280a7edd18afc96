"""
Histogram logs: whether a target is met, and the percentiles of each segment.

A histogram has no single requests. So the requests near a percentile are unknown, and with them
where their time went: percentiles of segments do not add up to the percentile of the whole, and
means describe typical requests and slow ones together. No share and no cause is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from latspan._model.censoring import Bounds
from latspan._model.metrics import DURATION
from latspan._model.recording import Distribution, Population, Snapshot, snapshots_of, truncated_in
from latspan._model.segments import KIND_NOUNS, Kind
from latspan._model.text import count
from latspan._model.units import rounded_ms
from latspan._study.diagnose._diagnosis import Conclusion, Diagnosis
from latspan._study.diagnose._goal import Goal
from latspan._study.stats import TargetVerdict, Verdict, target_verdict
from latspan._study.table import metric_of
from latspan.errors import RecordingError
from latspan.histogram import read_log, values_needed

_KINDS: Final = (Kind.REQUEST, Kind.CALL)
_MAX_SEGMENTS: Final = 5


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
    merged: Snapshot | None = None
    truncated: list[str] = []
    for path in paths:
        log = read_log(path)
        for snapshot in snapshots_of(log):
            merged = snapshot if merged is None else merged.merge(snapshot)
        truncated += truncated_in(log)
    kinds = _KINDS if goal.kind is None else (goal.kind,)
    recorded = set[Kind]()
    if merged is not None:
        recorded = {key.kind for key in merged.series if key.metric == DURATION}
    kind = next((each for each in kinds if each in recorded), None)
    if kind is None or merged is None:
        raise RecordingError(
            f"{paths[0]} has no {' and no '.join(KIND_NOUNS[each][1] for each in kinds)}",
            hint="use a log that latspan wrote, or omit --kind",
        )
    every = _population(merged.metric(DURATION, kind=kind))
    known = _population(merged.metric(metric_of(goal.metric, kind), kind=kind))
    target = _target(known, goal)
    conclusion = Conclusion.NO_REQUESTS
    sentence = (
        f"Histograms have no single {KIND_NOUNS[kind][1]}, so the time at {goal} cannot be divided"
        " among segments: write a recording with record_dir, and diagnose that."
    )
    if target is not None and target.verdict is Verdict.MET:
        conclusion = Conclusion.NOTHING_TO_FIX
        sentence = (
            f"Nothing to fix: {goal} is within {rounded_ms(goal.limit_ns or 0)},"
            " with 95 % confidence."
        )
    return Diagnosis(
        goal=goal,
        kind=kind,
        units=every.count,
        failed=every.failed,
        conclusion=conclusion,
        sentence=sentence,
        target=target,
        notes=(*truncated, *_notes(merged, known, goal, kind)),
        cut=known.cut,
        value_ns=(
            known.percentile(goal.percentile)
            if known.count >= values_needed(goal.percentile)
            else None
        ),
    )


def _population(values: Distribution) -> Population:
    return values.population or Population(values.histogram)


def _target(known: Population, goal: Goal) -> TargetVerdict | None:
    if goal.limit_ns is None or not known.count:
        return None
    surely, perhaps = (round(each * known.count) for each in known.fraction_above(goal.limit_ns))
    return target_verdict(known.count, surely, goal.percentile, undecided=perhaps - surely)


def _notes(snapshot: Snapshot, known: Population, goal: Goal, kind: Kind) -> Iterator[str]:
    noun = KIND_NOUNS[kind][1]
    if known.count >= values_needed(goal.percentile):
        value, median = known.percentile(goal.percentile), known.percentile(50)
        yield (
            f"{goal} of {known.count:,} {noun} is {_text(value)}, and their median is"
            f" {_text(median)}."
        )
    else:
        yield f"Too few {noun} for {goal}: {count(known.count, 'value')}."
    if known.cut:
        yield f"{known.cut:,} of {known.count:,} {noun} were given up."
    slowest = sorted(
        (
            (values.histogram.value_at_percentile(goal.percentile), name)
            for name in snapshot.segments(kind=kind)
            if (values := snapshot.segment(name, kind=kind)).count()
            >= values_needed(goal.percentile)
        ),
        reverse=True,
    )[:_MAX_SEGMENTS]
    if slowest:
        listed = ", ".join(f"{name} {rounded_ms(value)}" for value, name in slowest)
        yield (
            f"Each segment has a p{goal.percentile:g} of its own: {listed}. They belong to"
            " different requests, so they are not shares and do not add up."
        )


def _text(value: Bounds) -> str:
    if math.isinf(value.low):
        return "one of those that failed"
    at_least = "at least " if value.low < value.high else ""
    return f"{at_least}{rounded_ms(value.low)}"
