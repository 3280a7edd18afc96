"""
Parts of a recording: the requests that have some attributes, with everything inside them.

The files are read twice, because the line of a call comes before the line of its request, which
may have the attribute. The first reading finds the numbers of the requests of each part. The
second one gives each line to the parts of its request. A call or stage outside any request is in
a part if it has the attributes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from latspan._model.recording import Snapshot
from latspan._model.recording.folder import (
    LineChunk,
    Recording,
    SnapshotReader,
    chunks_of,
    without_collections,
)
from latspan._model.segments import Kind
from latspan._study.table._columns import IDS_PER_FILE, Chunk
from latspan._study.table._division import Division, divide, wanted_attributes
from latspan._study.table._joining import by_number, outermost
from latspan._study.table._reading import TableReader, read_rows
from latspan._study.table._table import Table
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELSEWHERE: Final = -1
"""Code of a line that is not selected."""
_SELECTED: Final = 0
"""Code of a line that is selected, but has no value that is shown. The codes of values follow."""


class PartsReader:
    """
    Reader of the snapshots of the parts of a recording.

    Args:
        recording: The recording; its files are read once here, and again by the caller, who gives
            each chunk of lines to :meth:`add`.
        where: Value of each attribute that the requests must have.
        by: Attribute by whose values the selected requests are divided, if they are.

    Raises:
        ConfigError: No request has an attribute of ``where``, or none has the attribute ``by``.
        RecordingError: A file cannot be read.
    """

    def __init__(
        self, recording: Recording, where: Mapping[str, str], by: str | None = None
    ) -> None:
        self._recording = recording
        self._where = where
        self._by = by
        reader = TableReader((), where=wanted_attributes(where, by))
        read_rows(recording, reader)
        self._scopes = by_number(reader.scopes)
        tables = [self._outside(table) for table in reader.every_kind()]
        chosen = _matching([table.rows(table.measured()) for table in tables], where)
        self.division: Final = Division((), ()) if by is None else divide(chosen, by)
        """Values of the parts."""
        self._requests, self._codes = self._requests_of(tables)
        share = 1 / max(len(self.division.values), 1)
        self._whole = SnapshotReader(recording, is_part=bool(where))
        self._parts = [
            SnapshotReader(recording, is_part=True, share=share) for _ in self.division.values
        ]

    def _outside(self, table: Table) -> Table:
        """Return the rows that are inside of no other row: calls inside requests are left out."""
        if table.kind is not Kind.CALL:
            return table
        requests = self._scopes[self._scopes[:, 2] == 1, 0]
        owner = outermost(table.number("parent_id").astype(np.int64), self._scopes)
        return table.rows(~np.isin(owner, requests))

    def _requests_of(self, tables: Iterable[Table]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each request, ascending, and the code of its part."""
        # The first one stands for no request.
        numbers, codes = np.zeros(1, np.int64), np.full(1, _ELSEWHERE)
        for table in tables:
            if table.kind is Kind.REQUEST:
                numbers = np.append(numbers, table.number("scope_id").astype(np.int64))
                codes = np.append(codes, self._codes_of(table))
        order = np.argsort(numbers, kind="stable")
        return numbers[order], codes[order]

    def _codes_of(self, table: Table) -> NDArray[np.int64]:
        codes = np.where(table.has(self._where), _SELECTED, _ELSEWHERE)
        for number, value in enumerate(self.division.values, _SELECTED + 1):
            codes[(codes == _SELECTED) & table.has({str(self._by): value})] = number
        return codes

    def add(self, chunk: LineChunk) -> None:
        """Add the lines of a chunk to their parts."""
        scopes = [row.get("id") or row.get("parent", 0) for row in chunk.rows]
        scope = np.array(scopes, np.int64)
        scope += (scope > 0) * (chunk.file * IDS_PER_FILE)
        owner = outermost(scope, self._scopes)
        place = np.minimum(np.searchsorted(self._requests, owner), len(self._requests) - 1)
        codes = self._codes[place]
        outside = (self._requests[place] != owner) | (owner == 0)
        if outside.any():
            codes[outside] = self._own_codes(list(compress(chunk.rows, outside.tolist())))
        self._whole.add(_part_of(chunk, codes >= _SELECTED))
        for number, part in enumerate(self._parts, _SELECTED + 1):
            part.add(_part_of(chunk, codes == number))

    def _own_codes(self, rows: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the code of each line by its own attributes."""
        none: Sequence[str | None] = [None] * len(rows)
        texts = dict(Chunk(rows, 0, {}).group_texts(wanted_attributes(self._where, self._by)))
        codes = [_SELECTED] * len(rows)
        if self._by is not None:
            numbers = {value: n for n, value in enumerate(self.division.values, _SELECTED + 1)}
            codes = [numbers.get(str(text), _SELECTED) for text in texts.get(self._by, none)]
        for name, value in self._where.items():
            own = texts.get(name, none)
            codes = [
                code if text == value else _ELSEWHERE for code, text in zip(codes, own, strict=True)
            ]
        return codes

    def read(self) -> None:
        """Add all lines of the recording."""
        with without_collections():
            for chunk in chunks_of(self._recording):
                self.add(chunk)

    def snapshot(self) -> Snapshot:
        """Return the snapshot of all selected requests."""
        return self._whole.snapshot()

    def parts(self) -> dict[str, Snapshot]:
        """Return the snapshot of the requests of each value, the value with the most first."""
        snapshots = (part.snapshot() for part in self._parts)
        return dict(zip(self.division.values, snapshots, strict=True))


def _matching(tables: Sequence[Table], where: Mapping[str, str]) -> list[Table]:
    """Return the rows of each table that have some attributes, unless no table has one."""
    found: list[Table] = []
    refused: list[ConfigError] = []
    for table in tables:
        try:
            found.append(table.matching(where))
        except ConfigError as error:
            refused.append(error)
    if refused and not any(map(len, found)):
        raise refused[0]
    return found


def _part_of(chunk: LineChunk, mask: NDArray[np.bool_]) -> LineChunk:
    if mask.all():
        return chunk
    chosen = mask.tolist()
    return LineChunk(
        chunk.file, list(compress(chunk.lines, chosen)), list(compress(chunk.rows, chosen))
    )
