"""
The lines of an HdrHistogram log, written and read, and what latspan adds to them as comments.

An interval of latspan's is two lines a series, a comment with what the format cannot hold and
the histogram, and one comment that closes it. Without that last line it is torn.

Source: HdrHistogram, ``HistogramLogWriter`` and ``HistogramLogReader``, log format 1.3.
"""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from latspan.errors import HistogramFormatError
from latspan.histogram._codec import decode_buckets, encode
from latspan.histogram._histogram import Histogram
from latspan.histogram._precision import FULL_PRECISION, Precision
from latspan.units import NS_PER_MS, NS_PER_S

__all__ = [
    "FORMAT",
    "OURS_BEGINS",
    "Closing",
    "DataLine",
    "LoggedSeries",
    "closing_line",
    "header_lines",
    "read_closing",
    "read_data_line",
    "read_seconds_ns",
    "read_series",
    "series_lines",
]

FORMAT: Final = "#[Histogram log format version "
"""What the first line of every log begins with."""

OURS_BEGINS: Final = "#[latspan log 1]"
"""The line that says that every interval after it is closed by a line of its own."""

_LEGEND: Final = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
_TAG: Final = "Tag="
_NOT_IN_A_TAG: Final = re.compile(r"[,\s]")
_SECONDS: Final = re.compile(r"\d{1,12}(\.\d{0,12})?")
_EXACT: Final = re.compile(
    r"#\[latspan sum=(?P<sum>\d+)(?: min=(?P<min>\d+) max=(?P<max>\d+))?"
    r" rejected=(?P<rejected>\d+) clamped=(?P<clamped>\d+)"
    r"(?: digits=(?P<digits>[0-3]) lowest=(?P<lowest>\d+))?\]"
)
_CLOSING: Final = re.compile(
    r"#\[latspan interval of (?P<series>\d{1,9}) series,"
    r" (?P<start>\d{1,20}) to (?P<end>\d{1,20}) ns, crc32 (?P<crc>[0-9a-f]{8})\]"
)


class LoggedSeries(NamedTuple):
    """
    One histogram of an interval.

    Args:
        tag: Which series it is; ``None`` where the line has no tag.
        histogram: Its values.
        precision: How well they are known.
    """

    tag: str | None
    histogram: Histogram
    precision: Precision = FULL_PRECISION


class DataLine(NamedTuple):
    """
    The fields of the line that holds a histogram.

    Args:
        tag: ``None`` where the line has none.
        start_ns: As it stands: since the epoch, or since the log's start.
        length_ns: How long the interval is.
        text: The encoded histogram.
    """

    tag: str | None
    start_ns: int
    length_ns: int
    text: str


class Closing(NamedTuple):
    """
    What the line says that closes an interval.

    Args:
        series: How many series the interval has.
        start_epoch_ns: Unix time of its start, in nanoseconds.
        end_epoch_ns: Unix time of its end.
        crc32: Of the bytes of its lines.
    """

    series: int
    start_epoch_ns: int
    end_epoch_ns: int
    crc32: int


