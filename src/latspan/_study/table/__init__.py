"""
Table: the requests of a recording as columns, read once and shared by every conclusion.

The package knows what is known of a value (:mod:`latspan._model.censoring`), weights, phases and
groups, and neither goals nor verdicts.
"""

from __future__ import annotations

from latspan._study.table._columns import MAX_GROUP_VALUES, MEASURED, OUTCOMES, SOURCES
from latspan._study.table._division import MAX_VALUES, Division, divide, wanted_attributes
from latspan._study.table._outermost import OutermostReader
from latspan._study.table._parts import PartsReader
from latspan._study.table._reading import (
    ChunkReader,
    TableReader,
    metric_of,
    read_rows,
    read_table,
    rows_of_records,
    table_of_records,
)
from latspan._study.table._steps import Steps
from latspan._study.table._table import Segments, Table, ValueBounds

__all__ = [
    "MAX_GROUP_VALUES",
    "MAX_VALUES",
    "MEASURED",
    "OUTCOMES",
    "SOURCES",
    "ChunkReader",
    "Division",
    "OutermostReader",
    "PartsReader",
    "Segments",
    "Steps",
    "Table",
    "TableReader",
    "ValueBounds",
    "divide",
    "metric_of",
    "read_rows",
    "read_table",
    "rows_of_records",
    "table_of_records",
    "wanted_attributes",
]
