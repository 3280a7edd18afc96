"""Reading the files that ``latspan histogram`` is given: progress and torn intervals on stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from latspan.cli._progress import progress
from latspan.cli._say import say
from latspan.errors import ConfigError
from latspan.histogram import HistogramLog, LoggedInterval, LogTotals, read_log

__all__ = ["Logs", "totals_of"]

_PART_BYTES: Final = 1024 * 1024
_LONG_BYTES: Final = 16 * _PART_BYTES


class Logs:
    """
    Files that are read to their ends, one after the other or side by side.

    Args:
        paths: The files.

    Raises:
        ConfigError: One of them cannot be read.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.logs = [read_log(path) for path in paths]
        self._bytes = sum(_size_of(log) for log in self.logs)

    def read(self, intervals: Iterator[LoggedInterval]) -> Iterator[LoggedInterval]:
        """
        Yield the intervals, and say how far reading is, and in the end what was torn.

        Args:
            intervals: Of the logs, in any order.
        """
        with ExitStack() as stack:
            advance = _nothing
            if self._bytes >= _LONG_BYTES:
                advance = stack.enter_context(progress(self._bytes // _PART_BYTES, "MB"))
            told = 0
            for interval in intervals:
                yield interval
                done = sum(log.bytes_read for log in self.logs) // _PART_BYTES
                for _ in range(done - told):
                    advance()
                told = done
        for log in self.logs:
            for torn in log.torn:
                say(f"warning: {log.path}: {torn}")

    def __iter__(self) -> Iterator[LoggedInterval]:
        """Yield the intervals of each file after those of the one before it."""
        return self.read(interval for log in self.logs for interval in log)


def totals_of(paths: Sequence[str]) -> LogTotals:
    """
    Return what the files hold together.

    Raises:
        ConfigError: A file cannot be read.
        HistogramFormatError: A file is damaged, or no log.
        HistogramPrecisionError: A series was written with different precisions.
    """
    totals = LogTotals()
    for interval in Logs(paths):
        totals.add(interval)
    return totals


def _nothing() -> None:
    """Say nothing: the files are short."""


def _size_of(log: HistogramLog) -> int:
    try:
        with log.path.open("rb"):
            return log.path.stat().st_size
    except OSError as error:
        raise ConfigError(
            f"cannot read {log.path}: {error.strerror}", hint="name files that are there"
        ) from error
