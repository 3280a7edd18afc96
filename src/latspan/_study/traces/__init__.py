"""Readers of traces and of other tools' results: each returns the requests as records."""

from __future__ import annotations

from latspan._study.traces._convert import (
    convert,
    read_any,
    require_parquet,
    write_parquet,
)
from latspan._study.traces._guidellm import is_guidellm, read_guidellm
from latspan._study.traces._imported import Imported
from latspan._study.traces._otlp import read_otlp

__all__ = [
    "Imported",
    "convert",
    "is_guidellm",
    "read_any",
    "read_guidellm",
    "read_otlp",
    "require_parquet",
    "write_parquet",
]
