"""Readers of traces and of other tools' results: each returns the requests as records."""

from __future__ import annotations

from latspan._study.traces._backends import TraceQuery, read_backend
from latspan._study.traces._convert import (
    convert,
    read_any,
    require_parquet,
    write_parquet,
)
from latspan._study.traces._guidellm import is_guidellm, read_guidellm
from latspan._study.traces._http import JsonServer, is_url
from latspan._study.traces._imported import Imported
from latspan._study.traces._otlp import read_otlp

__all__ = [
    "Imported",
    "JsonServer",
    "TraceQuery",
    "convert",
    "is_guidellm",
    "is_url",
    "read_any",
    "read_backend",
    "read_guidellm",
    "read_otlp",
    "require_parquet",
    "write_parquet",
]
