"""
The outermost records of a source as a table: what a count of requests needs.

A call inside a request is a part of it, so only the records of the outermost kind count. Calls are
not joined to their requests, and requests of both sides are rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from latspan import semconv
from latspan._model.segments import Kind, Phase
from latspan._study.table._columns import Columns
from latspan._study.table._reading import finished
from latspan._study.table._table import Table

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})
_OWN: Final[Mapping[str, str]] = {"outcome": "completed", "side": "client", "kind": ""}
"""Fields of a line by which records may be chosen, with their default."""

_ORDER: Final = {kind.value: place for place, kind in enumerate(Kind)}
_KINDS: Final = tuple(Kind)


class OutermostReader:
    """
    Collects the columns of the outermost kind; those of a load test only in its measured phase.

    Args:
        kind: Kind to read; the outermost one that occurs if not given.
        metrics: Metrics to keep, besides the duration.
        attributes: Attributes to keep, whatever the number of their values.
        where: Attributes that a record must have.
        is_load: Whether it is a load test, of which only requests with a phase count.
    """

    def __init__(
        self,
        *,
        kind: Kind | None = None,
        metrics: Collection[str] = (),
        attributes: Collection[str] = (),
        where: Mapping[str, str] = MappingProxyType({}),
        is_load: bool = False,
    ) -> None:
        self._phase = None if is_load else Phase.MEASURED
        self._place = len(_KINDS) if kind is None else _ORDER[kind.value]
        self._is_given = kind is not None
        self._metrics = frozenset(metrics)
        self._attributes = frozenset(attributes) - _OWN.keys()
        self._where = dict(where)
        self._columns: Columns | None = None

    def add(self, rows: Sequence[Mapping[str, Any]], file: int = 0) -> None:
        """
        Add lines of one file.

        Args:
            rows: Fields of lines that can be read.
            file: Number of the file.
        """
        counted = [
            row
            for row in rows
            if row.get("details", _NONE).get(semconv.LATSPAN_LOAD_PHASE, self._phase)
            == Phase.MEASURED
        ]
        for name, value in self._where.items():
            counted = [row for row in counted if _attribute(row, name) == value]
        places = [_ORDER[row["kind"]] for row in counted]
        outermost = self._place if self._is_given else min([self._place, *places])
        chosen = [row for row, place in zip(counted, places, strict=True) if place == outermost]
        if not chosen:
            return
        columns = self._columns if outermost == self._place else None
        if columns is None:
            columns = Columns(_KINDS[outermost], (), self._attributes, only=self._metrics)
        columns.add(chosen, file)
        self._columns, self._place = columns, outermost

    def table(self) -> Table | None:
        """Return the table, and give up what was collected; ``None`` if no record counts."""
        return None if self._columns is None else finished(self._columns, {})


def _attribute(row: Mapping[str, Any], name: str) -> str | None:
    attributes: Mapping[str, str] = row.get("attributes", _NONE)
    if name in attributes:
        return attributes[name]
    if name in _OWN:
        return row.get(name, _OWN[name])
    value = row.get("details", _NONE).get(name)
    return None if value is None else str(value)
