"""
Lines of an HdrHistogram log, written and read, with the comments that latspan adds to them.

An interval written by latspan has two lines per series: a comment with the values that the format
cannot represent, and the histogram. One more comment closes the interval. Without that closing line
the interval is truncated.

Source: HdrHistogram, ``HistogramLogWriter`` and ``HistogramLogReader``, log format 1.3.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from operator import mul
from typing import Final, NamedTuple

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan.errors import HistogramFormatError
from latspan.histogram._buckets import (
    HALF_MAGNITUDE,
    HIGHEST_NS,
    highest_value_of,
    index_of,
    lowest_value_of,
    lowest_values,
)
from latspan.histogram._codec import DecodedBuckets, encode
from latspan.histogram._histogram import Histogram
from latspan.histogram._limits import LAST_EPOCH_NS, MAX_TAG_LENGTH
from latspan.histogram._precision import FULL_PRECISION, Precision

FORMAT: Final = "#[Histogram log format version "
"""Start of the first line of every log."""

OURS_BEGINS: Final = "#[latspan log 1]"
"""Line after which every interval ends with a closing line."""

LEGEND: Final = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
"""Names of the columns, the only line in quotes that a log has."""

_TAG: Final = "Tag="
_NOT_IN_A_TAG: Final = re.compile(r"[,\s]")
_SECONDS: Final = re.compile(r"\d{1,12}(\.\d{0,12})?", re.ASCII)
# The number of digits is limited to what 2**63 values of 24 hours can sum up to, because `int()`
# raises an error for thousands of digits.
_EXACT: Final = re.compile(
    r"#\[latspan sum=(?P<sum>\d{1,36})(?: min=(?P<min>\d{1,20}) max=(?P<max>\d{1,20}))?"
    r" rejected=(?P<rejected>\d{1,20}) clamped=(?P<clamped>\d{1,20})"
    r"(?: digits=(?P<digits>[0-3]) lowest=(?P<lowest>\d{1,20}))?\]",
    re.ASCII,
)
_CLOSING: Final = re.compile(
    r"#\[latspan interval of (?P<series>\d{1,9}) series,"
    r" (?P<start>\d{1,20}) to (?P<end>\d{1,20}) ns, crc32 (?P<crc>[0-9a-f]{8})\]",
    re.ASCII,
)


class LoggedSeries(NamedTuple):
    """
    Histogram of one series in an interval of a log.

    Args:
        tag: Name of the series; ``None`` if the line has no tag.
        histogram: The values of the series.
        precision: Precision of the values.
    """

    tag: str | None
    histogram: Histogram
    precision: Precision = FULL_PRECISION


class DataLine(NamedTuple):
    """
    Fields of a line that contains a histogram.

    Args:
        tag: ``None`` if the line has no tag.
        start_ns: Start in nanoseconds as written: since the epoch, or since the log's start.
        length_ns: Length of the interval in nanoseconds.
        text: The encoded histogram.
    """

    tag: str | None
    start_ns: int
    length_ns: int
    text: str


class Closing(NamedTuple):
    """
    Fields of the line that closes an interval.

    Args:
        series: Number of series in the interval.
        start_epoch_ns: Unix time of the interval's start, in nanoseconds.
        end_epoch_ns: Unix time of the interval's end, in nanoseconds.
        crc32: CRC-32 of the bytes of the interval's lines.
    """

    series: int
    start_epoch_ns: int
    end_epoch_ns: int
    crc32: int


def header_lines(start_epoch_ns: int) -> str:
    """Return the header lines of a log."""
    start = datetime.fromtimestamp(start_epoch_ns // NS_PER_S, UTC)
    return (
        f"{FORMAT}1.3]\n"
        f"#[StartTime: {_seconds(start_epoch_ns // NS_PER_MS)} (seconds since epoch),"
        f" {start:%a %b %d %H:%M:%S} UTC {start:%Y}]\n"
        f"{OURS_BEGINS}\n"
        f"{LEGEND}\n"
    )


def series_lines(start_epoch_ns: int, end_epoch_ns: int, series: LoggedSeries) -> str:
    """
    Return the two lines of a series.

    Raises:
        HistogramFormatError: The tag is empty, or contains a comma or white space.
    """
    tag, histogram, precision = series
    if tag is not None and (not tag or _NOT_IN_A_TAG.search(tag)):
        raise HistogramFormatError(
            f"'{tag}' is not a tag: a tag is not empty and has no comma or white space",
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
        start_epoch_ns: Unix time of the interval's start, in nanoseconds.
        end_epoch_ns: Unix time of the interval's end, in nanoseconds.
        series: Number of series in the interval.
        lines: All earlier lines of the interval.
    """
    return (
        f"#[latspan interval of {series} series, {start_epoch_ns} to {end_epoch_ns} ns,"
        f" crc32 {zlib.crc32(lines):08x}]\n"
    )


