"""
Step of an agent run in which the leading segment is long: ``step 2 (chat m)``.

A segment of a request is the sum over its steps. If most of what explains the percentile is in one
step, the facts of that step's call are those that a rule needs, instead of those of the last call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from latspan._base.shown import printable
from latspan._model.units import rounded_ms
from latspan._study.diagnose._attribution import Attribution
from latspan._study.diagnose._table import RequestTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from latspan._study.table import Steps

_MOST: Final = 0.5
"""Fraction of the leading segment from which a step has most of it."""

_ALONE: Final = 0.8
"""Fraction of the time in the steps of one name from which the longest of them stands for it."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    Where the time of the leading segment is.

    Args:
        label: The step in words, for example ``step 2 (chat m)``, or ``chat m`` if its number
            varies; empty if it is in several.
        count: Mean number of steps in which slow requests have the segment.
        slow_ns: Mean time of the segment in the step, in slow requests.
        typical_ns: The same in typical requests.
        table: The units, with the facts of the call of that step; if the segment is in several,
            with the mean tokens and times of a call.
    """

    label: str
    count: float
    slow_ns: float
    typical_ns: float
    table: RequestTable

    @property
    def text(self) -> str:
        """The step with its time, for a sentence; empty if the segment is in several."""
        return f"in {self.label}: {rounded_ms(self.slow_ns)}" if self.label else ""


def place_of(table: RequestTable, attribution: Attribution) -> Place | None:
    """
    Return where the time of the leading segment is; ``None`` if no request has several calls.

    Args:
        table: The units.
        attribution: Shares of the segments.
    """
    steps, leader = table.steps, attribution.leader
    # A stage is a step of its own name.
    if steps is None or leader.name not in table.names or leader.name in steps.names:
        return None
    in_segment = steps.segment == table.names.index(leader.name)
    if not in_segment[np.isin(steps.row, attribution.tail)].any():
        return None
    time_ns = steps.time_ns(table.low_ns) * in_segment
    slow = _means(steps, time_ns, table.weight, attribution.tail)
    typical = _means(steps, time_ns, table.weight, attribution.typical)
    of_leader = leader.excess_ns if attribution.by_excess else leader.mean_ns
    weight = {
        step: slow_ns - (typical.get(step, 0.0) if attribution.by_excess else 0.0)
        for step, slow_ns in slow.items()
    }
    largest = max(weight, key=weight.__getitem__)
    count = _mean_count(steps, time_ns > 0, attribution.tail)
    if weight[largest] >= _MOST * of_leader:
        number, name = largest
        label = f"step {number} ({printable(steps.names[name])})"
        here = (steps.number == number) & (steps.name == name)
        step = _of_step(table, steps, here)
        return Place(label, count, slow[largest], typical.get(largest, 0.0), step)
    by_name: dict[int, float] = {}
    for (_, name), weight_ns in weight.items():
        by_name[name] = by_name.get(name, 0.0) + weight_ns
    name = max(by_name, key=by_name.__getitem__)
    here, share = _longest_of(steps, time_ns, name, attribution.tail)
    if by_name[name] < _MOST * of_leader or share < _ALONE:
        each_call = _of_each_call(table, steps)
        return Place("", count, leader.mean_ns, leader.typical_ns, each_call)
    slow_ns, typical_ns = (
        sum(_means(steps, time_ns * here, table.weight, band).values())
        for band in (attribution.tail, attribution.typical)
    )
    label = printable(steps.names[name])
    return Place(label, count, slow_ns, typical_ns, _of_step(table, steps, here))


def _longest_of(
    steps: Steps, time_ns: NDArray[np.float64], name: int, band: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], float]:
    """
    Return the intervals of the longest step of a name in each request.

    Also its mean share of the time in the steps of that name, in the requests of a band.
    """
    named = np.flatnonzero((steps.name == name) & (time_ns > 0))
    keys = np.stack([steps.row[named], steps.number[named]])
    each, inverse = np.unique(keys, axis=1, return_inverse=True)
    length_ns = np.bincount(inverse.ravel(), time_ns[named], each.shape[1])
    order = np.lexsort((length_ns, each[0]))
    is_longest = np.append(each[0][order][1:] != each[0][order][:-1], True)
    longest = np.zeros(each.shape[1], np.bool_)
    longest[order[is_longest]] = True
    here = np.zeros(len(steps.row), np.bool_)
    here[named] = longest[inverse.ravel()]
    in_band = np.isin(each[0], band)
    whole_ns = float(length_ns[in_band].sum())
    share = float(length_ns[in_band & longest].sum()) / whole_ns if whole_ns else 0.0
    return here, share


def _means(
    steps: Steps,
    time_ns: NDArray[np.float64],
    weight: NDArray[np.float64],
    band: NDArray[np.int64],
) -> dict[tuple[int, int], float]:
    """Return the mean time of each step, by its number and the code of its name."""
    found: dict[tuple[int, int], float] = {}
    here = np.isin(steps.row, band) & (time_ns > 0)
    if not here.any():
        return found
    keys = np.stack([steps.number[here], steps.name[here]])
    each, inverse = np.unique(keys, axis=1, return_inverse=True)
    sums = np.bincount(inverse.ravel(), time_ns[here] * weight[steps.row[here]])
    of_band = float(weight[band].sum())
    for (number, name), total in zip(each.T.tolist(), sums.tolist(), strict=True):
        found[number, name] = total / of_band
    return found


def _mean_count(steps: Steps, has_time: NDArray[np.bool_], band: NDArray[np.int64]) -> float:
    here = np.isin(steps.row, band) & has_time
    pairs = np.unique(np.stack([steps.row[here], steps.number[here]]), axis=1)
    return pairs.shape[1] / max(1, len(band))


def _of_each_call(table: RequestTable, steps: Steps) -> RequestTable:
    """Return the units with the mean numbers of tokens, and the mean times, of a call of each."""
    calls = np.ones(len(table))
    calls[steps.row] = np.maximum(steps.calls, 1)
    waited = np.unique(np.stack([steps.row, steps.number])[:, steps.is_call == 1], axis=1)
    on_path = np.maximum(np.bincount(waited[0], minlength=len(table)), 1)
    tokens = {name: table.numbers[name] / calls for name in _SUMMED if name in table.numbers}
    return replace(
        table,
        numbers={**table.numbers, **tokens},
        segments_ns=table.segments_ns / on_path[:, np.newaxis],
    )


_SUMMED: Final = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "chunks")
"""Facts of a request that are the sums of its calls."""


def _of_step(table: RequestTable, steps: Steps, here: NDArray[np.bool_]) -> RequestTable:
    """Return the units with the facts, and the times, of one step of each."""
    size = len(table)
    facts = steps.facts_at(here, size)
    numbers = {name: values for name, values in table.numbers.items() if name not in facts}
    segments_ns = np.zeros((size, len(table.names)))
    time_ns = steps.time_ns(table.low_ns)
    np.add.at(segments_ns, (steps.row[here], steps.segment[here]), time_ns[here])
    return replace(table, numbers={**numbers, **facts}, segments_ns=segments_ns)
