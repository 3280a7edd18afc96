"""A series: a histogram, and everything that its values have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from latspan.histogram import Histogram
from latspan.segments import Kind

__all__ = ["SEGMENT", "SeriesKey", "merge_series"]

SEGMENT: Final = "segment"
"""The metric of every segment's series; the attribute of the same name says which segment."""


@dataclass(frozen=True, slots=True)
class SeriesKey:
    """
    What the values of one histogram have in common.

    Args:
        metric: A metric's name, or ``segment``.
        kind: What the values were measured on.
        attributes: Names and values, sorted by name, so that equal series have equal keys.
    """

    metric: str
    kind: Kind
    attributes: tuple[tuple[str, str], ...]

    def attribute(self, name: str) -> str | None:
        """Return the attribute's value, ``None`` where the series has no such attribute."""
        return next((value for known, value in self.attributes if known == name), None)

    def has(self, attributes: Mapping[str, str]) -> bool:
        """Return whether the series has every one of the attributes, with the same value."""
        return all(self.attribute(name) == value for name, value in attributes.items())


def merge_series(
    target: dict[SeriesKey, Histogram], series: Mapping[SeriesKey, Histogram]
) -> dict[SeriesKey, Histogram]:
    """Add ``series`` to ``target``, sharing no histogram between the two, and return it."""
    for key, histogram in series.items():
        if key in target:
            target[key].merge(histogram)
        else:
            target[key] = histogram.copy()
    return target
