"""
Tables of units, filled in one pass over a recording.

Several goals are filled at once, because reading a recording takes far longer than filling a row.
Their tables share the columns that do not depend on the goal. A row takes some 300 bytes: columns
are arrays of numbers, and each is given up as soon as it is in the table.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan import semconv
from latspan._recording import RequestRecord
from latspan._segments import Kind, SegmentName, Side, Source
from latspan._study.diagnose._goal import Goal
from latspan._study.diagnose._table import RequestTable
from latspan._study.diagnose._unit import (
    Child,
    failed,
    lag_ns,
    numbers_of,
    sequential,
    texts_of,
    value_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TableBuilder", "table_of"]

_UNCERTAIN: Final = (Source.ESTIMATED, Source.UNKNOWN)

_CONNECTING: Final = frozenset({SegmentName.DNS, SegmentName.TCP, SegmentName.TLS})
"""
Parts of the opening of a connection. They count as one segment, because one lever shortens all.
"""

_MOST_VALUES: Final = 40
"""Number of values above which an attribute identifies requests, and does not group them."""

_PENDING: Final = 100_000
"""Number of open requests whose calls are kept, in case a request never ends."""


def table_of(records: Iterable[RequestRecord], goal: Goal) -> RequestTable:
    """
    Return the units of some records.

    Args:
        records: Records of any kind and in any order, but calls and stages before the request that
            they are inside of, as recordings have them.
        goal: The goal. Without a kind, the units are requests if there are any.
    """
    builder = TableBuilder(goal)
    for record in records:
        builder.add(record)
    return builder.tables()[0]


class TableBuilder:
    """
    Fills the tables of one or several goals, record by record.

    Units are requests with calls or of a client, if there are any; else requests that were served
    without a call; else calls. As soon as a kind has a unit, those after it are given up.

    Args:
        goals: At least one goal; all have the same kind of unit.
    """

    def __init__(self, *goals: Goal) -> None:
        kind = goals[0].kind
        self._requests = _Filler(goals, Kind.REQUEST) if kind is not Kind.CALL else None
        self._served = _Filler(goals, Kind.REQUEST) if kind is not Kind.CALL else None
        self._calls = _Filler(goals, Kind.CALL) if kind is not Kind.REQUEST else None
        self._empty: Final = _Filler(goals, kind or Kind.CALL)
        self._children: dict[int, list[Child]] = {}
        self._kinds: dict[str, str] = {}

    def add(self, record: RequestRecord) -> None:
        """Add a record; calls and stages before the request that they are inside of."""
        inside = self._children.pop(record.scope_id, []) if record.scope_id else []
        if record.kind is Kind.REQUEST:
            self._add_request(record, inside)
            return
        if record.kind is Kind.CALL:
            end_ns = record.start_epoch_ns + record.duration_ns
            inside = [Child(record.name, record.start_epoch_ns, end_ns, record)]
            if self._calls is not None:
                self._calls.add(record, inside)
        elif record.kind is Kind.STAGE:
            kind = record.details.get(semconv.LATSPAN_STAGE_KIND, record.name)
            self._kinds[record.name] = str(kind)
        if record.parent_id and inside:
            self._children.setdefault(record.parent_id, []).extend(inside)
            if len(self._children) > _PENDING:
                del self._children[next(iter(self._children))]

    def _add_request(self, record: RequestRecord, inside: Sequence[Child]) -> None:
        if self._requests is None:
            return
        if inside or record.side is Side.CLIENT:
            self._requests.add(record, inside)
            if len(self._requests):
                self._served = self._calls = None
        elif self._served is not None:
            self._served.add(record, ())
            if len(self._served):
                self._calls = None

    def tables(self) -> list[RequestTable]:
        """Return one table per goal, and give up what was filled."""
        fillers = (self._requests, self._served, self._calls)
        known = [filler for filler in fillers if filler is not None]
        filler = next((each for each in known if len(each)), None)
        if filler is None:
            # Nothing has a goal metric; how many units lack it is part of the answer.
            filler = next((each for each in reversed(known) if each.left_out), self._empty)
        return filler.tables(self._kinds)


class _GoalColumns:
    """
    Columns that depend on a goal.

    Args:
        goal: The goal.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal: Final = goal
        self.values_ns = array("d")
        self.failed = array("b")
        self.has_value = array("b")
        """Whether a row is part of the table of this goal."""
        self.segments: dict[str, array[float]] = {}
        self.by_source = defaultdict[tuple[str, Source], float](float)
        self.left_out = self.reported = 0

    def add(self, row: int, record: RequestRecord, value_ns: float | None, *, failed: bool) -> None:
        """Add a row of a unit."""
        is_left_out = value_ns is None and not failed
        self.left_out += is_left_out
        late_ns = lag_ns(record)
        self.values_ns.append(nan if value_ns is None else value_ns + late_ns)
        self.failed.append(failed)
        self.has_value.append(not is_left_out)
        if is_left_out:
            return
        if late_ns:
            _add(self.segments, SegmentName.DISPATCH_LAG, row, late_ns)
        until_ns = record.duration_ns if value_ns is None else value_ns
        is_reported = False
        for name, start, end, source in record.segments:
            is_reported |= source is Source.SERVER_REPORTED
            length = (end if end < until_ns else until_ns) - start  # noqa: FURB136 - runs often
            if length > 0:
                shown = SegmentName.CONNECT.value if name in _CONNECTING else name
                _add(self.segments, shown, row, length)
                self.by_source[shown, source] += length
        self.reported += is_reported


