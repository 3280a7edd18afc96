"""
Reading of a table: from the files of a recording, or from records in memory.

The columns of each kind are collected first (:mod:`._columns`); at the end, calls are joined to the
requests that they are inside of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from latspan import semconv
from latspan._model.metrics import DURATION, TIME_TO_FIRST_TOKEN, TIME_TO_FIRST_VISIBLE_TOKEN
from latspan._model.recording import RequestRecord
from latspan._model.recording.folder import (
    LineChunk,
    Recording,
    chunks_of,
    row_of_record,
    without_collections,
)
from latspan._model.segments import Kind
from latspan._study.table._columns import IDS_PER_FILE, Columns, Groups
from latspan._study.table._joining import Inside, join_calls
from latspan._study.table._steps import Steps
from latspan._study.table._table import Segments, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK: Final = 256
"""Number of records that are added at once: so few that they stay in the processor's caches."""


_OF_TABLES: Final = {
    "start_ns": np.int64,
    "duration_ns": np.int64,
    "lag_ns": np.int64,
    "outcome": np.int8,
    "streamed": np.int8,
    "is_server": np.bool_,
    "weight": np.float64,
    "phase": np.int8,
    "step": np.int16,
}
"""Columns that are fields of a table and no facts, and their types."""

_LINKS: Final = ("scope_id", "parent_id")


def metric_of(metric: str, kind: Kind) -> str:
    """Return the metric of a kind: a request only has the time until its user sees something."""
    return (
        TIME_TO_FIRST_VISIBLE_TOKEN
        if kind is Kind.REQUEST and metric == TIME_TO_FIRST_TOKEN
        else metric
    )


def read_table(
    recording: Recording,
    until: Sequence[str] = (DURATION,),
    *,
    kind: Kind | None = None,
    attributes: Collection[str] = (),
    where: Mapping[str, str | None] = MappingProxyType({}),
    gaps: bool = False,
    beside: ChunkReader | None = None,
) -> Table:
    """
    Return the units of a recording.

    Args:
        recording: The recording; its files are read once.
        until: Metrics up to which the time of each segment is summed.
        kind: Kind of the units. If not given, use the served requests that have calls if any
            exist, else the requests of a client, else the other served requests, else the calls.
        attributes: Attributes to keep, whatever the number of their values.
        where: Value of each attribute that decides on the kind of the units, ``None`` for any
            value: the first of these kinds that has such requests. The table has the others too.
        gaps: Whether the median gap of each stream and its stalled time are kept, which only rules
            of a diagnosis need.
        beside: Reader that gets the same lines.

    Raises:
        RecordingError: A file cannot be read.
    """
    reader = TableReader(until, kind=kind, attributes=attributes, where=where, gaps=gaps)
    read_rows(recording, reader, beside)
    return reader.table()


class Rows(Protocol):
    """Receiver of lines."""

    def add(self, rows: Sequence[Mapping[str, Any]], file: int = 0) -> None:
        """Add lines of one file."""
        ...


class ChunkReader(Protocol):
    """Receiver of lines with their text."""

    def add(self, chunk: LineChunk) -> None:
        """Add lines of one file."""
        ...


def read_rows(recording: Recording, reader: Rows, beside: ChunkReader | None = None) -> None:
    """
    Give the lines of a recording that can be read to a reader.

    Args:
        recording: The recording; its files are read once.
        reader: The reader.
        beside: Reader that gets the same lines.

    Raises:
        RecordingError: A file cannot be read.
    """
    with without_collections():
        for chunk in chunks_of(recording):
            reader.add(chunk.rows, chunk.file)
            if beside is not None:
                beside.add(chunk)
            # Its memory is used again for the next chunk, while it is in the processor's caches.
            del chunk


def rows_of_records(records: Iterable[RequestRecord], reader: Rows) -> None:
    """
    Give records in memory to a reader.

    Args:
        records: The records, read once; scopes have distinct numbers.
        reader: The reader.
    """
    rows = map(row_of_record, records)
    while chunk := list(islice(rows, _CHUNK)):
        reader.add(chunk)


