"""Tallies of a table: its rows by group and period, all rows of a tally at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._base.nanoseconds import NS_PER_S
from latspan._model.goals import Target
from latspan._model.metrics import DURATION
from latspan._model.segments import Outcome, Side
from latspan._study.scorecard._periods import Cycle, Period, period_of
from latspan._study.scorecard._tally import Buckets, CountedGroup, Misses, Tally
from latspan._study.table import OUTCOMES, Table, ValueBounds
from latspan.histogram._buckets import HIGHEST_NS, vector_of_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]
    Rows = NDArray[np.int64]

_DAY_NS: Final = 86_400 * NS_PER_S
_STREAM: Final = 1


def groups_in(table: Table, by: str) -> Iterator[tuple[CountedGroup, Rows]]:
    """
    Yield the groups of a table, with the places of their rows.

    Args:
        table: The table.
        by: Attribute by which requests are grouped.
    """
    codes, values = _values(table, by)
    named = np.where(codes < 0, len(values), codes).astype(np.int64)
    for code, rows in _split(named * 2 + table.is_server):
        value = values[code // 2] if code // 2 < len(values) else None
        side = Side.SERVER if code % 2 else Side.CLIENT
        yield CountedGroup(table.kind, side, value), rows


def tallies_of(
    table: Table,
    by: str,
    cycles: Sequence[Cycle],
    metrics: Sequence[str],
    targets_of: Callable[[CountedGroup], Sequence[Target]],
) -> Iterator[tuple[CountedGroup, tuple[Cycle, Period], Tally]]:
    """
    Yield the tally of each group and period.

    Args:
        table: The table.
        by: Attribute by which requests are grouped.
        cycles: Lengths of the periods.
        metrics: Metrics to count.
        targets_of: Returns the targets of a group.
    """
    known = {metric: table.bounds(metric) for metric in metrics}
    for group, rows in groups_in(table, by):
        targets = targets_of(group)
        for cycle in cycles:
            for period, chosen in _periods(table.start_ns[rows], cycle):
                tally = _tally(table, rows[chosen], known, targets)
                yield group, (cycle, period), tally


def _values(table: Table, by: str) -> tuple[NDArray[np.signedinteger], Sequence[str]]:
    if by in table.groups:
        return table.groups[by]
    if by == "outcome":
        return table.outcome, OUTCOMES
    constant = {"kind": str(table.kind)}.get(by)
    if by == "side":
        return table.is_server.astype(np.int8), tuple(Side)
    if constant is not None:
        return np.zeros(len(table), np.int8), (constant,)
    return np.full(len(table), -1, np.int8), ()


def _split(codes: NDArray[np.int64]) -> Iterator[tuple[int, Rows]]:
    """Yield each code with the places at which it occurs, ascending."""
    order = np.argsort(codes, kind="stable")
    found, begins = np.unique(codes[order], return_index=True)
    numbers: list[int] = found.tolist()
    yield from zip(numbers, np.split(order, begins[1:]), strict=True)


def _periods(start_ns: NDArray[np.int64], cycle: Cycle) -> Iterator[tuple[Period, Rows]]:
    """Yield each period with the places of the rows that begin in it."""
    days, place = np.unique(start_ns // _DAY_NS, return_inverse=True)
    periods = [period_of(int(day) * _DAY_NS, cycle) for day in days]
    numbers = {period: number for number, period in enumerate(dict.fromkeys(periods))}
    code = np.array([numbers[each] for each in periods], np.int64)
    names = list(numbers)
    for number, rows in _split(code[place]):
        yield names[number], rows


def _tally(
    table: Table, rows: Rows, known: dict[str, ValueBounds], targets: Sequence[Target]
) -> Tally:
    tally = Tally()
    weight, outcome = table.weight[rows], table.outcome[rows]
    start_ns = table.start_ns[rows]
    tally.spans.append((int(start_ns.min()), int((start_ns + table.duration_ns[rows]).max())))
    squares = np.bincount(outcome, weight**2, len(OUTCOMES)).tolist()
    for code, number in enumerate(np.bincount(outcome, weight, len(OUTCOMES)).tolist()):
        if number:
            tally.count(Outcome(OUTCOMES[code]), number, squares[code])
    for metric, bounds in known.items():
        held = ValueBounds(bounds.low[rows], bounds.high[rows])
        limits_ns = {each.limit_ns for each in targets if each.metric == metric}
        _add_metric(tally, metric, held, weight, limits_ns)
        if held.failed.any():
            # A failed request may be of a kind that has no first token at all.
            has_metric = (metric == DURATION) | (table.streamed[rows] == _STREAM)
            tally.metric(metric).applies |= bool((held.failed & has_metric).any())
    if targets:
        _add_joint(tally, [known[each.metric] for each in targets], rows, weight, targets)
    return tally


def _add_metric(
    tally: Tally, name: str, held: ValueBounds, weight: Floats, limits_ns: set[int]
) -> None:
    applies = held.applies
    if not applies.any():
        return
    metric = tally.metric(name)
    metric.squares += float((weight[applies] ** 2).sum())
    metric.heaviest = max(metric.heaviest, float(weight[applies].max()))
    is_bound = held.cut
    _add_values(metric.exact, held.low, held.exact, weight)
    _add_values(metric.bounds, held.low, is_bound, weight)
    metric.never += float(weight[held.failed].sum())
    for limit_ns in limits_ns:
        surely = float(weight[applies & (held.low > limit_ns)].sum())
        perhaps = float(weight[applies & (held.high > limit_ns)].sum())
        metric.misses[limit_ns] = metric.misses.get(limit_ns, Misses()) + Misses(surely, perhaps)


def _add_values(buckets: Buckets, values: Floats, chosen: Mask, weight: Floats) -> None:
    if not chosen.any():
        return
    values_ns = np.clip(values[chosen], 0, HIGHEST_NS).astype(np.int64)
    least_ns = int(values_ns.min())
    found, place = np.unique(vector_of_indices(np, values_ns, least_ns), return_inverse=True)
    sums = np.bincount(place, weight[chosen])
    indices: list[int] = found.tolist()
    buckets.add(zip(indices, sums.tolist(), strict=True), least_ns, int(values_ns.max()))


def _add_joint(
    tally: Tally,
    known: Sequence[ValueBounds],
    rows: Rows,
    weight: Floats,
    targets: Sequence[Target],
) -> None:
    """Add the requests that meet all targets, and those that miss one."""
    is_judged = np.ones(len(rows), np.bool_)
    meets, misses = is_judged.copy(), ~is_judged
    for bounds, target in zip(known, targets, strict=True):
        low, high = bounds.low[rows], bounds.high[rows]
        is_judged &= ~np.isnan(low)
        meets &= high <= target.limit_ns
        misses |= low > target.limit_ns
    tally.judged += float(weight[is_judged].sum())
    tally.judged_squares += float((weight[is_judged] ** 2).sum())
    tally.met += float(weight[is_judged & meets].sum())
    tally.missed += float(weight[is_judged & misses].sum())
