"""
Limits on the resources that reading a log, or a histogram in it, may take.

A compressed histogram of a hundred bytes can claim half a million counters, and a short line can
decode to a histogram of 300 kB. So the reader limits the size of a single histogram, the decoded
size of all histograms relative to the size of the file, and the memory that it holds at one time.
All limits are far above what any program records: measured logs decode to less than three times
their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Final

from latspan._base.nanoseconds import NS_PER_S
from latspan.errors import HistogramFormatError
from latspan.histogram._histogram import Histogram

MAX_COUNTS_BYTES: Final = 512 * 1024
"""
Maximum decompressed size of one histogram's counts, in bytes.

All of latspan's own buckets, each with a count of maximum length, take 341 kB.
"""

DECODED_AHEAD: Final = 2 * 1024 * 1024
"""
Maximum number of bytes of counts that a file may decode to, in addition to the limit per byte read.
"""

DECODED_A_BYTE: Final = 32
"""Number of further bytes of counts that a file may decode to per byte that was read."""

MAX_LINE_BYTES: Final = 1024 * 1024
"""Maximum length of a line in bytes: the largest readable histogram takes 0.7 MB as text."""

MAX_TAG_LENGTH: Final = 64 * 1024
"""Maximum length of a tag in characters."""

MAX_OPEN_LINES: Final = 400_000
"""
Maximum number of lines in an interval that is not closed yet.

A series takes two lines. The limit allows more series than a recorder has.
"""

MAX_HELD_BYTES: Final = 512 * 1024 * 1024
"""
Maximum memory in bytes for the histograms of one interval, and for those of all totals.

It applies to histograms in their most compact form.
"""

LAST_EPOCH_NS: Final = 253_402_300_799 * NS_PER_S
"""The last second of the year 9999, the last year that ``datetime`` supports."""


class Held:
    """
    Accounting of the memory of histograms that are held at one time.

    Args:
        histograms: Returns all histograms that are held.
    """

    def __init__(self, histograms: Callable[[], Iterable[Histogram]]) -> None:
        self._histograms = histograms
        self._bytes = 0

    def add(self, more_bytes: int) -> None:
        """
        Add memory that histograms take.

        Raises:
            HistogramFormatError: The histograms together take more than half a gigabyte.
        """
        self._bytes += more_bytes
        # Histograms that values are being added to take a multiple of their compact size.
        # Compacting one after each addition would take as long as the addition, so all are
        # compacted together, and only when the sum is far above the limit.
        if self._bytes > 2 * MAX_HELD_BYTES:
            self._bytes = 0
            for histogram in self._histograms():
                histogram.compact()
                self._bytes += getsizeof(histogram)
            if self._bytes > MAX_HELD_BYTES:
                raise HistogramFormatError(
                    "the series together take more memory than half a gigabyte",
                    hint="read fewer files at a time",
                )