def table_of_records(
    records: Iterable[RequestRecord],
    until: Sequence[str] = (DURATION,),
    *,
    kind: Kind | None = None,
    attributes: Collection[str] = (),
    where: Mapping[str, str | None] = MappingProxyType({}),
    gaps: bool = False,
) -> Table:
    """
    Return the units of records in memory; see :func:`read_table`.

    Args:
        records: The records, read once; scopes have distinct numbers.
        until: Metrics up to which the time of each segment is summed.
        kind: Kind of the units.
        attributes: Attributes to keep, whatever the number of their values.
        where: Value of each attribute that decides on the kind of the units.
        gaps: Whether the median gap of each stream and its stalled time are kept.
    """
    reader = TableReader(until, kind=kind, attributes=attributes, where=where, gaps=gaps)
    rows_of_records(records, reader)
    return reader.table()


class TableReader:
    """
    Collects the columns of each kind, and joins calls to their requests at the end.

    Args:
        until: Metrics up to which the time of each segment is summed.
        kind: Kind of the units; see :func:`read_table`.
        attributes: Attributes to keep, whatever the number of their values.
        where: Value of each attribute that decides on the kind of the units; these are kept too.
        gaps: Whether the median gap of each stream and its stalled time are kept.
    """

    def __init__(
        self,
        until: Sequence[str] = (DURATION,),
        *,
        kind: Kind | None = None,
        attributes: Collection[str] = (),
        where: Mapping[str, str | None] = MappingProxyType({}),
        gaps: bool = False,
    ) -> None:
        self._until = tuple(until)
        self._kind = kind
        self._where = where
        attributes = {*attributes, *where}
        kinds = (Kind.REQUEST, Kind.CALL) if kind in (None, Kind.REQUEST) else (kind,)
        self._columns = {
            each: Columns(each, [metric_of(name, each) for name in until], attributes, gaps=gaps)
            for each in kinds
        }
        self._scopes: list[NDArray[np.int64]] = []
        self._call_names: list[str] = []
        self._distinct_names: dict[str, str] = {}
        self._stage_kinds: dict[str, str] = {}

    def add(self, rows: Sequence[Mapping[str, Any]], file: int = 0) -> None:
        """
        Add lines of one file.

        Args:
            rows: Fields of lines that can be read.
            file: Number of the file.
        """
        by_kind: dict[Kind, list[Mapping[str, Any]]] = {}
        for row in rows:
            by_kind.setdefault(_KINDS[row["kind"]], []).append(row)
        scopes = [
            (row["id"], row.get("parent", 0), kind is Kind.REQUEST)
            for kind, each in by_kind.items()
            if kind not in _WITHOUT_SCOPE
            for row in each
            if row.get("id")
        ]
        if scopes:
            numbers = np.array(scopes, np.int64)
            numbers[:, :2] += (numbers[:, :2] > 0) * (file * IDS_PER_FILE)
            self._scopes.append(numbers)
        for kind, columns in self._columns.items():
            if kind in by_kind:
                columns.add(by_kind[kind], file)
        # Calls share the texts of their few names: a million texts take 60 MB.
        distinct = self._distinct_names.setdefault
        self._call_names += [
            distinct(row["name"], row["name"]) for row in by_kind.get(Kind.CALL, ())
        ]
        for row in by_kind.get(Kind.STAGE, ()):
            kind = row.get("details", {}).get(semconv.LATSPAN_STAGE_KIND, row["name"])
            self._stage_kinds[row["name"]] = str(kind)

    @property
    def scopes(self) -> NDArray[np.int64]:
        """Number, parent, and whether it is a request, of each scope; shape ``(scopes, 3)``."""
        return np.concatenate([np.empty((0, 3), np.int64), *self._scopes])

    def every_kind(self) -> list[Table]:
        """
        Return the requests of both sides, and the calls, with the numbers of their scopes.

        What was collected is given up.
        """
        requests, calls = self._columns[Kind.REQUEST], self._columns[Kind.CALL]
        if requests.size and calls.size:
            join_calls(requests, calls, self.scopes, self._call_names)
        return [
            finished(each, self._stage_kinds, links=True) for each in (requests, calls) if each.size
        ]

    def table(self) -> Table:
        """Return the table, and give up what was collected."""
        requests, calls = self._columns.get(Kind.REQUEST), self._columns.get(Kind.CALL)
        if requests is None or not requests.size:
            chosen = None if self._kind is Kind.REQUEST else calls
            return finished(chosen or next(iter(self._columns.values())), self._stage_kinds)
        inside = None
        if calls is not None and calls.size:
            inside = join_calls(requests, calls, self.scopes, self._call_names)
        table = finished(requests, self._stage_kinds, inside)
        is_served = table.is_server & (table.chains > 0)
        # Users wait for what is served; the requests of a client may be background jobs.
        first: Table | None = None
        for chosen in (is_served, ~table.is_server, table.is_server & ~is_served):
            units = table.rows(chosen)
            if any(units.bounds(metric).applies.any() for metric in units.segments):
                # If only background jobs have the attributes, these are meant.
                if units.has(self._where).any():
                    return units
                first = units if first is None else first
        if first is not None:
            return first
        if self._kind is Kind.REQUEST or calls is None or not calls.size:
            return table
        return finished(calls, self._stage_kinds)


