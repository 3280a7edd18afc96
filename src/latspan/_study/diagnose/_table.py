"""
Units of one goal: the rows of a table that have the goal metric, and what rules depend on.

A unit that its caller gave up has only a lower bound of the metric. If the bound is at least the
lower end of the tail band, the unit is among the slow ones, with its observed segments; otherwise
it is neither slow nor typical, because it is unknown which it would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, SegmentName, Source
from latspan._study.diagnose._goal import Goal
from latspan._study.stats import effective_size, weighted_quantile
from latspan._study.table import (
    MAX_GROUP_VALUES,
    SOURCES,
    Steps,
    Table,
    metric_of,
    table_of_records,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.signedinteger[Any]]
    """Small integers: as few bytes as they need."""

_MIN_BAND_SIZE: Final = 30
"""Number of units in the tail band, as far as half of all units are as many."""

_UNCERTAIN: Final = [SOURCES.index(each) for each in (Source.ESTIMATED, Source.UNKNOWN)]


@dataclass(slots=True)
class RequestTable:
    """
    Columns of all units. Times are nanoseconds, NaN where a unit has no value.

    Args:
        goal: The goal.
        kind: Kind of the units.
        low_ns: Smallest possible value of the goal metric, from the scheduled time in a load test,
            infinite if the unit failed; shape ``(n,)``.
        high_ns: Largest possible value, infinite if there is no limit; shape ``(n,)``.
        value_ns: Goal metric as far as it is known: exact values, and lower bounds that are in
            the tail band; NaN for the other units; shape ``(n,)``.
        weight: Number of requests that each unit stands for; shape ``(n,)``.
        start_ns: Start as Unix time; shape ``(n,)``, in ascending order.
        duration_ns: Duration; shape ``(n,)``.
        names: Names of the segments.
        segments_ns: Time of each segment up to the goal metric; shape ``(n, len(names))``.
        uncertain: Fraction of each segment's time that is an estimate; shape ``(len(names),)``.
        sources: Source of most of the time of each segment.
        kinds: Kind of each stage, by its name.
        numbers: Facts as numbers, by name; shape ``(n,)`` each.
        groups: Attributes with few values: codes of shape ``(n,)``, and their values.
        chains: Number of calls of each request that ran one after another; shape ``(n,)``.
        earlier: Summed time of each earlier call in the tail, by name.
        steps: Steps of requests with several calls; ``None`` if there are none.
        left_out: Number of units to which the goal metric does not apply.
        reported: Fraction of the units for which a server or gateway reported times.
    """

    goal: Goal
    kind: Kind
    low_ns: NDArray[np.float64]
    high_ns: NDArray[np.float64]
    value_ns: NDArray[np.float64]
    weight: NDArray[np.float64]
    start_ns: NDArray[np.int64]
    duration_ns: NDArray[np.int64]
    names: tuple[str, ...]
    segments_ns: NDArray[np.floating[Any]]
    uncertain: NDArray[np.float64]
    sources: Mapping[str, Source]
    kinds: Mapping[str, str]
    numbers: Mapping[str, NDArray[np.float64]]
    groups: Mapping[str, tuple[Codes, tuple[str, ...]]]
    chains: Codes
    earlier: Mapping[str, NDArray[np.float64]] = field(default_factory=dict[str, Any])
    steps: Steps | None = None
    left_out: int = 0
    reported: float = 0.0

    def __len__(self) -> int:
        """Return the number of units, failed ones included."""
        return len(self.value_ns)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Whether each unit misses every limit: it failed, or is a stream without a token."""
        return np.isposinf(self.low_ns)

    @property
    def cut(self) -> NDArray[np.bool_]:
        """Whether the caller of each unit gave it up before its goal metric was known."""
        return self.low_ns < self.high_ns

    def count(self, mask: NDArray[np.bool_]) -> int:
        """Return the number of requests that some units stand for."""
        return round(float(self.weight[mask].sum()))

    def segment(self, *names: str) -> NDArray[np.float64]:
        """Return the summed time of some segments; zeros for those that do not occur."""
        found = [index for index, name in enumerate(self.names) if name in names]
        return self.segments_ns[:, found].sum(axis=1, dtype=np.float64)

    def number(self, name: str) -> NDArray[np.float64]:
        """Return a fact; NaN for all units if it does not occur."""
        if name in self.numbers:
            return self.numbers[name]
        return np.full(len(self), nan)

    def application_ns(self, place: str) -> NDArray[np.float64]:
        """
        Return the application's own time at a place, up to the goal metric, in nanoseconds.

        Args:
            place: ``before`` the first step, ``between`` the steps, or ``after`` the last one.
        """
        left_ns = self.segment(SegmentName.APPLICATION).astype(np.float64)
        for each in ("before", "between"):
            part_ns = np.minimum(self.number(f"application_{each}_s") * NS_PER_S, left_ns)
            if place == each:
                return part_ns
            left_ns = left_ns - part_ns
        return left_ns

    def at(self, percentile: float) -> RequestTable:
        """Return the same units for another percentile of the goal metric."""
        if percentile == self.goal.percentile:
            return self
        goal = replace(self.goal, percentile=percentile)
        value_ns = _values(self.low_ns, self.high_ns, self.weight, goal)
        return replace(self, goal=goal, value_ns=value_ns)

    def rows(self, mask: NDArray[np.bool_]) -> RequestTable:
        """Return the table of some rows."""
        return replace(
            self,
            low_ns=self.low_ns[mask],
            high_ns=self.high_ns[mask],
            value_ns=self.value_ns[mask],
            weight=self.weight[mask],
            start_ns=self.start_ns[mask],
            duration_ns=self.duration_ns[mask],
            segments_ns=self.segments_ns[mask],
            numbers={name: values[mask] for name, values in self.numbers.items()},
            groups={name: (codes[mask], values) for name, (codes, values) in self.groups.items()},
            chains=self.chains[mask],
            earlier={name: values[mask] for name, values in self.earlier.items()},
            steps=None if self.steps is None else self.steps.rows(np.flatnonzero(mask), len(self)),
        )


