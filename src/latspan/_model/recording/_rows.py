"""
Series of a snapshot as plain values: one row per series, for JSON and for tables of pandas.

A number is absent if it is not known or has too few values; it is never zero instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from latspan._model.metrics import unit_of
from latspan._model.recording._series import Series, SeriesKey
from latspan._model.units import TimeUnit, shown_in
from latspan.errors import MissingExtraError

if TYPE_CHECKING:
    from pandas import DataFrame

SNAPSHOT_SCHEMA: Final = "latspan.snapshot/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

_COUNTS: Final = frozenset({"count", "rejected", "clamped"})


def rows_of(series: Mapping[SeriesKey, Series], unit: TimeUnit) -> list[dict[str, Any]]:
    """
    Return a row per series, ordered by metric and attributes.

    Args:
        series: Series by key.
        unit: Unit of the times.

    Raises:
        UnknownNameError: There is no such unit.
    """
    ordered = sorted(series.items(), key=lambda item: (item[0].metric, *item[0].attributes.items()))
    return [_row(key, each, unit) for key, each in ordered]


def table_of(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """
    Return a table with the rows; each attribute that occurs is a column.

    Args:
        rows: The result of :func:`rows_of`.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        from pandas import DataFrame
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise MissingExtraError("pandas", extra="pandas") from error
    attributes = list(dict.fromkeys(name for row in rows for name in row["attributes"]))
    numbers = [name for name in (rows[0] if rows else ()) if name not in ("metric", "attributes")]
    return DataFrame(
        [
            [
                row["metric"],
                *map(row["attributes"].get, attributes),
                *(row[name] for name in numbers),
            ]
            for row in rows
        ],
        columns=["metric", *attributes, *numbers],
    )


def _row(key: SeriesKey, series: Series, unit: TimeUnit) -> dict[str, Any]:
    metric_unit = unit_of(key.measured_metric)
    return {
        "metric": key.metric,
        "attributes": key.attributes,
        "unit": unit if metric_unit == "s" else metric_unit,
        **{
            name: value if value is None or name in _COUNTS else shown_in(value, metric_unit, unit)
            for name, value in series.histogram.to_dict().items()
        },
    }