def read_closing(line: str) -> Closing | None:
    """Return the fields of a closing line, ``None`` if ``line`` is not a closing line."""
    match = _CLOSING.fullmatch(line)
    if match is None:
        return None
    return Closing(
        int(match["series"]), int(match["start"]), int(match["end"]), int(match["crc"], 16)
    )


def read_data_line(line: str) -> DataLine:
    """
    Return the fields of a line that contains a histogram.

    Raises:
        HistogramFormatError: The line does not have that form, or its tag is too long.
    """
    fields = line.split(",")
    tag = fields.pop(0)[len(_TAG) :] if line.startswith(_TAG) else None
    if tag is not None and len(tag) > MAX_TAG_LENGTH:
        raise HistogramFormatError(f"a tag of more than {MAX_TAG_LENGTH:,} characters")
    # Some writers end the line with a comma.
    if len(fields) == 5 and not fields[-1]:
        fields.pop()
    if len(fields) != 4:
        raise HistogramFormatError("neither a comment nor an interval")
    start, length, _, text = fields
    return DataLine(tag, read_seconds_ns(start), read_seconds_ns(length), text)


def read_seconds_ns(text: str) -> int:
    """
    Parse seconds as written in a log and return nanoseconds.

    Raises:
        HistogramFormatError: The text is not a number of seconds.
    """
    if _SECONDS.fullmatch(text.strip()) is None:
        raise HistogramFormatError(f"'{text[:40]}' is not a time in seconds")
    return int(Decimal(text.strip()) * NS_PER_S)


def check_span(start_epoch_ns: int, end_epoch_ns: int) -> None:
    """
    Check that the start and end of an interval are possible.

    Raises:
        HistogramFormatError: The start is negative, or the interval ends before it starts, or
            after the year 9999.
    """
    if not 0 <= start_epoch_ns <= end_epoch_ns:
        raise HistogramFormatError("an interval that ends before it starts")
    if end_epoch_ns > LAST_EPOCH_NS:
        raise HistogramFormatError("an interval after the year 9999")


def read_series(comment: str, tag: str | None, decoded: DecodedBuckets) -> LoggedSeries:
    """
    Return a series from a log written by latspan.

    Args:
        comment: The comment line with the values that the histogram's text does not contain.
        tag: Name of the series.
        decoded: The decoded text of the histogram.

    Raises:
        HistogramFormatError: The comment does not have the form for a series, or comment and
            histogram contradict each other.
    """
    exact = _EXACT.fullmatch(comment)
    if exact is None:
        raise HistogramFormatError("a histogram without its sum, smallest and largest value")
    known = {name: int(text) for name, text in exact.groupdict().items() if text is not None}
    precision = Precision(known["digits"], known["lowest"]) if "digits" in known else FULL_PRECISION
    wrong = _contradiction(known, precision, decoded)
    if wrong is not None:
        raise HistogramFormatError(wrong)
    histogram = Histogram.from_buckets(
        decoded.buckets,
        sum_ns=known["sum"],
        min_ns=known.get("min"),
        max_ns=known.get("max"),
        rejected=known["rejected"],
        clamped=known["clamped"],
    )
    return LoggedSeries(tag, histogram, precision)


def _contradiction(
    known: Mapping[str, int], precision: Precision, decoded: DecodedBuckets
) -> str | None:
    """Return a description of an exact value that contradicts the buckets, ``None`` if none."""
    buckets = decoded.buckets
    if bool(buckets) != ("max" in known):
        return "an empty histogram with exact values, or another one without"
    step = precision.lowest_discernible
    if decoded.precision != FULL_PRECISION or decoded.clamped or step & (step - 1) or not step:
        return "a precision that latspan does not write"
    if not buckets:
        return (
            "a sum or clamped values of a histogram that is empty"
            if (known["sum"] or known["clamped"])
            else None
        )
    first, last = buckets[0][0], buckets[-1]
    if known["clamped"] > (last[1] if last[0] == index_of(HIGHEST_NS) else 0):
        return "more clamped values than there are of 24 hours"
    # A value of lower precision is stored as the highest value of its bucket. So the exact sum and
    # the smallest value may be below what the bucket indicates.
    exactly = precision == FULL_PRECISION
    least = known["min"] if not exactly else lowest_value_of(first)
    if not least <= known["min"] <= min(highest_value_of(first), known["max"]):
        return "a smallest value that is in another bucket"
    if index_of(known["max"]) != last[0] or known["max"] > HIGHEST_NS:
        return "a largest value that is in another bucket"
    indices, counts = zip(*buckets, strict=True)
    values = lowest_values()
    lowest = sum(map(mul, map(values.__getitem__, indices), counts))
    # The width of a bucket is at most 1/1024 of its lowest value.
    if not (lowest if exactly else 0) <= known["sum"] <= lowest + (lowest >> HALF_MAGNITUDE):
        return "a sum that the buckets cannot have"
    return None


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"
