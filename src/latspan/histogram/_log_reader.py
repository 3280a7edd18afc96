"""
Reader of histogram logs, written by latspan or by any other HdrHistogram.

In a log written by latspan, an interval has several lines and counts only if its closing line is
present. The reader collects lines until that line arrives. Lines left over before another closing
line, a new header or the end of the file are reported as truncated. In any other log, each data
line is an interval.

A spreadsheet or a CSV tool puts fields or whole lines in quotes, ends lines with CRLF, and may
begin the file with a byte order mark. Such lines are read as they were before; the checksum of an
interval confirms it. Every line is used, or is a comment, or is reported.
"""

from __future__ import annotations

import codecs
import os
import re
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import getsizeof
from typing import Final, NamedTuple, NoReturn

from latspan._base.nanoseconds import NS_PER_S
from latspan.errors import HistogramFormatError
from latspan.histogram._codec import DecodedBuckets, decode_buckets
from latspan.histogram._limits import (
    DECODED_A_BYTE,
    DECODED_AHEAD,
    MAX_COUNTS_BYTES,
    MAX_LINE_BYTES,
    MAX_OPEN_LINES,
    Held,
)
from latspan.histogram._log_lines import (
    FORMAT,
    LEGEND,
    OURS_BEGINS,
    Closing,
    DataLine,
    LoggedSeries,
    check_span,
    read_closing,
    read_data_line,
    read_seconds_ns,
    read_series,
)

_FUSED: Final = re.compile(rb"(?<!^)(?<!^\")(?=#\[(?:latspan |Histogram log format ))")
_TIME: Final = re.compile(r"#\[(?P<which>Start|Base)Time: *(?P<seconds>[\d.]+)")
_WRONG_TIME: Final = re.compile(r"#\[(?:Start|Base)Time: *[^\s\d]")
_OURS: Final = "#[latspan log "
_FIELD: Final = re.compile(r'"(?P<quoted>[^"]*(?:""[^"]*)*)"|[^",][^,]*|')
_A_YEAR_NS: Final = 365 * 24 * 3600 * NS_PER_S
_NEWER: Final = "install a newer latspan"
_MEND: Final = "use the file as it was written; if it is damaged, remove this line"


@dataclass(frozen=True, slots=True)
class LoggedInterval:
    """
    Contents of a log for one interval of time.

    Args:
        start_epoch_ns: Unix time of the start, in nanoseconds; precise to the millisecond in logs
            that latspan did not write.
        end_epoch_ns: Unix time of the end, in nanoseconds.
        series: The histograms. A log that latspan did not write has one per interval.
    """

    start_epoch_ns: int
    end_epoch_ns: int
    series: tuple[LoggedSeries, ...]


@dataclass(frozen=True, slots=True)
class TruncatedInterval:
    """
    Lines of an interval that the writer did not close; their values are skipped.

    Args:
        first_line: Number of the first line, from 1.
        last_line: Number of the last line, at least ``first_line``.
    """

    first_line: int
    last_line: int

    def __str__(self) -> str:
        """Return a message that names the lines."""
        if self.first_line == self.last_line:
            return f"line {self.first_line:,} belongs to a truncated interval and was skipped"
        return (
            f"lines {self.first_line:,} to {self.last_line:,} are of a truncated interval"
            " and were left out"
        )