def header_lines(start_epoch_ns: int) -> str:
    """Return the lines that a log begins with."""
    start = datetime.fromtimestamp(start_epoch_ns // NS_PER_S, UTC)
    return (
        f"{FORMAT}1.3]\n"
        f"#[StartTime: {_seconds(start_epoch_ns // NS_PER_MS)} (seconds since epoch),"
        f" {start:%a %b %d %H:%M:%S} UTC {start:%Y}]\n"
        f"{OURS_BEGINS}\n"
        f"{_LEGEND}\n"
    )


def series_lines(start_epoch_ns: int, end_epoch_ns: int, series: LoggedSeries) -> str:
    """
    Return the two lines of a series.

    Raises:
        HistogramFormatError: The tag is empty, or has a comma or white space.
    """
    tag, histogram, precision = series
    if tag is not None and (not tag or _NOT_IN_A_TAG.search(tag)):
        raise HistogramFormatError(
            f"'{tag}' cannot be a tag: a tag is not empty, without commas and white space",
            hint="quote it, for example with urllib.parse.quote",
        )
    exact = f"sum={histogram.sum_ns}"
    highest = 0
    if histogram.count:
        highest = histogram.max_ns
        exact += f" min={histogram.min_ns} max={highest}"
    exact += f" rejected={histogram.rejected} clamped={histogram.clamped}"
    if precision != FULL_PRECISION:
        exact += f" digits={precision.significant_digits} lowest={precision.lowest_discernible}"
    start_ms = start_epoch_ns // NS_PER_MS
    length_ms = end_epoch_ns // NS_PER_MS - start_ms
    return (
        f"#[latspan {exact}]\n"
        f"{'' if tag is None else f'{_TAG}{tag},'}{_seconds(start_ms)},{_seconds(length_ms)},"
        f"{highest / NS_PER_MS:.3f},{encode(histogram)}\n"
    )


def closing_line(start_epoch_ns: int, end_epoch_ns: int, *, series: int, lines: bytes) -> str:
    """
    Return the line that closes an interval.

    Args:
        start_epoch_ns: Unix time of its start, in nanoseconds.
        end_epoch_ns: Unix time of its end.
        series: How many series it has.
        lines: Everything of it that stands before.
    """
    return (
        f"#[latspan interval of {series} series, {start_epoch_ns} to {end_epoch_ns} ns,"
        f" crc32 {zlib.crc32(lines):08x}]\n"
    )


def read_closing(line: str) -> Closing | None:
    """Return what the line says that closes an interval, ``None`` where it is none."""
    match = _CLOSING.fullmatch(line)
    if match is None:
        return None
    return Closing(
        int(match["series"]), int(match["start"]), int(match["end"]), int(match["crc"], 16)
    )


def read_data_line(line: str) -> DataLine:
    """
    Return the fields of the line that holds a histogram.

    Raises:
        HistogramFormatError: It is no such line.
    """
    fields = line.split(",")
    tag = fields.pop(0)[len(_TAG) :] if line.startswith(_TAG) else None
    # Some writers end the line with a comma.
    if len(fields) == 5 and not fields[-1]:
        fields.pop()
    if len(fields) != 4:
        raise HistogramFormatError("neither a comment nor an interval")
    start, length, _, text = fields
    return DataLine(tag, read_seconds_ns(start), read_seconds_ns(length), text)


def read_seconds_ns(text: str) -> int:
    """
    Return seconds as they stand in a log, in nanoseconds.

    Raises:
        HistogramFormatError: They are no number of seconds.
    """
    if _SECONDS.fullmatch(text.strip()) is None:
        raise HistogramFormatError(f"'{text[:40]}' is no time in seconds")
    return int(Decimal(text.strip()) * NS_PER_S)


def read_series(comment: str, data: str) -> LoggedSeries:
    """
    Return a series of latspan's.

    Args:
        comment: What the histogram's text does not hold.
        data: The line of the histogram.

    Raises:
        HistogramFormatError: They are no such lines, or contradict each other.
    """
    exact = _EXACT.fullmatch(comment)
    if exact is None:
        raise HistogramFormatError("no sum, smallest and largest value of a histogram")
    known = {name: int(text) for name, text in exact.groupdict().items() if text is not None}
    fields = read_data_line(data)
    decoded = decode_buckets(fields.text)
    if bool(decoded.buckets) != ("max" in known):
        raise HistogramFormatError("an exact value of a histogram that is empty, or none of one")
    histogram = Histogram.from_buckets(
        decoded.buckets,
        sum_ns=known["sum"],
        min_ns=known.get("min"),
        max_ns=known.get("max"),
        rejected=known["rejected"],
        clamped=known["clamped"],
    )
    precision = Precision(known["digits"], known["lowest"]) if "digits" in known else FULL_PRECISION
    return LoggedSeries(fields.tag, histogram, precision)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"
