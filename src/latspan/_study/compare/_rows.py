"""
Percentiles before and after: how much they changed, and whether that is more than chance.

One row is the goal; it answers the question. All others are guards: they show what a change broke
elsewhere. Many guards together would raise false alarms, so their p-values are adjusted by Holm's
method. A guard is worse only if it also exceeds its margin, because a small real change is no
reason to reject a large improvement.

If requests were given up, each percentile is an interval. An improvement must hold with the second
side at its upper end and the first at its lower end, and a deterioration the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from latspan._model.metrics import TIME_PER_OUTPUT_TOKEN
from latspan._study.compare._run import SEGMENT, Run, have_one_division
from latspan._study.stats import (
    RunTest,
    WeightedSample,
    bootstrap_ratio,
    compare_runs,
    fraction_above,
    holm,
    needed_to_compare,
)
from latspan.histogram import values_needed

MARGIN: Final = 1.20
"""Ratio up to which a p90 or higher is no worse."""
MARGIN_OF_MEDIAN: Final = 1.10
"""Ratio up to which a percentile below p90 is no worse."""
_HIGH: Final = 90
_FLOOR_NS: Final = 20e6
_FLOOR_OF_GOAL: Final = 0.05
"""Fraction of the goal by which a guard may grow, up to 20 ms, whatever its ratio is."""
_MIN_FRACTION_OF_GOAL: Final = 0.01
"""Fraction of the goal below which a segment has no row."""
_PERCENTILES: Final = (50.0, 95.0, 99.0)
_ZERO_NS: Final = 1e3
"""Time below which a ratio means nothing: a microsecond."""
_LEVEL: Final = 0.05
MIN_BEYOND: Final = 3.0
"""
Number of values of the largest weight that must lie beyond a percentile of a weighted sample. With
two, a sample and a complete recording of one system differed in 13 % of the comparisons.
"""


class PercentileChange(StrEnum):
    """What is known about the change of one percentile."""

    IMPROVED = "improved"
    """It is significantly lower."""
    NO_WORSE = "no_worse"
    """It is within the margin, with confidence; whether it changed at all may be chance."""
    WORSE = "worse"
    """It is significantly higher."""
    CHANCE = "could_be_chance"
    """The runs differ too much to conclude anything."""
    DIFFERS = "differs"
    """These two measurements differ; whether a change is the reason is unknown."""
    TOO_FEW = "too_few_values"
    """There are too few values for the percentile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PercentileRow:
    """
    One percentile before and after.

    Args:
        name: Metric, or ``segment.`` and the name of a segment.
        percentile: In (0, 100).
        before_ns: Geometric mean over the runs; infinite if it falls on failed requests.
        after_ns: The same of the second side.
        low: Lower end of the 95 % interval of the ratio; ``None`` if there is none.
        high: Upper end.
        change: What is known.
        margin: Ratio up to which it is no worse.
        counts: Number of values of each side.
        needed: Values that a run needs for the percentile, if a run has too few; otherwise 0.
        test: Test of the runs, on logarithms; ``None`` with one measurement per side.
        is_relative: Whether the test is on logarithms; otherwise it is on nanoseconds.
        single: Percentile of each run of both sides.
        high_ns: Upper ends of both percentiles, infinite if there is no limit; ``None`` if both
            percentiles are known.
    """

    name: str
    percentile: float
    before_ns: float
    after_ns: float
    low: float | None = None
    high: float | None = None
    change: PercentileChange = PercentileChange.CHANCE
    margin: float
    counts: tuple[int, int]
    needed: int = 0
    test: RunTest | None = None
    is_relative: bool = True
    single: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    high_ns: tuple[float, float] | None = None

    @property
    def ratio(self) -> float | None:
        """After divided by before; ``None`` if one of them is zero or infinite."""
        both = self.before_ns, self.after_ns
        if self.high_ns is not None and self.high_ns != both:
            return None
        if not all(math.isfinite(each) and each >= _ZERO_NS for each in both):
            return None
        return self.after_ns / self.before_ns

    @property
    def is_segment(self) -> bool:
        """Whether it is of a segment."""
        return self.name.startswith(SEGMENT)

    @property
    def _limit(self) -> float:
        """Return the difference up to which it is no worse, in the unit of the test."""
        if self.is_relative:
            return math.log(self.margin)
        return (self.margin - 1) * max(self.before_ns, _ZERO_NS)


def sample_of(run: Run, name: str) -> WeightedSample | None:
    """Return the values of a run; zeros if a segment does not occur in it."""
    sample = run.samples.get(name)
    if sample is None and name.startswith(SEGMENT) and run.units > run.failed:
        return WeightedSample(np.zeros(1), np.array([run.units - run.failed]))
    return sample


