"""
Writer that appends intervals of histograms to a log, each completely or not at all.

The file may be rotated, removed or emptied at any time. So the writer checks before each interval
that its path still refers to the open file, appends the interval with one write, and writes it
again if the file was removed meanwhile. If a write fails, the part already written is cut off. If
that is not possible, the part stays without a closing line, and readers report it as truncated. A
lock allows calls from several threads.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from latspan._base.slices import give_way
from latspan.errors import HistogramFormatError, HistogramWriteError
from latspan.histogram._histogram import Histogram
from latspan.histogram._log_lines import (
    FORMAT,
    OURS_BEGINS,
    LoggedSeries,
    closing_line,
    header_lines,
    series_lines,
)
from latspan.histogram._precision import FULL_PRECISION, Precision

_ALL_FULL: Final[Mapping[str | None, Precision]] = MappingProxyType({})
_HEAD_BYTES: Final = 1024
_TRIES: Final = 3
"""Maximum number of times an interval is written if the file is removed during each write."""


class HistogramLogWriter:
    """
    Writer that appends intervals to a log in a format that every HdrHistogram reads.

    An interval is one write to the end of the file. Once :meth:`write` has returned, the operating
    system has the data: no interval is lost if the process is killed. Intervals may be lost if the
    machine loses power, unless ``fsync`` is on. An existing log is continued.

    If the file is moved or removed, the writer creates a new one under the same name. If the file
    is emptied, the writer writes the header lines again. So log rotation by moving and by
    truncating both work.

    Args:
        path: The file; its folder must exist at every write.
        fsync: Wait for the disk after each interval.

    Raises:
        HistogramFormatError: The file exists and is not a latspan log.
        HistogramWriteError: The file cannot be opened for writing.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: bool = False) -> None:
        self._path = Path(path)
        self._fsync = fsync
        self._lock = threading.Lock()
        self._file = -1
        self._begun, self._on_a_new_line = False, True
        self._is_closed = False
        self._open()

    def write(
        self,
        start_epoch_ns: int,
        end_epoch_ns: int,
        histograms: Mapping[str | None, Histogram] | Mapping[str, Histogram],
        *,
        precisions: Mapping[str | None, Precision] = _ALL_FULL,
    ) -> None:
        """
        Append an interval.

        Args:
            start_epoch_ns: Unix time of its start, in nanoseconds.
            end_epoch_ns: Unix time of its end, in nanoseconds, at least ``start_epoch_ns``.
            histograms: Histograms by tag; ``None`` is the key of a histogram without a tag. A tag
                must not be empty, and must not contain a comma or white space.
            precisions: Precision by tag, for histograms with a lower precision than latspan's own.

        Raises:
            HistogramFormatError: A tag cannot be written, or a count is 2**62 or more.
            HistogramWriteError: The interval could not be written. Earlier intervals are
                unchanged.
        """
        texts: list[bytes] = []
        for tag, histogram in histograms.items():
            series = LoggedSeries(tag, histogram, precisions.get(tag, FULL_PRECISION))
            texts.append(series_lines(start_epoch_ns, end_epoch_ns, series).encode())
            give_way()
        lines = b"".join(texts)
        closing = closing_line(start_epoch_ns, end_epoch_ns, series=len(histograms), lines=lines)
        with self._lock:
            for _ in range(_TRIES):
                self._find_its_place()
                before = "" if self._on_a_new_line else "\n"
                if not self._begun:
                    before += header_lines(start_epoch_ns)
                self._append(before.encode() + lines + closing.encode())
                self._begun = self._on_a_new_line = True
                if not self._was_removed():
                    return
            raise HistogramWriteError(
                f"{self._path} was removed during each of several writes",
                hint="keep the file, or use another path",
            )

    def close(self) -> None:
        """Close the file; closing it again does nothing."""
        with self._lock:
            self._is_closed = True
            self._let_go()

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def _open(self) -> None:
        try:
            self._file = os.open(
                self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666
            )
        except OSError as error:
            raise HistogramWriteError(
                f"cannot write to {self._path}: {error.strerror}",
                hint="use a path in an existing folder that you can write to",
            ) from error
        try:
            self._begun, self._on_a_new_line = self._found()
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _find_its_place(self) -> None:
        """Prepare to append to the file that is at the path now; create it if there is none."""
        if self._is_closed:
            raise HistogramWriteError(f"{self._path} is closed: no interval can be written")
        if self._file < 0 or not self._is_in_place():
            self._let_go()
            self._open()
        elif stat.S_ISREG(os.fstat(self._file).st_mode):
            # Another process may have emptied the file since the last interval.
            self._begun, self._on_a_new_line = self._found()

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return False

    def _was_removed(self) -> bool:
        """Return whether the file was deleted, so that the latest write is lost; a move is not."""
        return os.fstat(self._file).st_nlink == 0 and not self._is_in_place()

    def _append(self, data: bytes) -> None:
        written = 0
        try:
            # One write is enough, unless the disk is full or a signal interrupts it.
            while written < len(data):
                written += os.write(self._file, data[written:])
            if self._fsync:
                os.fsync(self._file)
        except OSError as error:
            self._take_back(written)
            raise HistogramWriteError(
                f"cannot write an interval to {self._path}: {error.strerror}",
                hint="free some space; the earlier intervals are complete",
            ) from error

    def _take_back(self, written: int) -> None:
        """Truncate a partly written interval, unless another process has written after it."""
        if not written:
            return
        self._on_a_new_line = False
        try:
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            if os.fstat(self._file).st_size == end:
                os.ftruncate(self._file, end - written)
                self._on_a_new_line = True
        except OSError:
            # The part then stays without its closing line, and readers report it as truncated.
            pass

    def _found(self) -> tuple[bool, bool]:
        """Return whether the file has its header lines, and whether its last line is complete."""
        state = os.fstat(self._file)
        if not stat.S_ISREG(state.st_mode) or not state.st_size:
            return False, True
        head = os.pread(self._file, _HEAD_BYTES, 0).decode("utf-8", "replace")
        ended = os.pread(self._file, 1, state.st_size - 1) == b"\n"
        if f"\n{OURS_BEGINS}\n" in head:
            return True, ended
        # The process that created the file was killed, or the disk was full, before the header
        # lines were complete.
        if state.st_size < _HEAD_BYTES and _is_a_torn_header(head):
            return False, ended
        raise HistogramFormatError(
            f"{self._path} exists and is not a log of latspan",
            hint="use another path",
        )


def _is_a_torn_header(head: str) -> bool:
    first, *rest = head.split("\n")
    return FORMAT.startswith(first[: len(FORMAT)]) and all(
        line.startswith("#") for line in rest if line
    )
