"""
How often each bucket was hit, in as little memory as two plain forms allow.

A few hits are a list of buckets, two bytes each. Once a counter for every bucket from the lowest
to the highest takes no more than that list, counters replace it. They are as wide as the number
of hits demands, so none can overflow.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate, repeat
from struct import pack
from typing import Any, Final

from latspan.histogram._batch import Batch
from latspan.histogram._buckets import HALF_MAGNITUDE, SUB_BUCKETS, index_of
from latspan.histogram._indices import indices_of, vector_of_indices
from latspan.histogram._numpy import loaded_numpy

__all__ = ["Counts"]

_HIT_BYTES: Final = 2
_WIDTHS: Final = (("I", 1 << 32), ("Q", 1 << 64))
"""
Type codes of counters, and from how many hits on a counter may be too small.

Not two bytes: adding one to such a counter takes half as long again.
"""

_LOOPED: Final = frozenset({list, tuple, array})
"""What a batch's values are where they are not numpy's."""


class Counts:
    """
    Counts of hits by bucket. Not thread-safe.

    Attributes:
        total: How many hits there were.
    """

    __slots__ = ("_counters", "_highest", "_hits", "_lowest", "total")

    def __init__(self) -> None:
        self.total = 0
        self._lowest = 0
        self._highest = -1
        # Hits are in use until counters take no more room, and counters from then on.
        self._hits = array("H")
        self._counters: array[int] | None = None

    def add(self, batch: Batch) -> None:
        """
        Count a batch of values.

        Args:
            batch: Of at least one value.
        """
        values: Any = batch.values
        lowest_ns = batch.lowest_ns
        self._reach(index_of(lowest_ns), index_of(batch.highest_ns), len(values))
        counters = self._counters
        # A batch is numpy's only where that is loaded.
        numpy = None if type(values) in _LOOPED else loaded_numpy()
        if numpy is not None:
            indices = vector_of_indices(numpy, values, lowest_ns)
            if counters is None:
                self._hits.frombytes(indices.astype(numpy.uint16).tobytes())
            else:
                more = numpy.bincount(indices - self._lowest)
                held = numpy.frombuffer(counters, counters.typecode)[: len(more)]
                numpy.add(held, more, out=held, casting="unsafe")
        elif counters is None:
            indices = indices_of(values, lowest_ns)
            # A third of what `extend` takes, which looks at each number by itself.
            self._hits.frombytes(pack(f"{len(indices)}H", *indices))
        elif lowest_ns < SUB_BUCKETS:
            begin = self._lowest
            for index in indices_of(values, lowest_ns):
                counters[index - begin] += 1
        else:
            # `index_of` inlined once more: a list of indices in between costs a third of this.
            begin = self._lowest
            for value in values:
                shift = value.bit_length() - HALF_MAGNITUDE - 1
                counters[(shift << HALF_MAGNITUDE) + (value >> shift) - begin] += 1

    def add_buckets(self, buckets: Iterable[tuple[int, int]]) -> None:
        """
        Count hits by the bucket.

        Args:
            buckets: Each bucket once, and its number of hits, at least 1.
        """
        hits_by_index = dict(buckets)
        if not hits_by_index:
            return
        self._reach(min(hits_by_index), max(hits_by_index), sum(hits_by_index.values()))
        if self._counters is None:
            for index, count in hits_by_index.items():
                self._hits.extend(repeat(index, count))
            return
        begin = self._lowest
        for index, count in hits_by_index.items():
            self._counters[index - begin] += count

    def update(self, other: Counts) -> None:
        """Count everything that ``other`` has counted."""
        if other._counters is not None:
            self.add_buckets(other)
        elif other.total:
            self._reach(other._lowest, other._highest, other.total)
            if self._counters is None:
                self._hits += other._hits
            else:
                begin = self._lowest
                for index in other._hits:
                    self._counters[index - begin] += 1

    def copy(self) -> Counts:
        """Return counts that are equal to these and share nothing with them."""
        copied = Counts()
        copied.total = self.total
        copied._lowest, copied._highest = self._lowest, self._highest
        copied._hits = self._hits[:]
        copied._counters = None if self._counters is None else self._counters[:]
        return copied

    def at_ranks(self, ranks: Iterable[int]) -> list[int]:
        """
        Return the buckets of the hits at these ranks.

        Args:
            ranks: Each from 1, the lowest hit, to :attr:`total`, the highest.
        """
        if self._counters is None:
            ordered = sorted(self._hits)
            return [ordered[rank - 1] for rank in ranks]
        up_to = list(accumulate(self._counters))
        return [self._lowest + bisect_left(up_to, rank) for rank in ranks]

    def above(self, index: int) -> int:
        """Return how many hits are above a bucket."""
        if self._counters is None:
            return sum(hit > index for hit in self._hits)
        return sum(self._counters[max(index + 1 - self._lowest, 0) :])

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each bucket that was hit and how often, lowest first."""
        if self._counters is None:
            # Numbers are sorted faster than pairs, and a counter keeps their order.
            return iter(Counter(sorted(self._hits)).items())
        return ((index, count) for index, count in enumerate(self._counters, self._lowest) if count)

    def _reach(self, lowest: int, highest: int, more: int) -> None:
        """Make room for hits from one bucket to another, in the form that suits then."""
        before = (self._lowest, self._highest)
        if self.total:
            lowest, highest = min(lowest, self._lowest), max(highest, self._highest)
        self.total += more
        self._lowest, self._highest = lowest, highest
        room = highest - lowest + 1
        if self._counters is None:
            width = self._width()
            if self.total * _HIT_BYTES < room * array(width).itemsize:
                return
            self._counters = _zeros(width, room)
            for index, count in Counter(self._hits).items():
                self._counters[index - lowest] = count
            self._hits = array("H")
            return
        if self._counters.typecode != self._width():
            self._counters = array(self._width(), self._counters)
        if (lowest, highest) != before:
            kind = self._counters.typecode
            below = _zeros(kind, before[0] - lowest)
            self._counters = below + self._counters + _zeros(kind, highest - before[1])

    def _width(self) -> str:
        return next(code for code, below in _WIDTHS if self.total < below)


def _zeros(kind: str, length: int) -> array[int]:
    return array(kind, [0]) * length
