"""Reader of the files of ``latspan histogram``; progress and truncated intervals on stderr."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from errno import EISDIR
from itertools import chain
from pathlib import Path
from typing import Final

from latspan.cli._console import print_message
from latspan.cli._progress import progress
from latspan.errors import ConfigError
from latspan.histogram import HistogramLog, LoggedInterval, LogTotals, read_log

_SUFFIX: Final = ".hlog"
_PART_BYTES: Final = 1024 * 1024
_LONG_BYTES: Final = 16 * _PART_BYTES
_MAX_WARNINGS: Final = 20
"""Maximum number of truncated intervals per file that are listed individually."""


class Logs:
    """
    Log files that are read to their ends, one after the other or in parallel.

    Args:
        paths: Paths of files, and of folders, which stand for the log files in them.

    Raises:
        ConfigError: A file cannot be read, or a folder has no log file.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._logs = [read_log(file) for path in paths for file in _files_of(path)]
        self._bytes = sum(_size_of(log) for log in self._logs)

    def each(self) -> list[Iterator[LoggedInterval]]:
        """Return one iterator of intervals per file."""
        return [_intervals_of(log) for log in self._logs]

    def read(self, intervals: Iterator[LoggedInterval]) -> Iterator[LoggedInterval]:
        """
        Yield the intervals; report the progress of reading, and at the end the truncated intervals.

        Args:
            intervals: Intervals of the logs, in any order.
        """
        with ExitStack() as stack:
            advance = _nothing
            if self._bytes >= _LONG_BYTES:
                advance = stack.enter_context(progress(self._bytes // _PART_BYTES, "MB"))
            shown = 0
            for interval in intervals:
                yield interval
                done = sum(log.bytes_read for log in self._logs) // _PART_BYTES
                for _ in range(done - shown):
                    advance()
                shown = done
        for log in self._logs:
            for truncated in log.truncated[:_MAX_WARNINGS]:
                print_message(f"warning: {log.path}: {truncated}")
            if len(log.truncated) > _MAX_WARNINGS:
                more = len(log.truncated) - _MAX_WARNINGS
                print_message(
                    f"warning: {log.path}: {more:,} more truncated intervals were skipped"
                )

    def __iter__(self) -> Iterator[LoggedInterval]:
        """Yield the intervals of all files, file by file."""
        return self.read(chain.from_iterable(self.each()))


def totals_of(paths: Sequence[str]) -> LogTotals:
    """
    Return the merged contents of the files.

    Raises:
        ConfigError: A file cannot be read.
        HistogramFormatError: A file is damaged, or is not a log.
        HistogramPrecisionError: A series has different precisions.
    """
    totals = LogTotals()
    for interval in Logs(paths):
        totals.add(interval)
    return totals


def _files_of(path: str) -> Sequence[str | Path]:
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    if not files:
        raise ConfigError(
            f"no log file in the folder {path}", hint=f"log files have names like *{_SUFFIX}"
        )
    return files


def _intervals_of(log: HistogramLog) -> Iterator[LoggedInterval]:
    with _readable(log):
        yield from log


def _nothing() -> None:
    """Report no progress, because the files are short."""


def _size_of(log: HistogramLog) -> int:
    """Return the size of a file without opening it: a FIFO's writer would lose its reader."""
    with _readable(log):
        state = log.path.stat()
        if stat.S_ISDIR(state.st_mode):
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        return state.st_size


@contextmanager
def _readable(log: HistogramLog) -> Generator[None]:
    """Raise an error of the system as a :class:`ConfigError` that names the file."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"cannot read {log.path}: {error.strerror}", hint="use the paths of existing files"
        ) from error
