"""
JSON documents of ``latspan histogram … --json``.

Times are integer nanoseconds, ratios integer billionths. A number is ``null`` if it is unknown or
has too few values. The count, the sum, the minimum and the maximum are those of the values seen;
``cut`` and ``failed`` are the numbers of requests that decide a percentile without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal, TypedDict

from latspan._model.units import MetricUnit
from latspan._study.fields import Count, Limits
from latspan._study.render.histogram_rows import (
    HistogramRow,
    Percentiles,
    RowKey,
    change,
    paired,
    percentiles_of,
)
from latspan.histogram import LogTotals

HISTOGRAM_SHOW_SCHEMA: Final = "latspan.histogram-show/1"
"""Kind and version of the document; a field that changes its meaning increments the version."""

HISTOGRAM_DIFF_SCHEMA: Final = "latspan.histogram-diff/1"
"""Kind and version of the comparison document."""


ValueUnit = Literal["ns", "1", "1e-9"]
"""Unit of the values of a row: nanoseconds, plain numbers, or billionths."""

_UNITS: Final[dict[MetricUnit, ValueUnit]] = {"s": "ns", "1": "1", "ratio": "1e-9"}


class LoggedTime(TypedDict):
    """Intervals that the files have."""

    intervals: Count
    start_epoch_ns: Annotated[int | None, "null without an interval"]
    end_epoch_ns: Annotated[int | None, "null without an interval"]


class _RowName(TypedDict):
    kind: Annotated[str | None, "null if the file does not have it"]
    side: Annotated[str | None, "null if the file does not have it"]
    metric: Annotated[str, "segment for a segment"]
    segment: str | None
    by: Annotated[dict[str, str | None], "Values of the attributes of --by"]
    unit: Annotated[ValueUnit, "Unit of the values: nanoseconds, plain numbers or billionths"]


_Values = TypedDict(
    "_Values",
    {
        "series": Annotated[Count, "Number of merged series"],
        "sources": Annotated[list[str], "Sources of the values; empty if they are not known"],
        "significant_digits": Annotated[int, Limits(minimum=0, maximum=3)],
        "count": Annotated[Count, "Number of values"],
        "rejected": Annotated[Count, "Negative values, which are not counted"],
        "clamped": Annotated[Count, "Values above 24 hours, which count as 24 hours"],
        "sum": int,
        "min": int | None,
        "p50": int | None,
        "p90": int | None,
        "p95": int | None,
        "p99": int | None,
        "p99.9": int | None,
        "max": int | None,
        "cut": Annotated[Count, "Requests that were given up before they had a value"],
        "failed": Annotated[Count, "Requests that failed"],
    },
)


class HistogramValues(_Values):
    """Values of a row."""


class ShownRow(_RowName, _Values):
    """Values of a metric or of a segment."""


_Changes = TypedDict(
    "_Changes",
    {
        "p50": float | None,
        "p90": float | None,
        "p95": float | None,
        "p99": float | None,
        "p99.9": float | None,
    },
)


class PercentileChanges(_Changes):
    """Changes of the percentiles as fractions of the values before; null if they are not known."""


class DiffRow(_RowName):
    """Values of a metric or of a segment in both measurements."""

    before: Annotated[HistogramValues | None, "null if only the second measurement has the row"]
    after: Annotated[HistogramValues | None, "null if only the first measurement has the row"]
    change: PercentileChanges


class HistogramShowDocument(LoggedTime):
    """
    Contents of histogram files: latspan histogram show --json.

    A number is null if it is unknown or has too few values.
    """

    schema: Literal["latspan.histogram-show/1"]
    rows: list[ShownRow]


class HistogramDiffDocument(TypedDict):
    """
    Two measurements side by side: latspan histogram diff --json.

    A number is null if it is unknown or has too few values.
    """

    schema: Literal["latspan.histogram-diff/1"]
    before: LoggedTime
    after: LoggedTime
    rows: list[DiffRow]


def histogram_show_document(
    totals: LogTotals, rows: Sequence[HistogramRow], *, by: Sequence[str] = ()
) -> HistogramShowDocument:
    """
    Return the contents of files as plain data, ready for ``json.dumps``.

    Args:
        totals: Contents of the files.
        rows: Rows to show.
        by: Attributes by which the rows are split.
    """
    return {
        "schema": HISTOGRAM_SHOW_SCHEMA,
        **_span(totals),
        "rows": [{**_named(row.key, by), **_values(row)} for row in rows],
    }


def histogram_diff_document(
    before: tuple[LogTotals, Sequence[HistogramRow]],
    after: tuple[LogTotals, Sequence[HistogramRow]],
    *,
    by: Sequence[str] = (),
) -> HistogramDiffDocument:
    """
    Return two measurements side by side as plain data, ready for ``json.dumps``.

    Args:
        before: Contents and rows of the first measurement.
        after: Contents and rows of the second measurement.
        by: Attributes by which the rows are split.
    """
    return {
        "schema": HISTOGRAM_DIFF_SCHEMA,
        "before": _span(before[0]),
        "after": _span(after[0]),
        "rows": [
            {
                **_named(key, by),
                "before": None if old is None else _values(old),
                "after": None if new is None else _values(new),
                "change": _changes(percentiles_of(old), percentiles_of(new)),
            }
            for key, old, new in paired(before[1], after[1])
        ],
    }


def _span(totals: LogTotals) -> LoggedTime:
    return {
        "intervals": totals.intervals,
        "start_epoch_ns": totals.start_epoch_ns if totals.intervals else None,
        "end_epoch_ns": totals.end_epoch_ns if totals.intervals else None,
    }


def _named(key: RowKey, by: Sequence[str]) -> _RowName:
    return {
        "kind": key.kind,
        "side": key.side,
        "metric": key.metric,
        "segment": key.segment,
        "by": dict(zip(by, key.by, strict=True)),
        "unit": _UNITS[key.unit],
    }


def _values(row: HistogramRow) -> HistogramValues:
    seen, percentiles = row.histogram, percentiles_of(row)
    return {
        "series": row.series,
        "sources": list(row.sources),
        "significant_digits": row.precision.significant_digits,
        "count": seen.count,
        "rejected": seen.rejected,
        "clamped": seen.clamped,
        "sum": seen.sum_ns,
        "min": seen.min_ns if seen.count else None,
        "p50": percentiles[50],
        "p90": percentiles[90],
        "p95": percentiles[95],
        "p99": percentiles[99],
        "p99.9": percentiles[99.9],
        "max": seen.max_ns if seen.count else None,
        "cut": row.population.cut,
        "failed": row.population.failed,
    }


def _changes(before: Percentiles, after: Percentiles) -> PercentileChanges:
    return {
        "p50": change(before[50], after[50]),
        "p90": change(before[90], after[90]),
        "p95": change(before[95], after[95]),
        "p99": change(before[99], after[99]),
        "p99.9": change(before[99.9], after[99.9]),
    }
