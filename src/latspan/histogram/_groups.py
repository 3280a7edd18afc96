"""Groups of HDR buckets, for conversion to the coarser buckets of another format."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from itertools import compress, islice
from typing import Any, Final

from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

_BYTE: Final = 255

_MAX_SPAN: Final = 1 << 16
"""Maximum number of groups for which bytes are allocated, whether or not they have hits."""


class BucketGroups:
    """
    Group of each HDR bucket of positive values.

    Args:
        groups: Group of every bucket, in the order of the buckets: ``array("i")``, or ``bytes`` if
            every group fits into one. The first, of the value 0, is not used. Groups never
            decrease.

    The place of a group is its distance from the group of the lowest bucket.
    """

    __slots__ = ("_lowest", "_packed", "_places", "_span")

    def __init__(self, groups: array[int] | bytes) -> None:
        self._packed = groups
        self._lowest = groups[1]
        self._span = groups[-1] - groups[1] + 1
        # An array would create an integer for each look-up. The buckets of a group share an
        # integer, which makes the list small enough for the processor's cache.
        self._places: list[int] = [0]
        place = 0
        for group in islice(groups, 1, None):
            if group - self._lowest != place:
                place = group - self._lowest
            self._places.append(place)

    def __getitem__(self, index: int) -> int:
        """Return the group of the bucket ``index``."""
        return self._packed[index]

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
            table: Any = numpy.frombuffer(
                self._packed, "B" if isinstance(self._packed, bytes) else "i"
            )
            groups = table[numpy.frombuffer(hits, "H")].astype("i")
            found = numpy.bincount(groups - begin, minlength=len(counts))
            if isinstance(counts, bytes):
                counts = numpy.frombuffer(counts, "B")
            found += numpy.asarray(counts, dtype=found.dtype)
            if int(numpy.maximum.reduce(found)) <= _BYTE:
                return found.astype("B").tobytes()
            return array("Q", found.astype("u8").tobytes())
        places, first = self._places, begin - self._lowest
        if isinstance(counts, bytes) and self._span <= _MAX_SPAN:
            # Bytes for all groups take no subtraction per hit, and no conversion at the end.
            held = bytearray(self._span)
            held[first : first + len(counts)] = counts
            with suppress(ValueError):
                for hit in hits:
                    held[places[hit]] += 1
                return bytes(held[first : first + len(counts)])
        added = list(counts)
        for hit in hits:
            added[places[hit] - first] += 1
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
        places = self._places[first : first + len(counters)]
        shift = begin - self._lowest
        added = list(counts)
        for place, hits in compress(zip(places, counters, strict=True), counters):
            added[place - shift] += hits
        return _packed(added)


def _packed(counts: list[int]) -> Sequence[int]:
    try:
        return bytes(counts)
    except ValueError:
        return array("Q", counts)
