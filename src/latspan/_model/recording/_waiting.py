"""Values of finished requests, grouped by series before they are counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from operator import index
from typing import TYPE_CHECKING

from latspan._model.recording._series import SeriesKey
from latspan._model.recording._values import Shape, keys_of, values_of

if TYPE_CHECKING:
    from latspan._model.recording._record import RequestRecord


class Column:
    """
    Values that wait to be counted in one series.

    Attributes:
        values: All values.
        records: Candidates for the exemplars of the series.
        highest: The highest value of each candidate.
        typical: One value of each candidate, chosen regardless of its size.
    """

    __slots__ = ("highest", "records", "typical", "values")

    def __init__(self) -> None:
        self.values: list[int] = []
        self.records: list[RequestRecord] = []
        self.highest: list[int] = []
        self.typical: list[int] = []

    def add_exemplars(
        self, records: Sequence[RequestRecord], highest: Sequence[int], typical: Sequence[int]
    ) -> None:
        """Add requests that may become exemplars."""
        self.records += records
        self.highest += highest
        self.typical += typical


class _Rows:
    """Requests of one shape and their recorded values, one row per request."""

    __slots__ = ("records", "several", "single")

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self.single: list[list[int]] = []
        self.several: list[list[Sequence[int]]] = []


class Waiting:
    """Requests whose values wait to be counted. Not thread-safe."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        # Only requests whose trace is kept may become exemplars: either all requests of a group or
        # none.
        self._rows: dict[tuple[Shape, bool], _Rows] = {}

    def add(self, record: RequestRecord, *, exemplar: bool) -> None:
        """
        Add the values of a request, or none of them if it raises.

        Args:
            record: The request.
            exemplar: Whether it may become an exemplar of its series.
        """
        shape, single, several = values_of(record)
        _refuse_no_integers(single)
        for values in several:
            _refuse_no_integers(values)
        if exemplar:
            _refuse_no_integers((record.start_epoch_ns, record.trace_id, record.span_id))
        alike = shape, exemplar
        rows = self._rows.get(alike)
        if rows is None:
            # A record whose series have no valid keys raises here, before anything is stored.
            keys_of(shape)
            rows = self._rows[alike] = _Rows()
        rows.records.append(record)
        rows.single.append(single)
        rows.several.append(several)

    def columns(self) -> dict[SeriesKey, Column]:
        """Return the added values, by series."""
        columns: defaultdict[SeriesKey, Column] = defaultdict(Column)
        for (shape, exemplar), rows in self._rows.items():
            of_single, of_several = keys_of(shape)
            for key, values in zip(of_single, zip(*rows.single, strict=True), strict=True):
                column = columns[key]
                column.values += values
                if exemplar:
                    column.add_exemplars(rows.records, values, values)
            for key, groups in zip(of_several, zip(*rows.several, strict=True), strict=True):
                column = columns[key]
                column.values += chain.from_iterable(groups)
                if exemplar:
                    highest = [max(values) for values in groups]
                    typical = [values[len(values) // 2] for values in groups]
                    column.add_exemplars(rows.records, highest, typical)
        return columns


def _refuse_no_integers(values: Sequence[int]) -> None:
    """Raise if a value is not an integer; later it would prevent the others from being counted."""
    # A sum is an integer only if all its terms are.
    index(sum(values))
