"""
The counts of an HDR histogram as bytes: ZigZag LEB128, a negative number for a run of zeros.

Source: HdrHistogram, ``ZigZagEncoding`` and ``AbstractHistogram.fillBufferFromCountsArray``.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from importlib import import_module
from operator import itemgetter
from typing import Final, Protocol, cast

from latspan.errors import HistogramFormatError
from latspan.histogram._precision import OURS

__all__ = ["pack", "unpack"]

_MOST_BYTES: Final = 9
_WORD_BYTES: Final = 8
_HIGHEST_COUNT: Final = (1 << 62) - 1
"""The package's own decoder loses the top bit of what is above."""

_HIGHEST_TOTAL: Final = (1 << 63) - 1
"""More values than that no histogram holds."""


class _Encode(Protocol):
    def __call__(
        self, counts: int, length: int, word_bytes: int, target: int, target_bytes: int, /
    ) -> int: ...


class _Scratch(threading.local):
    """
    A dense array of counters, all 0 between two uses, and room for what it is encoded to.

    One a thread, so that no lock is held across a fork. 0.9 MB.
    """

    def __init__(self) -> None:
        # Loaded late: whoever writes no file needs none of it.
        self.encode = cast("_Encode", import_module("pyhdrh").encode)
        self.counts = array("Q", bytes(_WORD_BYTES * OURS.length))
        self.zeros = memoryview(self.counts[:])
        self.target = array("B", bytes(_MOST_BYTES * OURS.length))


_scratch: _Scratch | None = None


def pack(buckets: Sequence[tuple[int, int]]) -> bytes:
    """
    Return the counters of a histogram in latspan's own buckets, up to the last that counts.

    Args:
        buckets: Each occupied bucket's index and count, lowest first.

    Raises:
        HistogramFormatError: A count is 2**62 or more, which the format cannot hold.
    """
    global _scratch
    if not buckets:
        return b""
    highest = max(buckets, key=itemgetter(1))[1]
    if highest > _HIGHEST_COUNT:
        raise HistogramFormatError(
            f"a bucket counts {highest:,} values, and a file can hold {_HIGHEST_COUNT:,}"
        )
    if _scratch is None:
        _scratch = _Scratch()
    counts, target = _scratch.counts, _scratch.target
    first, end = buckets[0][0], buckets[-1][0] + 1
    try:
        for index, count in buckets:
            counts[index] = count
        # The zeros before the first are one number: the package would look at each of them.
        length = _scratch.encode(
            counts.buffer_info()[0] + _WORD_BYTES * first,
            end - first,
            _WORD_BYTES,
            target.buffer_info()[0],
            len(target),
        )
    finally:
        memoryview(counts)[first:end] = _scratch.zeros[first:end]
    return _zeros(first) + target[:length].tobytes()


def _zeros(number: int) -> bytes:
    """Return a run of zeros."""
    if not number:
        return b""
    rest = 2 * number - 1
    packed = bytearray()
    while rest > 0x7F:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*packed, rest])


def unpack(packed: bytes, length: int) -> list[tuple[int, int]]:
    """
    Return the counters that are not 0, each with its index, lowest first.

    Read here and not by the package, which wants an array for all of them, trusts whoever
    wrote them with its size, and would leave them to be searched for.

    Args:
        packed: The counters.
        length: How many there may be.

    Raises:
        HistogramFormatError: There are more, a count is negative, or the last is cut short.
    """
    buckets: list[tuple[int, int]] = []
    append = buckets.append
    index = shift = number = 0
    for byte in packed:
        if shift == 56:
            # The ninth byte is the last: all of its bits count.
            number |= byte << 56
        elif byte > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            continue
        elif shift:
            number |= byte << shift
        else:
            number = byte
        if number & 1:
            index += (number + 1) >> 1
        else:
            if number:
                append((index, number >> 1))
            index += 1
        number = shift = 0
    if shift:
        raise HistogramFormatError("the histogram's last count is cut short")
    if index > length:
        raise HistogramFormatError(
            "the histogram counts values that are higher than it says it can hold"
        )
    total = sum(count for _, count in buckets)
    if total > _HIGHEST_TOTAL:
        raise HistogramFormatError(f"the histogram claims {total:,} values: it is damaged")
    return buckets
