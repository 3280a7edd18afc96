"""
Counts of hits per bucket, in the smaller of two simple forms.

The first form is a list of hits. A hit is the index of its bucket and takes two bytes. The second
form is a range of counters, one for every bucket from the lowest to the highest. A long list of
hits is folded into counters. At the end, a shorter list is folded too if the counters take no more
memory than the list.

While values are added, the counters are a Python list, the fastest form for adding. At the end they
become an array. Its item size depends on the total number of hits, so that no counter can overflow.
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
from latspan.histogram._buckets import (
    HALF_MAGNITUDE,
    HIGHEST_NS,
    SUB_BUCKETS,
    index_of,
    indices_of,
    vector_of_indices,
)
from latspan.histogram._groups import BucketGroups
from latspan.histogram._numpy import PAYS_FROM, loaded_numpy

_LONG: Final = 1 << 15
"""
Number of hits from which a list is folded into counters.

The list then takes 64 kB. It is long, so that a bucket with many hits is added to only once.
"""

_HIT_BYTES: Final = 2
_OPEN_BYTES: Final = 40
"""Bytes per counter in a Python list, including its integer object."""

_WIDTHS: Final = (("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))
"""Type codes of the counters' array, each with the total of hits from which it may overflow."""

_SHIFTS: Final = HIGHEST_NS.bit_length() - HALF_MAGNITUDE
"""Number of different bucket widths, from the first buckets to those of 24 hours."""

_NO_PLACES: Final[list[int]] = []

_MAX_TOTAL: Final = 1 << 63
"""Limit of the total of hits; every form and file format can represent smaller totals."""


class Counts:
    """
    Counts of hits by bucket. Not thread-safe.

    Attributes:
        total: Number of hits.
    """

    __slots__ = ("_begin", "_counters", "_highest", "_hits", "_lowest", "_places", "total")

    def __init__(self) -> None:
        self.total = 0
        self._lowest = 0
        self._highest = -1
        # The hits that are not in the counters yet. The first counter is that of bucket `_begin`.
        self._hits = array("H")
        self._counters: list[int] | array[int] | None = None
        self._begin = 0
        # While the counters are a list: their offset for values of each number of bits.
        self._places: list[int] = _NO_PLACES

    def add(self, batch: Batch) -> None:
        """
        Count a batch of values.

        Args:
            batch: A batch with at least one value.

        Raises:
            ConfigError: The total would be 2**63 or more; then the counts are unchanged.
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
            # Takes a third of the time of `extend`, which checks each number separately.
            self._hits.frombytes(pack(f"{len(indices)}H", *indices))
        self._fold_if_long()

    def add_buckets(self, buckets: Iterable[tuple[int, int]]) -> None:
        """
        Add numbers of hits by bucket.

        Args:
            buckets: Index and number of hits of each bucket. Each bucket occurs once; numbers of
                hits are at least 1.
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
        """Add all hits of ``other``."""
        if not other.total:
            return
        if other._counters is None:
            self._reach(other._lowest, other._highest, other.total)
            self._hits += other._hits
            self._fold_if_long()
        else:
            self.add_buckets(other)

    def compact(self) -> None:
        """Convert to the smaller form; until more is added, reading changes no state."""
        if self._hits and (self._counters is not None or self._counters_pay(0)):
            self._fold()
        if isinstance(self._counters, list):
            self._counters = array(self._width(), self._counters)
            self._places = _NO_PLACES

    def copy(self) -> Counts:
        """Return equal counts that share no data with this object."""
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
        """Return the number of hits in buckets above ``index``."""
        return sum(count for held, count in self if held > index)

    @property
    def zeros(self) -> int:
        """Number of hits of the bucket of the value 0."""
        if self._lowest > 0 or not self.total:
            return 0
        counters = self._counters
        return self._hits.count(0) + (counters[0] if counters and not self._begin else 0)

    def positive_span(self) -> tuple[int, int] | None:
        """Return the first and the last bucket of positive values with hits, if there are any."""
        if not self._highest > 0:
            return None
        lowest = self._lowest
        return (lowest or next(index for index, _ in self if index)), self._highest

    def grouped(self, groups: BucketGroups, counts: Sequence[int], begin: int) -> Sequence[int]:
        """
        Return the counts by group, with the number of hits of positive values in each group added.

        Args:
            groups: Group of each bucket.
            counts: Counts of the successive groups from ``begin`` on, which cover all of these
                hits.
            begin: Group of the first count.

        Returns:
            ``bytes`` if every count fits into one, otherwise an array.
        """
        self.compact()
        counters = self._counters
        if counters is not None:
            zeros = 0 if self._begin else 1
            return groups.add_counters(self._begin + zeros, counters[zeros:], counts, begin)
        hits = self._hits if self._lowest else array("H", filter(None, self._hits))
        return groups.add_hits(hits, counts, begin)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield index and number of hits of each bucket with hits, lowest first."""
        self.compact()
        if self._counters is None:
            # Sorting numbers is faster than sorting pairs, and `Counter` keeps their order.
            return iter(Counter(sorted(self._hits)).items())
        return ((index, count) for index, count in enumerate(self._counters, self._begin) if count)

    def __sizeof__(self) -> int:
        """Return the size of the hits and the counters in bytes."""
        held = self._hits.itemsize * len(self._hits)
        counters = self._counters
        if counters is not None:
            # In a list, the integer objects take most of the memory.
            each = counters.itemsize if isinstance(counters, array) else _OPEN_BYTES
            held += each * len(counters)
        return held

    def _reach(self, lowest: int, highest: int, more: int) -> None:
        """
        Extend the range of buckets and the total for ``more`` hits.

        Raises:
            ConfigError: The total would be 2**63 or more.
        """
        if self.total + more >= _MAX_TOTAL:
            raise ConfigError(
                f"a histogram cannot hold {self.total + more} values",
                hint="read fewer files at a time, or check the program that wrote such counts",
            )
        if self.total:
            self._lowest = min(self._lowest, lowest)
            self._highest = max(self._highest, highest)
        else:
            self._lowest, self._highest = lowest, highest
        self.total += more

    def _counters_pay(self, more: int) -> bool:
        """Return whether counters take no more memory than the list with ``more`` hits added."""
        counters, hits = self._highest - self._lowest + 1, len(self._hits) + more
        # Mostly there are fewer hits than counters, and a counter takes no less than a hit.
        return counters <= hits and counters * array(self._width()).itemsize <= hits * _HIT_BYTES

    def _count(self, values: Sequence[int], lowest_ns: int) -> None:
        """Increment the counter of each value; the counters must be a list."""
        counters, begin = self._open(), self._begin
        if lowest_ns < SUB_BUCKETS:
            for index in indices_of(values, lowest_ns):
                counters[index - begin] += 1
            return
        # `index_of` is inlined here too: an intermediate list of indices would cost a third of the
        # time of this loop.
        whole = HALF_MAGNITUDE + 1
        places = self._places
        for value in values:
            shift = value.bit_length() - whole
            counters[places[shift] + (value >> shift)] += 1

    def _fold_if_long(self) -> None:
        if len(self._hits) >= _LONG and self._counters_pay(0):
            self._fold()

    def _fold(self) -> None:
        """Move the hits from the list into the counters."""
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
        """Return the counters as a list that covers all buckets with hits."""
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