class HistogramLog:
    """
    Intervals of a log. Each iteration reads the file again.

    Args:
        path: The file.

    Attributes:
        path: The file.
        truncated: Intervals that the latest iteration skipped; the list is complete once the
            iteration has ended.
        bytes_read: Number of bytes that the latest iteration has read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.truncated: list[TruncatedInterval] = []
        self.bytes_read = 0

    def __iter__(self) -> Iterator[LoggedInterval]:
        """
        Yield the intervals in the file's order.

        Raises:
            HistogramFormatError: A line is damaged, or the file is not a log; the message has the
                number of the line.
            OSError: The file cannot be read.
        """
        self.truncated, self.bytes_read = [], 0
        return _Reading(self).intervals()


def read_log(path: str | os.PathLike[str]) -> HistogramLog:
    """
    Return the intervals of a log.

    Args:
        path: A log written by latspan, or in log format 1.0 to 1.3 with histograms in format V2.
    """
    return HistogramLog(path)


class _Line(NamedTuple):
    number: int
    raw: bytes
    """The bytes of the line, without the line end."""
    ended: bool

    @property
    def text(self) -> str:
        return self.raw.decode("utf-8", "replace")


class _Reading:
    """One pass over a log."""

    def __init__(self, log: HistogramLog) -> None:
        self._log = log
        self._ours = False
        self._start_ns: int | None = None
        self._base_ns: int | None = None
        self._open: list[_Line] = []
        self._decoded_bytes = 0

    def intervals(self) -> Generator[LoggedInterval]:
        for line in self._lines():
            text = line.text
            if text.startswith(FORMAT):
                self._tear(self._open)
                self._open = []
                self._ours, self._start_ns, self._base_ns = False, None, None
            elif text == OURS_BEGINS:
                self._ours = True
            elif text.startswith(_OURS) and text.endswith("]"):
                self._refuse(line, f"the log was written in another form: {text[:40]}", _NEWER)
            elif (time := _TIME.match(text)) is not None:
                self._read_time(line, time["which"], time["seconds"])
            elif _WRONG_TIME.match(text) is not None:
                self._refuse(line, "a damaged start time")
            elif _is_legend(text):
                continue
            elif self._ours:
                yield from self._read_ours(line, text)
            elif text.strip() and not text.startswith("#"):
                yield from self._read_foreign(line, text)
        self._tear(self._open)

    def _read_ours(self, line: _Line, text: str) -> Iterator[LoggedInterval]:
        if text.startswith("#[latspan interval"):
            closing = read_closing(text)
            if closing is not None:
                yield self._close(line, closing)
                return
            if text.endswith("]"):
                self._refuse(line, "a damaged end of an interval")
        elif not _is_of_ours(text):
            return
        self._open.append(line)
        if len(self._open) > MAX_OPEN_LINES:
            self._refuse(line, f"an interval of more than {MAX_OPEN_LINES:,} lines")

    def _close(self, line: _Line, closing: Closing) -> LoggedInterval:
        number = 2 * closing.series
        first = len(self._open) - number
        lines = self._open[first:] if first >= 0 else self._open
        written = b"".join(each.raw + b"\n" for each in lines)
        if first < 0 or zlib.crc32(written) != closing.crc32:
            self._blame(lines)
            self._refuse(line, "the interval that ends here was changed after it was written")
        series: list[LoggedSeries] = []
        held = Held(lambda: (each.histogram for each in series))
        for comment, data in zip(lines[::2], lines[1::2], strict=True):
            try:
                fields, decoded = self._decode(data.text)
                series.append(read_series(comment.text, fields.tag, decoded))
                held.add(getsizeof(series[-1].histogram))
            except HistogramFormatError as error:
                self._refuse(data, error.message, error.hint)
        self._tear(self._open[:first])
        self._open = []
        return self._interval(line, closing.start_epoch_ns, closing.end_epoch_ns, series)

    def _interval(
        self, line: _Line, start_ns: int, end_ns: int, series: Iterable[LoggedSeries]
    ) -> LoggedInterval:
        try:
            check_span(start_ns, end_ns)
        except HistogramFormatError as error:
            self._refuse(line, error.message, error.hint)
        return LoggedInterval(start_ns, end_ns, tuple(series))

    def _decode(self, text: str) -> tuple[DataLine, DecodedBuckets]:
        """
        Return the fields of a line and its histogram.

        Raises:
            HistogramFormatError: The line cannot be read, or the file decodes to more bytes than
                the limit for its size.
        """
        fields = read_data_line(text)
        left = DECODED_AHEAD + DECODED_A_BYTE * self._log.bytes_read - self._decoded_bytes
        decoded = decode_buckets(fields.text, max_bytes=max(min(left, MAX_COUNTS_BYTES), 0))
        self._decoded_bytes += decoded.counts_bytes
        return fields, decoded

    def _blame(self, lines: Iterable[_Line]) -> None:
        """Raise an error that names the first line that cannot be decoded, if there is one."""
        for line in lines:
            if line.text.startswith("#"):
                continue
            try:
                self._decode(line.text)
            except HistogramFormatError as error:
                self._refuse(line, error.message, error.hint)

    def _read_foreign(self, line: _Line, text: str) -> Iterator[LoggedInterval]:
        try:
            fields, decoded = self._decode(text)
        except HistogramFormatError as error:
            if not line.ended and self._start_ns is not None:
                self._tear([line])
                return
            self._refuse(line, error.message, error.hint)
        start_ns = self._placed(fields.start_ns)
        series = LoggedSeries(fields.tag, decoded.histogram(), decoded.precision)
        yield self._interval(line, start_ns, start_ns + fields.length_ns, (series,))

    def _placed(self, logged_ns: int) -> int:
        """
        Return the Unix time of a start time from a log that latspan did not write.

        Source: HdrHistogram, ``HistogramLogReader``: a time more than a year before the log's
        start is relative to the log's start.
        """
        if self._start_ns is None:
            self._start_ns = logged_ns
        if self._base_ns is None:
            relative = logged_ns < self._start_ns - _A_YEAR_NS
            self._base_ns = self._start_ns if relative else 0
        return self._base_ns + logged_ns

    def _read_time(self, line: _Line, which: str, seconds: str) -> None:
        try:
            time_ns = read_seconds_ns(seconds)
        except HistogramFormatError as error:
            self._refuse(line, error.message)
        if which == "Start":
            self._start_ns = time_ns
        else:
            self._base_ns = time_ns

    def _lines(self) -> Generator[_Line]:
        """Yield the lines; text after a truncated line without a line end is a separate line."""
        with self._log.path.open("rb") as file:
            number = 0
            while raw := file.readline(MAX_LINE_BYTES):
                number += 1
                self._log.bytes_read += len(raw)
                ended = raw.endswith(b"\n")
                if not ended and len(raw) == MAX_LINE_BYTES:
                    self._refuse(_Line(number, raw, ended), "the line is longer than 1 MiB")
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                written = raw.removesuffix(b"\n")
                for part in _FUSED.split(written.rstrip(b"\r")):
                    yield self._unquoted(_Line(number, part, ended))

    def _unquoted(self, line: _Line) -> _Line:
        """Return a line as it was before a CSV tool put all of it, or fields of it, in quotes."""
        if b'"' not in line.raw:
            return line
        text = line.text
        if text.startswith("#") or _is_legend(text):
            return line
        fields = _fields_of(text)
        if fields is None:
            # The end of a quote may be missing because the line is not complete.
            if not line.ended:
                return line
            self._refuse(line, "a quote that is not closed, or ends before its field")
        if len(fields) > 1 and not text.startswith('"#') and any("," in each for each in fields):
            self._refuse(line, "a field with a comma in it")
        return line._replace(raw=",".join(fields).encode())

    def _tear(self, lines: Sequence[_Line]) -> None:
        if lines:
            self._log.truncated.append(TruncatedInterval(lines[0].number, lines[-1].number))

    def _refuse(self, line: _Line, message: str, hint: str | None = None) -> NoReturn:
        raise HistogramFormatError(
            f"{self._log.path}, line {line.number:,}: {message}", hint=hint or _MEND
        ) from None


def _is_legend(text: str) -> bool:
    """Return whether a line has the names of the columns, or the beginning of them."""
    # Source: HdrHistogram, ``HistogramLogReader``, which recognises it by the first name.
    return text.startswith(('"StartTimestamp"', "StartTimestamp,")) or (
        text != "" and LEGEND.startswith(text)
    )


def _fields_of(text: str) -> list[str] | None:
    """Return the fields of a line of CSV; ``None`` if its quotes are wrong."""
    # Not the module csv: its limit for the length of a field is one of the whole process.
    fields: list[str] = []
    at = 0
    while True:
        found = _FIELD.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != ","):
            return None
        quoted: str | None = found["quoted"]
        fields.append(found[0] if quoted is None else quoted.replace('""', '"'))
        at = found.end() + 1
        if at > len(text):
            return fields


def _is_of_ours(text: str) -> bool:
    """Return whether the line is part of an interval written by latspan, even if truncated."""
    if not text:
        return False
    comment = "#[latspan "
    return text[0] != "#" or text.startswith(comment) or comment.startswith(text)
