"""
Steps of requests, as columns: the time of each segment in each step.

If requests have one call each, its facts are those of the request. If some have several calls, a
rule needs to know in which of them a segment was long, and the facts of that call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._model.segments import Kind, SegmentName
from latspan._study.table._growing import GrowingArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CALL: Final = Kind.CALL.value
_CONNECT: Final = SegmentName.CONNECT.value
_NONE: Final[Sequence[Any]] = ()

_COLUMNS: Final = (
    *("row", "number", "name", "call", "calls", "is_call"),
    *("segment", "begin_ns", "end_ns"),
)


class StepColumns:
    """Columns of the steps, filled from many lines at a time."""

    def __init__(self) -> None:
        self._columns = {name: GrowingArray(np.int64) for name in _COLUMNS}
        self._names: dict[str, int] = {}

    def add(self, rows: Sequence[Mapping[str, Any]], before: int, names: Mapping[str, int]) -> None:
        """
        Add the steps of requests with several steps.

        Args:
            rows: Fields of the lines of requests.
            before: Number of requests before them.
            names: Number of each segment.
        """
        found: list[tuple[int, ...]] = []
        for at, row in enumerate(rows, before):
            steps: Sequence[tuple[str, str, int, int | None, int, int]] = row.get("steps", _NONE)
            if len(steps) < 2 or any(step[5] > 1 for step in steps):
                continue
            calls: list[int] = []
            for step in steps:
                calls.append(sum(number >= 0 for number in calls) if step[1] == _CALL else -1)
            total = sum(number >= 0 for number in calls)
            segments: Sequence[tuple[str, int, int, str]] = row["segments"]
            numbers: Sequence[int] = row["segment_steps"]
            for (name, begin_ns, end_ns, _), number in zip(segments, numbers, strict=True):
                if number:
                    code = self._names.setdefault(steps[number - 1][0], len(self._names))
                    # The parts of opening a connection count as one segment.
                    segment = names[name] if name in names else names[_CONNECT]
                    call = calls[number - 1]
                    of_step = (at, number, code, call, total, call >= 0)
                    found.append((*of_step, segment, begin_ns, end_ns))
        if found:
            for name, column in zip(_COLUMNS, np.array(found, np.int64).T, strict=True):
                self._columns[name].append(column)

    def steps(self, facts: Mapping[str, NDArray[np.float64]], first: NDArray[np.int64]) -> Steps:
        """
        Return the steps.

        Args:
            facts: Facts on the calls inside requests, in the order of requests and of starts.
            first: Position of the first call of each request among them; shape ``(requests,)``.
        """
        columns = {name: column.array() for name, column in self._columns.items()}
        row, call = columns["row"], columns["call"]
        # A call may have no record, if it was left out of a sample: then it is not known which of
        # the request's calls has which facts.
        total = len(next(iter(facts.values()), _NONE))
        counts = np.diff(np.append(first, total))
        known = (call >= 0) & (columns["calls"] == counts[row])
        columns["call"] = np.where(known, first[row] + call, -1)
        return Steps(**columns, names=tuple(self._names), facts=facts)


@dataclass(frozen=True, slots=True)
class Steps:
    """
    Intervals of the steps of requests with several steps.

    Args:
        row: Row of the request; shape ``(k,)``, ascending.
        number: Number of the step in its request, from 1; shape ``(k,)``.
        name: Code of the name of the step; shape ``(k,)``.
        call: Row of the call in ``facts``, -1 if the step is no call, or if its facts are not
            known; shape ``(k,)``.
        calls: Number of calls of the request, on its path or not; shape ``(k,)``.
        is_call: 1 if the step is a call, else 0; shape ``(k,)``.
        segment: Number of the segment; shape ``(k,)``.
        begin_ns: Begin of the interval since the start of the request; shape ``(k,)``.
        end_ns: Its end; shape ``(k,)``.
        names: Names of the steps by their code.
        facts: Facts on the calls, by name; shape ``(calls,)`` each.
    """

    row: NDArray[np.int64]
    number: NDArray[np.int64]
    name: NDArray[np.int64]
    call: NDArray[np.int64]
    calls: NDArray[np.int64]
    is_call: NDArray[np.int64]
    segment: NDArray[np.int64]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    names: tuple[str, ...]
    facts: Mapping[str, NDArray[np.float64]]

    def rows(self, kept: NDArray[np.int64], size: int) -> Steps:
        """
        Return the steps of some requests.

        Args:
            kept: Rows of these requests, in their new order.
            size: Number of requests before.
        """
        place = np.full(size, -1)
        place[kept] = np.arange(len(kept))
        row = place[self.row]
        order = np.flatnonzero(row >= 0)
        order = order[np.argsort(row[order], kind="stable")]
        return replace(
            self,
            row=row[order],
            **{name: getattr(self, name)[order] for name in _COLUMNS if name != "row"},
        )

    def time_ns(self, until_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the length of each interval up to the goal metric of its request."""
        until = until_ns[self.row]
        begins, ends = self.begin_ns.astype(np.float64), self.end_ns.astype(np.float64)
        return np.maximum(np.fmin(ends, until) - begins, 0.0)

    def counts_by_name(self, size: int) -> dict[str, NDArray[np.float64]]:
        """
        Return the number of the steps of each name in each request, without calls.

        Args:
            size: Number of requests.
        """
        found: dict[str, NDArray[np.float64]] = {}
        for code, name in enumerate(self.names):
            here = (self.name == code) & (self.is_call == 0)
            if here.any():
                steps = np.unique(np.stack([self.row[here], self.number[here]]), axis=1)
                found[name] = np.bincount(steps[0], minlength=size).astype(np.float64)
        return found

    def facts_at(self, at: NDArray[np.bool_], size: int) -> dict[str, NDArray[np.float64]]:
        """
        Return the facts of a call of each request, NaN without such a call.

        Args:
            at: Which intervals belong to these calls: of one call per request.
            size: Number of requests.
        """
        at = at & (self.call >= 0)
        row, call = self.row[at], self.call[at]
        found: dict[str, NDArray[np.float64]] = {}
        for name, values in self.facts.items():
            column = np.full(size, nan)
            column[row] = values[call]
            found[name] = column
        return found
