"""
How much a file may make its reader do: the bounds on what a log and a histogram in it may hold.

A compressed histogram of a hundred bytes can claim half a million counters, and a short line can
make a histogram that takes 300 kB. So a reader bounds a single histogram, what all histograms of a
file decode to compared with the file's size, and what it holds at one time. All bounds lie far
above what any program records: measured logs decode to less than three times their size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Final

from latspan._units import NS_PER_S
from latspan.errors import HistogramFormatError
from latspan.histogram._histogram import Histogram

__all__ = [
    "DECODED_AHEAD",
    "DECODED_A_BYTE",
    "LAST_EPOCH_NS",
    "LONGEST_LINE",
    "LONGEST_TAG",
    "MOST_COUNTS_BYTES",
    "MOST_HELD_BYTES",
    "MOST_OPEN_LINES",
    "Held",
]

MOST_COUNTS_BYTES: Final = 512 * 1024
"""
Of one histogram's counts, decompressed.

All of latspan's own buckets, each with the longest count, take 341 kB.
"""

DECODED_AHEAD: Final = 2 * 1024 * 1024
"""Bytes of counts that a file may decode to, whatever its size."""

DECODED_A_BYTE: Final = 32
"""How many more it may decode to for each byte of it that was read."""

LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line: the largest histogram that is read takes 0.7 MB as text."""

LONGEST_TAG: Final = 64 * 1024
"""Characters of a tag."""

MOST_OPEN_LINES: Final = 400_000
"""Lines of an interval that is not closed: two a series, and more series than a recorder has."""

MOST_HELD_BYTES: Final = 512 * 1024 * 1024
"""Memory of the histograms of one interval, and of all totals, in their smallest form."""

LAST_EPOCH_NS: Final = 253_402_300_799 * NS_PER_S
"""The last second of the year 9999, which is the last that has a date."""


class Held:
    """
    The memory of histograms that are held at one time.

    Args:
        histograms: Returns all of them.
    """

    def __init__(self, histograms: Callable[[], Iterable[Histogram]]) -> None:
        self._histograms = histograms
        self._bytes = 0

    def add(self, more_bytes: int) -> None:
        """
        Count memory that histograms took.

        Raises:
            HistogramFormatError: All of them take more than half a gigabyte.
        """
        self._bytes += more_bytes
        # While they are added to, they take a multiple of it. To settle each would take as long
        # as adding, so that is done with all, when it matters.
        if self._bytes > 2 * MOST_HELD_BYTES:
            self._bytes = 0
            for histogram in self._histograms():
                histogram.settle()
                self._bytes += getsizeof(histogram)
            if self._bytes > MOST_HELD_BYTES:
                raise HistogramFormatError(
                    "the series together take more memory than half a gigabyte",
                    hint="take fewer files at a time",
                )