def rows_of(
    before: Sequence[Run],
    after: Sequence[Run],
    metric: str,
    percentile: float,
    *,
    margin: float | None = None,
    by_rank: bool = False,
) -> list[PercentileRow]:
    """
    Return the rows, the goal first; not judged yet.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        metric: Metric of the goal.
        percentile: Percentile of the goal.
        margin: Ratio up to which the goal is no worse.
        by_rank: Whether percentiles are single ranks, for samples with two ends: a Harrell-Davis
            quantile of the upper end could be smaller than that of the lower end.
    """

    def row_of(name: str, each: float, margin: float, floor_ns: float = 0.0) -> PercentileRow:
        return _row(before, after, name, each, margin, floor_ns, by_rank=by_rank)

    goal = row_of(metric, percentile, margin or _margin(percentile))
    every = [*before, *after]
    metrics = dict.fromkeys(
        name for run in every for name in run.samples if not name.startswith(SEGMENT)
    )
    segments = dict.fromkeys(
        name
        for run in (every if have_one_division(every) else ())
        for name in run.samples
        if name.startswith(SEGMENT)
    )
    floor_ns = _FLOOR_NS
    if math.isfinite(goal.before_ns):
        floor_ns = min(_FLOOR_NS, _FLOOR_OF_GOAL * goal.before_ns)
    rows = [goal]
    for name in metrics:
        for each in sorted({*_PERCENTILES, percentile}):
            if (name, each) != (metric, percentile) and all(
                any(name in run.samples for run in side) for side in (before, after)
            ):
                # A time per token has no floor: it counts once per token.
                floor = 0.0 if name == TIME_PER_OUTPUT_TOKEN else floor_ns
                rows.append(row_of(name, each, _margin(each), floor))
    for name in segments:
        row = row_of(name, percentile, _margin(percentile), floor_ns)
        largest = max(row.before_ns, row.after_ns)
        if not math.isfinite(largest) or largest >= _MIN_FRACTION_OF_GOAL * goal.before_ns:
            rows.append(row)
    return rows


def _margin(percentile: float) -> float:
    return MARGIN if percentile >= _HIGH else MARGIN_OF_MEDIAN


def _row(
    before: Sequence[Run],
    after: Sequence[Run],
    name: str,
    percentile: float,
    margin: float,
    floor_ns: float = 0.0,
    *,
    by_rank: bool = False,
) -> PercentileRow:
    samples = [
        [sample for run in side if (sample := sample_of(run, name)) is not None]
        for side in (before, after)
    ]
    counts = [sum(round(each.total) for each in side) for side in samples]
    several = min(map(len, samples)) >= 1 and sum(map(len, samples)) >= 3
    least = values_needed(percentile) if several else needed_to_compare(percentile)
    is_weighted = any(each.effective is not None for side in samples for each in side)
    single = tuple(
        tuple(
            each.quantile_by_rank(percentile)
            if is_weighted or by_rank
            else each.quantile(percentile)
            for each in side
        )
        for side in samples
    )
    means = [mean_of(side) for side in single]
    if floor_ns and math.isfinite(means[0]):
        margin = max(margin, 1 + floor_ns / max(means[0], _ZERO_NS))
    row = PercentileRow(
        name=name,
        percentile=percentile,
        before_ns=means[0],
        after_ns=means[1],
        margin=margin,
        counts=(counts[0], counts[1]),
        single=(single[0], single[1]),
    )
    if is_weighted:
        # A weighted percentile rests on the values beyond it, and the heaviest of them decides.
        least = max(least, math.ceil(MIN_BEYOND / fraction_above(percentile) - 1e-9))
    fewest = min(
        (min(each.size, each.total / each.heaviest) for side in samples for each in side), default=0
    )
    if fewest < least or not all(samples):
        return replace(row, change=PercentileChange.TOO_FEW, needed=least)
    if not all(map(math.isfinite, means)):
        return row
    if not several:
        return _described(row, samples[0][0], samples[1][0])
    is_relative = min(map(min, single)) >= _ZERO_NS
    values = [[math.log(each) if is_relative else each for each in side] for side in single]
    test = compare_runs(*values)
    if test is None:
        return row
    low, high = test.interval()
    if not is_relative:
        return replace(row, test=test, is_relative=False)
    return replace(row, test=test, low=math.exp(low), high=math.exp(high))


