"""
JSON documents of ``latspan histogram … --json``.

Times are integer nanoseconds, ratios integer billionths. A number is ``null`` if it is unknown or
has too few values. The count, the sum, the minimum and the maximum are those of the values seen;
``cut`` and ``failed`` are the numbers of requests that decide a percentile without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from latspan._model.units import MetricUnit
from latspan._study.render.histogram_rows import (
    PERCENTILES,
    HistogramRow,
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


_UNITS: Final[dict[MetricUnit, str]] = {"s": "ns", "1": "1", "ratio": "1e-9"}


def histogram_show_document(
    totals: LogTotals, rows: Sequence[HistogramRow], *, by: Sequence[str] = ()
) -> dict[str, object]:
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
) -> dict[str, object]:
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
                "change": {
                    f"p{percentile}": change(was[percentile], now[percentile])
                    for percentile in PERCENTILES
                },
            }
            for key, old, new in paired(before[1], after[1])
            for was, now in [(percentiles_of(old), percentiles_of(new))]
        ],
    }


def _span(totals: LogTotals) -> dict[str, object]:
    return {
        "intervals": totals.intervals,
        "start_epoch_ns": totals.start_epoch_ns if totals.intervals else None,
        "end_epoch_ns": totals.end_epoch_ns if totals.intervals else None,
    }


def _named(key: RowKey, by: Sequence[str]) -> dict[str, object]:
    return {
        "kind": key.kind,
        "side": key.side,
        "metric": key.metric,
        "segment": key.segment,
        "by": dict(zip(by, key.by, strict=True)),
        "unit": _UNITS[key.unit],
    }


def _values(row: HistogramRow) -> dict[str, object]:
    return {
        "series": row.series,
        "sources": list(row.sources),
        "significant_digits": row.precision.significant_digits,
        **row.histogram.to_dict(PERCENTILES),
        **{f"p{percentile}": value for percentile, value in percentiles_of(row).items()},
        "cut": row.population.cut,
        "failed": row.population.failed,
    }
