"""Groups of HDR buckets, for conversion to the coarser buckets of another format."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

__all__ = ["BucketGroups"]

_BYTE: Final = 255

_AT_ONCE: Final = 4096
"""
Number of hits that are looked up together.

Their groups take 32 kB until they are counted.
"""


class BucketGroups:
    """
    Group of each HDR bucket of positive values.

    Args:
        groups: Group of every bucket, in the order of the buckets: ``array("i")``, or ``bytes`` if
            every group fits into one. The first, of the value 0, is not used. Groups never
            decrease.
    """

    __slots__ = ("_items", "_packed")

    def __init__(self, groups: array[int] | bytes) -> None:
        self._packed = groups
        # An array creates an integer for each look-up, a list and bytes do not.
        self._items: Sequence[int] = groups.tolist() if isinstance(groups, array) else groups

    def __getitem__(self, index: int) -> int:
        """Return the group of the bucket ``index``."""
        return self._items[index]

    def add_hits(self, hits: array[int], counts: Sequence[int], begin: int) -> Sequence[int]:
        """
        Return the counts by group, with one added for each hit.

        Args:
            hits: Bucket of each hit, in any order, as ``array("H")``.
            counts: Counts of the successive groups from ``begin`` on, which cover all hits.
            begin: Group of the first count.

        Returns:
            ``bytes`` if every count fits into one, otherwise an array.
        """
        numpy = loaded_numpy() if len(hits) >= PAYS_FROM else None
        if numpy is not None:
            table: Any = numpy.frombuffer(self._packed, "B" if self._items is self._packed else "i")
            groups = table[numpy.frombuffer(hits, "H")].astype("i")
            found = numpy.bincount(groups - begin, minlength=len(counts))
            if isinstance(counts, bytes):
                counts = numpy.frombuffer(counts, "B")
            found += numpy.asarray(counts, dtype=found.dtype)
            if int(numpy.maximum.reduce(found)) <= _BYTE:
                return found.astype("B").tobytes()
            return array("Q", found.astype("u8").tobytes())
        added = list(counts)
        for first in range(0, len(hits), _AT_ONCE):
            part = hits[first : first + _AT_ONCE]
            # `itemgetter` looks all hits up in one call, which takes a third of the time of one
            # look-up per hit. It returns no tuple for a single one.
            found: Any = itemgetter(*part)(self._items)
            for group in found if len(part) > 1 else (found,):
                added[group - begin] += 1
        return _packed(added)

    def add_counters(
        self, first: int, counters: Sequence[int], counts: Sequence[int], begin: int
    ) -> Sequence[int]:
        """
        Return the counts by group, with the hits of successive buckets added.

        Args:
            first: Bucket of the first counter.
            counters: Number of hits of each bucket.
            counts: Counts of the successive groups from ``begin`` on, which cover all hits.
            begin: Group of the first count.

        Returns:
            ``bytes`` if every count fits into one, otherwise an array.
        """
        groups = self._items[first : first + len(counters)]
        added = list(counts)
        for group, hits in compress(zip(groups, counters, strict=True), counters):
            added[group - begin] += hits
        return _packed(added)


def _packed(counts: list[int]) -> Sequence[int]:
    try:
        return bytes(counts)
    except ValueError:
        return array("Q", counts)