def finished(
    columns: Columns,
    stage_kinds: Mapping[str, str],
    inside: Inside | None = None,
    *,
    links: bool = False,
) -> Table:
    """
    Return the table of the records of one kind, in the order of their starts.

    Args:
        columns: The records; their columns are given up.
        stage_kinds: Kind of each stage by its name.
        inside: Calls inside the records.
        links: Whether the table has the numbers of scopes, ``scope_id`` and ``parent_id``.
    """
    size = columns.size
    order = _order(columns.column("start_ns"))
    fields: dict[str, Any] = {
        name: _compact(columns.take(name)[order]) if size else np.empty(0, dtype)
        for name, dtype in _OF_TABLES.items()
    }
    reported = columns.take("is_reported")[order].astype(np.bool_)
    if not links:
        for name in _LINKS:
            columns.take(name)
    is_call = columns.kind is Kind.CALL
    return Table(
        kind=columns.kind,
        **fields,
        numbers={name: _compact(columns.take(name)[order]) for name in columns.names},
        groups={
            name: (_codes(groups, size)[order], tuple(groups.values))
            for name, groups in columns.groups.items()
            if columns.is_group(name)
        },
        late=frozenset(columns.late),
        names=tuple(columns.segment_names),
        segments={
            metric: Segments(columns.segments(metric)[order], columns.by_source(metric))
            for metric in columns.until
        },
        reported=reported,
        chains=np.full(size, is_call, np.int32) if inside is None else inside.chains[order],
        stage_kinds=dict(stage_kinds),
        steps=_steps(columns, inside, order),
        earlier={}
        if inside is None
        else {name: times[order] for name, times in inside.earlier.items()},
    )


def _steps(
    columns: Columns, inside: Inside | None, order: NDArray[np.int64] | slice
) -> Steps | None:
    """Return the steps of requests with several calls; ``None`` if there are none."""
    if columns.steps is None or inside is None or not inside.facts:
        return None
    steps = columns.steps.steps(inside.facts, inside.first)
    if isinstance(order, slice):
        return steps
    return steps.rows(order, columns.size)


def _codes(groups: Groups, size: int) -> NDArray[np.signedinteger[Any]]:
    """Return the codes of all records, in as few bytes as they need."""
    return groups.column(size).astype(np.min_scalar_type(-len(groups.values) - 1))


def _compact(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column of one value, as most weights and lags are, as that value at each place."""
    is_one = len(column) > 0 and bool((column == column[0]).all())
    return np.broadcast_to(column[0], len(column)) if is_one else column


def _order(starts_ns: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return the order of the starts; a slice if they are in order, which copies no column."""
    if (np.diff(starts_ns) >= 0).all():
        return slice(None)
    return np.argsort(starts_ns, kind="stable")


_KINDS: Final = {kind.value: kind for kind in Kind}
_WITHOUT_SCOPE: Final = frozenset({Kind.CALL, Kind.HTTP})
