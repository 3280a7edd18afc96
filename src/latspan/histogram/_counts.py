"""
How often each bucket was hit, in as little memory as two plain forms allow.

A hit is a bucket's number in a list, two bytes. A list that has grown long is folded into
counters, one for every bucket from the lowest to the highest, and so is a shorter one at the end,
where counters take no more than it does.

While values come, counters are a Python list, the quickest to add to. At the end they are an array,
as wide as the number of hits demands, so that none can overflow.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from struct import pack
from typing import Any, Final

from latspan.errors import ConfigError
from latspan.histogram._batch import Batch
from latspan.histogram._buckets import HALF_MAGNITUDE, HIGHEST_NS, SUB_BUCKETS, index_of
from latspan.histogram._indices import indices_of, vector_of_indices
from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

__all__ = ["Counts"]

_LONG: Final = 1 << 15
"""Hits after which a list is folded: 64 kB, so that a bucket that is hit often is added to once."""

_HIT_BYTES: Final = 2
_OPEN_BYTES: Final = 40
"""What a counter takes in a list, with the integer that it is."""

_WIDTHS: Final = (("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))
"""Type codes of counters at the end, and from how many hits on a counter may be too small."""

_SHIFTS: Final = HIGHEST_NS.bit_length() - HALF_MAGNITUDE
"""How often the buckets' width doubles, from the first buckets to those of 24 hours, and 1."""

_NO_PLACES: Final[list[int]] = []

_MOST: Final = 1 << 63
"""Hits that can be told in every form and file."""