def mean_of(values: Sequence[float]) -> float:
    """
    Return the geometric mean of the percentiles of runs, in nanoseconds.

    It is the arithmetic mean if a value is too small for a logarithm, and infinite if a value is.
    """
    if not values:
        return math.nan
    if math.inf in values:
        return math.inf
    if min(values) < _ZERO_NS:
        return sum(values) / len(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def _described(row: PercentileRow, before: WeightedSample, after: WeightedSample) -> PercentileRow:
    """Return the row of one measurement per side, which supports no claim about a change."""
    if row.ratio is None:
        return row
    # The true values of requests that were given up may be anywhere between both ends.
    least = bootstrap_ratio(before.high, after, row.percentile)
    most = bootstrap_ratio(before, after.high, row.percentile)
    if least is None or most is None:
        return row
    differs = not least.low <= 1 <= most.high
    change = PercentileChange.DIFFERS if differs else PercentileChange.CHANCE
    return replace(row, low=least.low, high=most.high, change=change)


def judged_rows(
    before: Sequence[Run],
    after: Sequence[Run],
    metric: str,
    percentile: float,
    *,
    margin: float | None = None,
) -> list[PercentileRow]:
    """
    Return the rows with what is known about each, the goal first; see :func:`rows_of`.

    If requests were given up, the rows hold for every value that these could have had.
    """
    every = [*before, *after]
    if all(sample.upper is None for run in every for sample in run.samples.values()):
        return _judged(rows_of(before, after, metric, percentile, margin=margin))
    low = _judged(rows_of(before, after, metric, percentile, margin=margin, by_rank=True))
    high_before, high_after = ([_at_upper_end(run) for run in side] for side in (before, after))
    fastest, slowest = (
        {
            (row.name, row.percentile): row
            for row in _judged(rows_of(one, two, metric, percentile, margin=margin, by_rank=True))
        }
        for one, two in ((high_before, after), (before, high_after))
    )
    return [
        _between(
            row, fastest.get((row.name, row.percentile)), slowest.get((row.name, row.percentile))
        )
        for row in low
    ]


def _at_upper_end(run: Run) -> Run:
    return replace(run, samples={name: sample.high for name, sample in run.samples.items()})


def _between(
    low: PercentileRow, fastest: PercentileRow | None, slowest: PercentileRow | None
) -> PercentileRow:
    """
    Return the row of values that are not known.

    Args:
        low: Both sides at their lower ends.
        fastest: The first side at its upper end: the smallest ratio.
        slowest: The second side at its upper end: the largest ratio.
    """
    if fastest is None or slowest is None:
        return low
    high_ns = fastest.before_ns, slowest.after_ns
    if high_ns == (low.before_ns, low.after_ns):
        return low
    change = PercentileChange.CHANCE
    if low.change is PercentileChange.TOO_FEW:
        change = PercentileChange.TOO_FEW
    elif slowest.change is PercentileChange.IMPROVED:
        change = PercentileChange.IMPROVED
    elif fastest.change is PercentileChange.WORSE:
        change = PercentileChange.WORSE
    elif slowest.change is PercentileChange.NO_WORSE:
        change = PercentileChange.NO_WORSE
    elif slowest.change is fastest.change is PercentileChange.DIFFERS and (
        (fastest.low or 0) > 1 or 0 < (slowest.high or math.inf) < 1
    ):
        change = PercentileChange.DIFFERS
    return replace(low, change=change, low=fastest.low, high=slowest.high, high_ns=high_ns)


def _judged(rows: Sequence[PercentileRow]) -> list[PercentileRow]:
    """
    Return the rows with what is known about each: the goal first, then the guards.
    """
    goal, guards = rows[0], rows[1:]
    return [replace(goal, change=_of_goal(goal)), *_of_guards(guards)]


def _of_goal(row: PercentileRow) -> PercentileChange:
    test = row.test
    if test is None:
        return row.change
    low, high = test.interval(1 - _LEVEL)
    if high < 0:
        return PercentileChange.IMPROVED
    if test.below(row._limit) < _LEVEL:  # pyright: ignore[reportPrivateUsage] - of this module
        return PercentileChange.NO_WORSE
    return PercentileChange.WORSE if low > 0 else PercentileChange.CHANCE


def _of_guards(rows: Sequence[PercentileRow]) -> Iterator[PercentileRow]:
    tests = [row.test for row in rows if row.test is not None]
    limits = [row._limit for row in rows if row.test is not None]  # pyright: ignore[reportPrivateUsage]
    slower = iter(holm([test.above(0) for test in tests]))
    faster = iter(holm([test.below(0) for test in tests]))
    within = iter(holm([test.below(limit) for test, limit in zip(tests, limits, strict=True)]))
    exceeds = iter(test.difference > limit for test, limit in zip(tests, limits, strict=True))
    for row in rows:
        if row.test is None:
            yield row
            continue
        is_slower = next(slower) < _LEVEL / 2
        is_faster = next(faster) < _LEVEL / 2
        is_within = next(within) < _LEVEL
        is_beyond = next(exceeds)
        if is_faster:
            change = PercentileChange.IMPROVED
        elif is_within:
            change = PercentileChange.NO_WORSE
        else:
            change = PercentileChange.WORSE if is_slower and is_beyond else PercentileChange.CHANCE
        yield replace(row, change=change)
