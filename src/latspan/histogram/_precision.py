"""How finely an HDR histogram tells values apart, which its writer chose, and its buckets then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from latspan.histogram._buckets import HIGHEST_NS

__all__ = ["FULL_PRECISION", "OURS", "Layout", "Precision"]

_DIGITS: Final = 3


class Precision(NamedTuple):
    """
    How well the values of a histogram are known.

    Args:
        significant_digits: In [0, 3]: what was written with more is held with three.
        lowest_discernible: The smallest difference that is told apart, a power of two of at
            least 1, in the unit of the values.
    """

    significant_digits: int = _DIGITS
    lowest_discernible: int = 1

    def __str__(self) -> str:
        """Say it in words."""
        noun = "digit" if self.significant_digits == 1 else "digits"
        apart = "" if self.lowest_discernible == 1 else f" in steps of {self.lowest_discernible:,}"
        return f"{self.significant_digits} significant {noun}{apart}"


FULL_PRECISION: Final = Precision()
"""What latspan records with: three digits, down to single nanoseconds."""


class Layout(NamedTuple):
    """
    The buckets of an HDR histogram of any precision.

    Args:
        significant_digits: In [0, 5].
        lowest: The lowest discernible value, at least 1.
        highest: The highest value that is told apart, at least twice the lowest.

    Source: HdrHistogram, the constructor of ``AbstractHistogram``.
    """

    significant_digits: int
    lowest: int
    highest: int

    @property
    def unit_magnitude(self) -> int:
        """The power of two that the narrowest bucket is wide."""
        return self.lowest.bit_length() - 1

    @property
    def half_magnitude(self) -> int:
        """The power of two that half of the sub-buckets are."""
        return (2 * 10**self.significant_digits - 1).bit_length() - 1

    @property
    def length(self) -> int:
        """How many counters there are."""
        smallest_beyond = 2 << (self.half_magnitude + self.unit_magnitude)
        doublings = max(self.highest.bit_length() - smallest_beyond.bit_length() + 1, 0)
        return (doublings + 2) << self.half_magnitude

    @property
    def precision(self) -> Precision:
        """How well values are known once they are in buckets of latspan's own."""
        return Precision(min(self.significant_digits, _DIGITS), 1 << self.unit_magnitude)

    @property
    def is_ours(self) -> bool:
        """Whether its indices mean what latspan's mean, for values up to 24 hours."""
        return self.unit_magnitude == 0 and self.significant_digits == _DIGITS

    def spans(self, counters: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
        """
        Yield the lowest and the highest value of each counter's bucket, and its count.

        Args:
            counters: Each counter's index and count.
        """
        # In one place, for up to half a million: the methods below would take ten times as long.
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