class Counts:
    """
    Counts of hits by bucket. Not thread-safe.

    Attributes:
        total: How many hits there were.
    """

    __slots__ = ("_begin", "_counters", "_highest", "_hits", "_lowest", "_places", "total")

    def __init__(self) -> None:
        self.total = 0
        self._lowest = 0
        self._highest = -1
        # What is not in the counters yet, of which the first is that of the bucket `_begin`.
        self._hits = array("H")
        self._counters: list[int] | array[int] | None = None
        self._begin = 0
        # While they are open: where they begin for values of each number of bits.
        self._places: list[int] = _NO_PLACES

    def add(self, batch: Batch) -> None:
        """
        Count a batch of values.

        Args:
            batch: Of at least one value.

        Raises:
            ConfigError: There would be 2**63 or more of them; then nothing has changed.
        """
        values: Any = batch.values
        self._reach(index_of(batch.lowest_ns), index_of(batch.highest_ns), len(values))
        numpy = batch.numpy
        if numpy is not None:
            vector = vector_of_indices(numpy, values, batch.lowest_ns)
            self._hits.frombytes(vector.astype(numpy.uint16).tobytes())
        elif isinstance(self._counters, list):
            self._count(values, batch.lowest_ns)
        else:
            indices = indices_of(values, batch.lowest_ns)
            # A third of what `extend` takes, which looks at each number by itself.
            self._hits.frombytes(pack(f"{len(indices)}H", *indices))
        self._fold_if_long()

    def add_buckets(self, buckets: Iterable[tuple[int, int]]) -> None:
        """
        Count hits by the bucket.

        Args:
            buckets: Each bucket once, and its number of hits, at least 1.
        """
        hits_by_index = dict(buckets)
        if not hits_by_index:
            return
        more = sum(hits_by_index.values())
        self._reach(min(hits_by_index), max(hits_by_index), more)
        if more < _LONG and not self._counters_pay(more):
            for index, count in hits_by_index.items():
                self._hits.extend(repeat(index, count))
            return
        counters, begin = self._open(), self._begin
        for index, count in hits_by_index.items():
            counters[index - begin] += count

    def update(self, other: Counts) -> None:
        """Count everything that ``other`` has counted."""
        if not other.total:
            return
        if other._counters is None:
            self._reach(other._lowest, other._highest, other.total)
            self._hits += other._hits
            self._fold_if_long()
        else:
            self.add_buckets(other)

    def compact(self) -> None:
        """Take the form that takes less memory; until more is added, reading changes nothing."""
        if self._hits and (self._counters is not None or self._counters_pay(0)):
            self._fold()
        if isinstance(self._counters, list):
            self._counters = array(self._width(), self._counters)
            self._places = _NO_PLACES

    def copy(self) -> Counts:
        """Return counts that are equal to these and share nothing with them."""
        copied = Counts()
        copied.total = self.total
        copied._lowest, copied._highest, copied._begin = self._lowest, self._highest, self._begin
        copied._hits = self._hits[:]
        copied._counters = None if self._counters is None else self._counters[:]
        copied._places = self._places
        return copied

    def at_ranks(self, ranks: Iterable[int]) -> list[int]:
        """
        Return the buckets of the hits at these ranks.

        Args:
            ranks: Each from 1, the lowest hit, to :attr:`total`, the highest.
        """
        self.compact()
        if self._counters is None:
            ordered = sorted(self._hits)
            return [ordered[rank - 1] for rank in ranks]
        up_to = list(accumulate(self._counters))
        return [self._begin + bisect_left(up_to, rank) for rank in ranks]

    def above(self, index: int) -> int:
        """Return how many hits are above a bucket."""
        return sum(count for held, count in self if held > index)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield each bucket that was hit and how often, lowest first."""
        self.compact()
        if self._counters is None:
            # Numbers are sorted faster than pairs, and a counter keeps their order.
            return iter(Counter(sorted(self._hits)).items())
        return ((index, count) for index, count in enumerate(self._counters, self._begin) if count)

    def __sizeof__(self) -> int:
        """Return how many bytes the hits and the counters take."""
        held = self._hits.itemsize * len(self._hits)
        counters = self._counters
        if counters is not None:
            # Of a list the numbers themselves are most of it.
            each = counters.itemsize if isinstance(counters, array) else _OPEN_BYTES
            held += each * len(counters)
        return held

    def _reach(self, lowest: int, highest: int, more: int) -> None:
        """
        Note hits from one bucket to another.

        Raises:
            ConfigError: There would be 2**63 or more of them.
        """
        if self.total + more >= _MOST:
            raise ConfigError(
                f"a histogram cannot hold {self.total + more} values",
                hint="take fewer files at a time, or look at what wrote such counts",
            )
        if self.total:
            self._lowest = min(self._lowest, lowest)
            self._highest = max(self._highest, highest)
        else:
            self._lowest, self._highest = lowest, highest
        self.total += more

    def _counters_pay(self, more: int) -> bool:
        """Return whether counters take no more than the list of hits, with so many added."""
        room = (self._highest - self._lowest + 1) * array(self._width()).itemsize
        return room <= (len(self._hits) + more) * _HIT_BYTES

    def _count(self, values: Sequence[int], lowest_ns: int) -> None:
        """Add to the counters, which are open, for each of the values."""
        counters, begin = self._open(), self._begin
        if lowest_ns < SUB_BUCKETS:
            for index in indices_of(values, lowest_ns):
                counters[index - begin] += 1
            return
        # `index_of` inlined once more: a list of indices in between costs a third of this.
        whole = HALF_MAGNITUDE + 1
        places = self._places
        for value in values:
            shift = value.bit_length() - whole
            counters[places[shift] + (value >> shift)] += 1

    def _fold_if_long(self) -> None:
        if len(self._hits) >= _LONG and self._counters_pay(0):
            self._fold()

    def _fold(self) -> None:
        """Add to the counters for each of the hits."""
        hits, self._hits = self._hits, array("H")
        counters, begin = self._open(), self._begin
        numpy = loaded_numpy() if len(hits) >= PAYS_FROM else None
        if numpy is None:
            for index in hits:
                counters[index - begin] += 1
        else:
            folded = numpy.bincount(numpy.frombuffer(hits, "H") - begin, minlength=len(counters))
            folded += counters
            self._counters = folded.tolist()

    def _open(self) -> list[int]:
        """Return counters that can be added to, for everything that was hit."""
        counters = self._counters
        if not isinstance(counters, list):
            counters = [] if counters is None else counters.tolist()
        if not counters:
            self._begin, self._places = self._lowest, _NO_PLACES
        elif self._begin > self._lowest:
            counters[:0] = [0] * (self._begin - self._lowest)
            self._begin, self._places = self._lowest, _NO_PLACES
        if not self._places:
            self._places = [(bits << HALF_MAGNITUDE) - self._begin for bits in range(_SHIFTS)]
        counters += [0] * (self._highest - self._begin + 1 - len(counters))
        self._counters = counters
        return counters

    def _width(self) -> str:
        return next(code for code, below in _WIDTHS if self.total < below)
