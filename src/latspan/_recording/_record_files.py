"""
Files of complete records, one per process, from which a report of several processes is made.

A file has one JSON object per line and record. A line is written at once and whole, so a process
that is killed loses only the requests that have not ended, and at most its last line is cut off,
which the reader skips. A forked child writes a file of its own.

**What is missing.** The report must state it, so two facts are kept where a full disk cannot hide
them. A file is created with the first request of a process and renamed when the process has written
everything: a file that still has its first name belongs to a process that was killed, or that
replaced itself by exec. Records that cannot be written are counted in one file for all processes,
whose bytes exist before the program starts and are overwritten in place.

The format is private: both ends belong to one run of one version.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from latspan._fork import register_after_fork
from latspan._metrics import MetricValue
from latspan._recording._record import RequestRecord
from latspan._segments import Kind, Outcome, Segment, Side, Source
from latspan._tokens import TokenCounts, TokenSource

__all__ = [
    "MOST_RECORDS",
    "RecordFile",
    "RunRecords",
    "prepare_records_folder",
    "read_records",
]

MOST_RECORDS: Final = 100_000
"""Maximum number of records in one process's file; further ones are not written."""

_SUFFIX: Final = ".records.jsonl"
_ENDED: Final = ".ended"
"""Part of the name of a file to which its process has written everything."""

_LOST: Final = "lost"
_DIGITS: Final = 20


class RunRecords(NamedTuple):
    """
    Records of all processes of a run, and what is missing.

    Args:
        records: Records in the order of their files.
        processes: Number of processes that wrote any.
        is_cut: Whether a process reached the maximum number of records.
        lost: Number of records that could not be written; ``None`` if the folder was deleted.
        unended: Number of programs that recorded requests and did not end in order: killed, ended
            by ``os._exit``, replaced by exec, or still running.
    """

    records: list[RequestRecord]
    processes: int
    is_cut: bool
    lost: int | None
    unended: int


def prepare_records_folder(folder: str | os.PathLike[str]) -> None:
    """
    Prepare an empty folder for the records of a program's processes.

    Raises:
        OSError: The folder cannot be written.
    """
    path = Path(folder) / _LOST
    path.write_bytes(_number(0))
    if os.geteuid() == 0:
        # A server that root starts may run its workers as another user, who cannot create a file
        # here. Such a worker can still count what is missing.
        Path(folder).chmod(0o711)
        path.chmod(0o666)


class RecordFile:
    """
    File of this process's records in a folder.

    Args:
        folder: Folder of all processes' files, prepared by :func:`prepare_records_folder`.
        limit: Maximum number of records to write.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = MOST_RECORDS) -> None:
        self._folder = Path(folder)
        self._limit = limit
        self._reset()
        register_after_fork(self._reset)

    def _reset(self) -> None:
        self._stem = f"{os.getpid()}-{os.urandom(4).hex()}"
        self._path = self._folder / f"{self._stem}{_SUFFIX}"
        self._left = self._limit
        self._has_begun = False
        self._is_broken = False

    def begin(self) -> None:
        """Create the file, as a sign that this process records requests; errors are ignored."""
        self._has_begun = True
        # The first record fails too, and is counted.
        with suppress(OSError):
            os.close(self._open())

    def append(self, record: RequestRecord) -> None:
        """
        Write a record, unless the limit is reached.

        Raises:
            OSError: The file cannot be written. This and all further records of this process are
                counted as lost; only the first one raises.
        """
        if self._left <= 0:
            return
        self._left -= 1
        try:
            if not self._is_broken:
                self._write(json.dumps(_plain(record), separators=(",", ":")) + "\n")
        except OSError:
            self._is_broken = True
            raise
        finally:
            if self._is_broken:
                self._count_lost()

    def end(self) -> None:
        """Mark the file as complete; errors are ignored."""
        if self._has_begun:
            path = self._folder / f"{self._stem}{_ENDED}{_SUFFIX}"
            with suppress(OSError):
                self._path.rename(path)
                self._path = path

    def _write(self, line: str) -> None:
        # Opened for each record: nothing is left open or unwritten, however the process ends.
        file = self._open()
        try:
            data = line.encode()
            # On a full disk, a part of the line may be written without an error.
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        finally:
            os.close(file)

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _count_lost(self) -> None:
        with suppress(OSError, ValueError):
            file = os.open(self._folder / _LOST, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                os.pwrite(file, _number(int(os.pread(file, _DIGITS, 0)) + 1), 0)
            finally:
                os.close(file)


def _number(lost: int) -> bytes:
    return f"{lost:0{_DIGITS}}".encode()


def read_records(folder: str | os.PathLike[str]) -> RunRecords:
    """
    Read the records of all processes.

    Args:
        folder: Folder of the files.
    """
    records: list[RequestRecord] = []
    processes: set[str] = set()
    begun: set[str] = set()
    ended: set[str] = set()
    is_cut = False
    for path in sorted(Path(folder).glob(f"*{_SUFFIX}")):
        stem = path.name.removesuffix(_SUFFIX)
        (ended if stem.endswith(_ENDED) else begun).add(stem.removesuffix(_ENDED))
        of_process = list(_read(path.read_text("utf-8", "replace").splitlines()))
        is_cut |= len(of_process) >= MOST_RECORDS
        if of_process:
            # A process has several files if it is configured again, or replaces itself by exec.
            processes.add(stem.partition("-")[0])
        records += of_process
    # A record that comes after the end is written under the first name again.
    return RunRecords(records, len(processes), is_cut, _lost(folder), len(begun - ended))


def _lost(folder: str | os.PathLike[str]) -> int | None:
    try:
        return int((Path(folder) / _LOST).read_bytes())
    except (OSError, ValueError):
        return None


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