def table_of(records: Iterable[RequestRecord], goal: Goal) -> RequestTable:
    """
    Return the units of some records.

    Args:
        records: Records of any kind and in any order.
        goal: The goal. Without a kind, the units are requests if there are any.
    """
    table = table_of_records(records, (goal.metric,), kind=goal.kind, gaps=True)
    return units_of(table.rows(table.measured()), goal)


def units_of(table: Table, goal: Goal) -> RequestTable:
    """
    Return the units to which a goal applies.

    Args:
        table: Table with the times of segments up to the goal metric.
        goal: The goal.
    """
    metric = metric_of(goal.metric, table.kind)
    # A request has no first token of its own: what is explained is named as what it is.
    goal = replace(goal, metric=metric)
    known = table.bounds(metric)
    applies = known.applies
    left_out = len(table) - int(applies.sum())
    units = table.rows(applies)
    low, high = known.low, known.high
    if left_out:
        low, high = low[applies], high[applies]
    segments = units.segments[metric]
    sums = segments.by_source.sum(axis=1)
    with np.errstate(invalid="ignore"):
        uncertain = segments.by_source[:, _UNCERTAIN].sum(axis=1) / sums
    return RequestTable(
        goal=goal,
        kind=table.kind,
        low_ns=low,
        high_ns=high,
        value_ns=_values(low, high, units.weight, goal),
        weight=units.weight,
        start_ns=units.start_ns,
        duration_ns=units.duration_ns,
        names=units.names,
        segments_ns=segments.times_ns,
        uncertain=np.nan_to_num(uncertain),
        sources=units.sources(metric),
        kinds={name: kind for name, kind in units.stage_kinds.items() if name in units.names},
        numbers=units.numbers,
        groups={
            name: group
            for name, group in units.groups.items()
            if 1 < len(group[1]) <= MAX_GROUP_VALUES and name != semconv.ERROR_TYPE
        },
        chains=units.chains,
        earlier=units.earlier,
        steps=units.steps,
        left_out=left_out,
        reported=float(units.reported.mean()) if len(units) else 0.0,
    )


def tail_fraction(goal: Goal, size: float) -> float:
    """
    Return the fraction of the units that is in the tail band.

    It is the fraction of the goal. If that is fewer than 30 units, it is the fraction of 30 units,
    but at most half of all units.

    Args:
        goal: The goal.
        size: Effective number of units with a value.
    """
    return max(goal.tail_fraction, min(_MIN_BAND_SIZE / size, 0.5))


def _values(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    weight: NDArray[np.float64],
    goal: Goal,
) -> NDArray[np.float64]:
    """Return exact values, and lower bounds that are at least the lower end of the tail band."""
    if not len(low):
        return low
    finite = np.isfinite(low)
    if not finite.any():
        return np.full(len(low), nan)
    fraction = tail_fraction(goal, effective_size(weight[finite]))
    slow = weighted_quantile(low[finite], weight[finite], 100 * (1 - fraction))
    is_known = ((low == high) | ((low > 0) & (low >= slow))) & np.isfinite(low)
    return low if is_known.all() else np.where(is_known, low, nan)