class _Filler:
    """
    Collects the columns of units of one kind.

    Args:
        goals: The goals.
        kind: Kind of the units.
    """

    def __init__(self, goals: Sequence[Goal], kind: Kind) -> None:
        self._kind = kind
        self._goals = [_GoalColumns(goal) for goal in goals]
        self._starts = array("q")
        self._durations = array("d")
        self._numbers: dict[str, array[float]] = {}
        self._texts: dict[str, tuple[array[int], dict[str, int]]] = {}
        self._chains = array("i")
        self._earlier: dict[str, array[float]] = {}

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def left_out(self) -> int:
        """Number of units that have no goal metric although they did not fail."""
        return max(columns.left_out for columns in self._goals)

    def add(self, record: RequestRecord, inside: Sequence[Child]) -> None:
        """Add a unit with the calls inside it; of a call, that is the call itself."""
        values = [value_of(record, columns.goal) for columns in self._goals]
        fail = [
            failed(record, inside, columns.goal, value)
            for columns, value in zip(self._goals, values, strict=True)
        ]
        if not any(fail) and all(value is None for value in values):
            for columns in self._goals:
                columns.left_out += 1
            return
        row = len(self._starts)
        for columns, value, has_failed in zip(self._goals, values, fail, strict=True):
            columns.add(row, record, value, failed=has_failed)
        self._starts.append(record.start_epoch_ns)
        self._durations.append(record.duration_ns)
        for name, value in numbers_of(record, inside):
            _add(self._numbers, name, row, value, nan)
        for name, text in texts_of(record, inside).items():
            codes, values_of = self._texts.setdefault(name, (array("b"), {}))
            if len(values_of) <= _MOST_VALUES:
                _fill(codes, row, -1).append(values_of.setdefault(text, len(values_of)))
        self._chains.append(sequential(inside))
        if len(inside) > 1:
            for child in sorted(inside, key=lambda child: child.start_ns)[:-1]:
                _add(self._earlier, child.name, row, child.end_ns - child.start_ns)

    def tables(self, kinds: Mapping[str, str]) -> list[RequestTable]:
        """Return one table per goal, in the order of the starts."""
        size = len(self._starts)
        starts = np.frombuffer(self._starts, dtype=np.int64) if size else np.empty(0, np.int64)
        order = np.argsort(starts, kind="stable")
        taken = _Taken(order)
        starts = starts[order]
        durations = taken.column(self._durations, np.float64)
        numbers = {name: taken.number(self._numbers.pop(name)) for name in list(self._numbers)}
        groups = {
            name: (taken.column(_fill(codes, size, -1), np.int8), tuple(values))
            for name, (codes, values) in self._texts.items()
            if 1 < len(values) <= _MOST_VALUES
        }
        self._texts.clear()
        chains = taken.column(self._chains, np.int32)
        earlier = {
            name: taken.column(_fill(self._earlier.pop(name), size), np.float64)
            for name in list(self._earlier)
        }
        tables: list[RequestTable] = []
        for columns in self._goals:
            names = tuple(columns.segments)
            segments = np.zeros((size, len(names)))
            for index, name in enumerate(names):
                segments[:, index] = taken.column(
                    _fill(columns.segments.pop(name), size), np.float64
                )
            sums = segments.sum(axis=0)
            has_value = taken.column(columns.has_value, np.int8).astype(bool)
            table = RequestTable(
                goal=columns.goal,
                kind=self._kind,
                value_ns=taken.column(columns.values_ns, np.float64),
                failed=taken.column(columns.failed, np.int8).astype(bool),
                start_ns=starts,
                duration_ns=durations,
                names=names,
                segments_ns=segments,
                uncertain=np.array(
                    [
                        sum(columns.by_source[name, source] for source in _UNCERTAIN) / total
                        if total
                        else 0.0
                        for name, total in zip(names, sums, strict=True)
                    ]
                ),
                sources={
                    name: max(Source, key=lambda source: columns.by_source[name, source])
                    for name in names
                },
                kinds={name: kinds[name] for name in names if name in kinds},
                numbers=numbers,
                groups=groups,
                chains=chains,
                earlier=earlier,
                left_out=columns.left_out,
                reported=columns.reported / max(int(has_value.sum()), 1),
            )
            tables.append(table if has_value.all() else table.rows(has_value))
        return tables


class _Taken:
    """
    Columns in the order of a table.

    Args:
        order: Row of the columns for each row of the table.
    """

    def __init__(self, order: NDArray[np.int64]) -> None:
        self._order = order

    def column(self, column: Any, dtype: Any) -> NDArray[Any]:
        """Return a column as an array."""
        if not len(column):
            return np.empty(0, dtype)
        return np.frombuffer(column, dtype=dtype)[self._order]

    def number(self, column: array[float]) -> NDArray[np.float64]:
        """Return a column of facts, NaN where a unit has none."""
        return self.column(_fill(column, len(self._order), nan), np.float64)


def _fill(column: Any, size: int, default: float = 0) -> Any:
    """Extend a column by its default up to ``size`` rows, and return it."""
    if len(column) < size:
        column.extend([default] * (size - len(column)))
    return column


def _add(
    columns: dict[str, array[float]], name: str, row: int, value: float, default: float = 0.0
) -> None:
    """Add ``value`` to the last row of a column; the rows before it that it lacks get a default."""
    column = columns.get(name)
    if column is None:
        column = columns[str(name)] = array("d")
    missing = row - len(column)
    if missing < 0:
        column[row] += value
        return
    if missing:
        column.extend([default] * missing)
    column.append(value)
