"""
Renderings of recorded data: for a terminal and for programs.

This package reads only records and snapshots, not live requests. Drawing on a terminal needs
``rich``, which is imported on first use; the rest has no dependencies.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from latspan.errors import MissingExtraError
from latspan.report._histogram_json import (
    HISTOGRAM_DIFF_SCHEMA,
    HISTOGRAM_SHOW_SCHEMA,
    histogram_diff_document,
    histogram_show_document,
)
from latspan.report._histogram_rows import HistogramRow, rows_of
from latspan.report._json import DEMO_SCHEMA, demo_document
from latspan.report._slow import (
    SegmentShare,
    Slowest,
    calls_of,
    median_of,
    sentence,
    slowest_of,
    slowest_tenth,
)

if TYPE_CHECKING:
    from latspan.report._calls import CallsReport
    from latspan.report._felt import FeltTable
    from latspan.report._histogram_tables import HistogramDiffTable, HistogramsTable
    from latspan.report._tables import MetricsTable, SegmentsTable, TokensTable
    from latspan.report._waterfall import Waterfall

__all__ = [
    "DEMO_SCHEMA",
    "HISTOGRAM_DIFF_SCHEMA",
    "HISTOGRAM_SHOW_SCHEMA",
    "CallsReport",
    "FeltTable",
    "HistogramDiffTable",
    "HistogramRow",
    "HistogramsTable",
    "MetricsTable",
    "SegmentShare",
    "SegmentsTable",
    "Slowest",
    "TokensTable",
    "Waterfall",
    "calls_of",
    "demo_document",
    "histogram_diff_document",
    "histogram_show_document",
    "median_of",
    "rows_of",
    "sentence",
    "slowest_of",
    "slowest_tenth",
]

_DRAWN_BY: Final = {
    "CallsReport": "_calls",
    "FeltTable": "_felt",
    "HistogramDiffTable": "_histogram_tables",
    "HistogramsTable": "_histogram_tables",
    "MetricsTable": "_tables",
    "SegmentsTable": "_tables",
    "TokensTable": "_tables",
    "Waterfall": "_waterfall",
}


def __getattr__(name: str) -> object:
    if name not in _DRAWN_BY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        module = importlib.import_module(f"{__name__}.{_DRAWN_BY[name]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "rich":
            raise
        raise MissingExtraError("rich", extra="study") from error
    return getattr(module, name)
