"""Precision of an HDR histogram, chosen by its writer, and the bucket layout that follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from latspan.histogram._buckets import HIGHEST_NS

_DIGITS: Final = 3


class Precision(NamedTuple):
    """
    Precision of the values of a histogram.

    Args:
        significant_digits: In [0, 3]; values written with more digits are stored with three.
        lowest_discernible: The smallest difference between values that the histogram distinguishes:
            a power of two, at least 1, in the unit of the values.
    """

    significant_digits: int = _DIGITS
    lowest_discernible: int = 1

    def __str__(self) -> str:
        """Return a description in words."""
        noun = "digit" if self.significant_digits == 1 else "digits"
        apart = "" if self.lowest_discernible == 1 else f" in steps of {self.lowest_discernible:,}"
        return f"{self.significant_digits} significant {noun}{apart}"


FULL_PRECISION: Final = Precision()
"""Precision with which latspan records: three digits, down to single nanoseconds."""


class Layout(NamedTuple):
    """
    Bucket layout of an HDR histogram of any precision.

    Args:
        significant_digits: In [0, 5].
        lowest: The lowest discernible value, at least 1.
        highest: The highest trackable value, at least twice the lowest.

    Source: HdrHistogram, the constructor of ``AbstractHistogram``.
    """

    significant_digits: int
    lowest: int
    highest: int

    @property
    def unit_magnitude(self) -> int:
        """Base-2 logarithm of the width of the narrowest bucket."""
        return self.lowest.bit_length() - 1

    @property
    def half_magnitude(self) -> int:
        """Base-2 logarithm of half the number of sub-buckets."""
        return (2 * 10**self.significant_digits - 1).bit_length() - 1

    @property
    def length(self) -> int:
        """Number of counters."""
        smallest_beyond = 2 << (self.half_magnitude + self.unit_magnitude)
        doublings = max(self.highest.bit_length() - smallest_beyond.bit_length() + 1, 0)
        return (doublings + 2) << self.half_magnitude

    @property
    def precision(self) -> Precision:
        """Precision of the values after conversion to latspan's own buckets."""
        return Precision(min(self.significant_digits, _DIGITS), 1 << self.unit_magnitude)

    @property
    def is_ours(self) -> bool:
        """``True`` if the indices equal latspan's own for values up to 24 hours."""
        return self.unit_magnitude == 0 and self.significant_digits == _DIGITS

    def spans(self, counters: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """
        Yield the lowest and the highest value of each counter's bucket, and its count.

        Args:
            counters: Each counter's index and count.
        """
        # The methods below are inlined, because calling them for up to half a million counters
        # would take ten times as long.
        half, unit = self.half_magnitude, self.unit_magnitude
        for index, count in counters:
            doublings = (index >> half) - 1
            if doublings < 0:
                doublings = 0
            lowest = (index - (doublings << half)) << (doublings + unit)
            yield lowest, lowest + (1 << (doublings + unit)) - 1, count

    def lowest_value_of(self, index: int) -> int:
        """Return the lowest value that falls into the counter's bucket."""
        return self.highest_value_of(index - 1) + 1 if index else 0

    def highest_value_of(self, index: int) -> int:
        """Return the highest value that falls into the counter's bucket."""
        shift = max((index >> self.half_magnitude) - 1, 0)
        sub_bucket = index - (shift << self.half_magnitude)
        return ((sub_bucket + 1) << (shift + self.unit_magnitude)) - 1


OURS: Final = Layout(_DIGITS, 1, HIGHEST_NS)
"""The buckets of :class:`~latspan.histogram.Histogram`."""
