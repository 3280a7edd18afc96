"""
Files of complete records, one per process, from which a report of several processes is made.

A file has one JSON object per line and record. A line is written at once and whole, so a process
that is killed loses only the requests that have not ended, and at most its last line is cut off,
which the reader skips. A forked child writes a file of its own.

The format is private: both ends belong to one run of one version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from latspan._fork import register_after_fork
from latspan._metrics import MetricValue
from latspan._recording._record import RequestRecord
from latspan._segments import Kind, Outcome, Segment, Side, Source
from latspan._tokens import TokenCounts, TokenSource

__all__ = ["MOST_RECORDS", "RecordFile", "read_records"]

MOST_RECORDS: Final = 100_000
"""Maximum number of records in one process's file; further ones are not written."""

_SUFFIX: Final = ".records.jsonl"


class RecordFile:
    """
    File of this process's records in a folder; created with the first record.

    Args:
        folder: Folder of all processes' files; it exists.
        limit: Maximum number of records to write.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = MOST_RECORDS) -> None:
        self._folder = Path(folder)
        self._limit = limit
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        self._path = self._folder / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"
        self._left = self._limit

    def append(self, record: RequestRecord) -> None:
        """
        Write a record, unless the limit is reached.

        Raises:
            OSError: The file cannot be written.
        """
        if self._left <= 0:
            return
        self._left -= 1
        line = json.dumps(_plain(record), separators=(",", ":")) + "\n"
        # Opened for each record: nothing is left open or unwritten, however the process ends.
        with self._path.open("ab", buffering=0) as file:
            file.write(line.encode())


def read_records(folder: str | os.PathLike[str]) -> tuple[list[RequestRecord], int, bool]:
    """
    Read the records of all processes.

    Args:
        folder: Folder of the files.

    Returns:
        The records, the number of processes that wrote any, and whether one reached its limit.
    """
    records: list[RequestRecord] = []
    paths = sorted(Path(folder).glob(f"*{_SUFFIX}"))
    is_cut = False
    for path in paths:
        of_process = list(_read(path.read_text("utf-8", "replace").splitlines()))
        is_cut |= len(of_process) >= MOST_RECORDS
        records += of_process
    return records, len(paths), is_cut


def _read(lines: Iterable[str]) -> Iterable[RequestRecord]:
    for line in lines:
        try:
            yield _record(json.loads(line))
        except (ValueError, KeyError, TypeError):
            # The process was killed while it wrote the line.
            continue


def _plain(record: RequestRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "kind": record.kind,
        "side": record.side,
        "outcome": record.outcome,
        "start_epoch_ns": record.start_epoch_ns,
        "duration_ns": record.duration_ns,
        "segments": record.segments,
        "metrics": dict(record.metrics),
        "chunk_gaps": record.chunk_gaps,
        "tokens": record.tokens,
        "attributes": dict(record.attributes),
        "trace_id": record.trace_id,
        "span_id": record.span_id,
        "reports": record.reports,
    }


def _record(data: Mapping[str, Any]) -> RequestRecord:
    reports = data["reports"]
    tokens = list(data["tokens"])
    tokens[TokenCounts._fields.index("source")] = TokenSource(data["tokens"][4])
    return RequestRecord(
        name=data["name"],
        kind=Kind(data["kind"]),
        side=Side(data["side"]),
        outcome=Outcome(data["outcome"]),
        start_epoch_ns=data["start_epoch_ns"],
        duration_ns=data["duration_ns"],
        segments=_segments(data["segments"]),
        metrics={name: _value(value) for name, value in data["metrics"].items()},
        chunk_gaps=tuple(map(_value, data["chunk_gaps"])),
        tokens=TokenCounts(*tokens),
        attributes=data["attributes"],
        trace_id=data["trace_id"],
        span_id=data["span_id"],
        reports=None if reports is None else _segments(reports),
    )


def _segments(rows: Iterable[tuple[str, int, int, str]]) -> tuple[Segment, ...]:
    return tuple(Segment(name, start, end, Source(source)) for name, start, end, source in rows)


def _value(pair: tuple[int, str]) -> MetricValue:
    return MetricValue(pair[0], Source(pair[1]))
