"""
Explanation of a change: the segments whose time near the percentile changed.

Percentiles of segments do not add up, but means over the requests near the percentile do. So the
change of the tail band's mean is the exact sum of the changes of its segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._study.compare._run import Band, Run, have_one_division
from latspan._study.diagnose import RequestTable, bands_of
from latspan._study.stats import compare_runs, holm

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DRAWS: Final = 200
_SEED: Final = 20_241
_LEVEL: Final = 0.05
_SIMILAR: Final = 1.1
"""Ratio up to which the fractions of two tail bands count as equal."""
_MIN_FRACTION_OF_CHANGE: Final = 0.5
"""Share of the change from which one segment explains it."""
_MIN_FRACTION_OF_TOTAL: Final = 0.02
"""
Share of the time below which a segment is not tested: the fewer are tested, the less evidence each
of them needs.
"""


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """
    Change of one segment near the percentile.

    Args:
        name: Name of the segment.
        before_ns: Mean time in the tail band before.
        after_ns: The same after.
        low_ns: Lower end of the 95 % interval of the difference; ``None`` if it is unknown.
        high_ns: Upper end.
        is_real: Whether the change is more than chance, given the tests of the larger segments.
    """

    name: str
    before_ns: float
    after_ns: float
    low_ns: float | None
    high_ns: float | None
    is_real: bool

    @property
    def difference_ns(self) -> float:
        """After minus before."""
        return self.after_ns - self.before_ns


@dataclass(frozen=True, slots=True)
class Explanation:
    """
    Changes of all segments near a percentile, which add up.

    Args:
        before_ns: Mean of the goal metric in the tail band before.
        after_ns: The same after.
        segments: Changes of the segments, largest first.
        leading: Segment that is most of the change; ``None`` if there is no such segment.
    """

    before_ns: float
    after_ns: float
    segments: tuple[SegmentChange, ...]
    leading: SegmentChange | None

    @property
    def difference_ns(self) -> float:
        """After minus before."""
        return self.after_ns - self.before_ns


def explain(
    before: Sequence[Run], after: Sequence[Run], metric: str, percentile: float
) -> Explanation | None:
    """
    Return the changes of the segments near a percentile.

    Args:
        before: Runs of the first side.
        after: Runs of the second side.
        metric: Metric of the goal.
        percentile: Percentile of the goal.

    Returns:
        ``None`` if the segments near the percentile are not known for every run, or if the runs
        divide their requests in different ways.
    """
    if not have_one_division([*before, *after]):
        return None
    known = _bands(before, after, metric, percentile)
    if known is None:
        return None
    names = list(
        dict.fromkeys(name for side in known for each in side for name in each.segments_ns)
    )
    totals = [sum(each.value_ns for each in side) / len(side) for side in known]
    if len(before) + len(after) >= 3:
        changes = _of_runs(known[0], known[1], names, _MIN_FRACTION_OF_TOTAL * max(totals))
    else:
        changes = _of_two([*before, *after], [*known[0], *known[1]], names, metric, percentile)
    ordered = sorted(changes, key=lambda each: -abs(each.difference_ns))
    return Explanation(totals[0], totals[1], tuple(ordered), _leading(ordered, totals))


def _bands(
    before: Sequence[Run], after: Sequence[Run], metric: str, percentile: float
) -> list[list[Band]] | None:
    """
    Return the tail band of each run, with the same fraction of its requests.

    A run with few requests, or with unequal weights, needs a larger band. The mean over a larger
    band is smaller, which would look like a change.
    """
    sides = [[run.band(metric, percentile) for run in side] for side in (before, after)]
    fractions = [band.fraction or 0.0 for side in sides for band in side if band is not None]
    largest = max(fractions, default=0.0)
    found: list[list[Band]] = []
    for runs, side in zip((before, after), sides, strict=True):
        bands: list[Band] = []
        for run, band in zip(runs, side, strict=True):
            fits = band
            if band is not None and (band.fraction or largest) < largest / _SIMILAR:
                fits = (
                    None
                    if run.table is None
                    else run.band(metric, percentile, min_fraction=largest)
                )
            if fits is None:
                return None
            bands.append(fits)
        found.append(bands)
    return found


def _leading(changes: Sequence[SegmentChange], totals: Sequence[float]) -> SegmentChange | None:
    total = totals[1] - totals[0]
    if not total or not changes:
        return None
    first = max(changes, key=lambda each: each.difference_ns / total)
    is_most = first.difference_ns / total >= _MIN_FRACTION_OF_CHANGE
    return first if is_most and first.is_real else None


def _of_runs(
    before: Sequence[Band], after: Sequence[Band], names: Sequence[str], least_ns: float
) -> list[SegmentChange]:
    changes: list[SegmentChange] = []
    tested: dict[int, float] = {}
    for index, name in enumerate(names):
        one, two = ([band.segments_ns.get(name, 0.0) for band in side] for side in (before, after))
        means = sum(one) / len(one), sum(two) / len(two)
        test = compare_runs(one, two)
        low, high = (None, None) if test is None else test.interval()
        changes.append(SegmentChange(name, *means, low, high, is_real=False))
        if test is not None and max(means) >= least_ns:
            tested[index] = 2 * min(test.above(0), test.below(0))
    for index, p_value in zip(tested, holm([*tested.values()]), strict=True):
        changes[index] = replace(changes[index], is_real=p_value < _LEVEL)
    return changes


def _of_two(
    runs: Sequence[Run],
    bands: Sequence[Band],
    names: Sequence[str],
    metric: str,
    percentile: float,
) -> list[SegmentChange]:
    """Return the changes between two measurements, with bootstrap intervals where possible."""
    means = [np.array([band.segments_ns.get(name, 0.0) for name in names]) for band in bands]
    if any(metric not in run.tables for run in runs):
        return [
            SegmentChange(name, float(one), float(two), None, None, is_real=False)
            for name, one, two in zip(names, *means, strict=True)
        ]
    random = np.random.default_rng(_SEED)
    draws = [
        _draws(run.tables[metric].at(percentile), names, band, random)
        for run, band in zip(runs, bands, strict=True)
    ]
    differences = draws[1] - draws[0]
    low, high = np.quantile(differences, [_LEVEL / 2, 1 - _LEVEL / 2], axis=0)
    # All larger segments are looked at, so each needs stronger evidence (Bonferroni).
    is_large = np.maximum(*means) >= _MIN_FRACTION_OF_TOTAL * max(
        float(each.sum()) for each in means
    )
    side = _LEVEL / 2 / max(int(is_large.sum()), 1)
    least, most = np.quantile(differences, [side, 1 - side], axis=0)
    return [
        SegmentChange(
            name,
            float(means[0][index]),
            float(means[1][index]),
            float(low[index]),
            float(high[index]),
            is_real=bool(is_large[index] and (least[index] > 0 or most[index] < 0)),
        )
        for index, name in enumerate(names)
    ]


def _draws(
    table: RequestTable, names: Sequence[str], band: Band, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean time of each segment over the tail band of each draw."""
    result = np.zeros((_DRAWS, len(names)))
    found = bands_of(table, min_fraction=band.fraction or 0.0)
    if found is None:
        return result
    drawn = found.draws(_DRAWS, random)
    for at, name in enumerate(names):
        if name in table.names:
            result[:, at] = drawn[:, table.names.index(name)]
    return result
