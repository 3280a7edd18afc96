"""
Encoding of an HDR histogram's counts: ZigZag LEB128, with a negative number for a run of zeros.

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

_MAX_BYTES: Final = 9
_WORD_BYTES: Final = 8
_MAX_COUNT: Final = (1 << 62) - 1
"""Highest count; the decoder of the ``pyhdrh`` package loses the top bit of larger counts."""

_MAX_TOTAL: Final = (1 << 63) - 1
"""Maximum number of values in a histogram."""


class _Encode(Protocol):
    def __call__(
        self, counts: int, length: int, word_bytes: int, target: int, target_bytes: int, /
    ) -> int: ...


class _Scratch(threading.local):
    """
    Dense array of counters, all 0 between two uses, and a buffer for the encoded counts.

    There is one per thread, so that no lock is held across a fork. It takes 0.9 MB.
    """

    def __init__(self) -> None:
        # Imported late, because an application that writes no files does not need it.
        self.encode = cast("_Encode", import_module("pyhdrh").encode)
        self.counts = array("Q", bytes(_WORD_BYTES * OURS.length))
        self.zeros = memoryview(self.counts[:])
        self.target = array("B", bytes(_MAX_BYTES * OURS.length))


_scratch: _Scratch | None = None


def pack(buckets: Sequence[tuple[int, int]]) -> bytes:
    """
    Return the encoded counters of latspan's own buckets, up to the last occupied bucket.

    Args:
        buckets: Each occupied bucket's index and count, lowest first.

    Raises:
        HistogramFormatError: A count is 2**62 or more, which the format cannot hold.
    """
    global _scratch
    if not buckets:
        return b""
    highest = max(buckets, key=itemgetter(1))[1]
    if highest > _MAX_COUNT:
        raise HistogramFormatError(
            f"a bucket has the count {highest:,}, above the {_MAX_COUNT:,} that a file can hold"
        )
    if _scratch is None:
        _scratch = _Scratch()
    counts, target = _scratch.counts, _scratch.target
    first, end = buckets[0][0], buckets[-1][0] + 1
    try:
        for index, count in buckets:
            counts[index] = count
        # The zeros before the first bucket are encoded below as one number, because the encoder of
        # the ``pyhdrh`` package would visit each of them.
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
    """Return the encoding of a run of ``number`` zeros."""
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
    Return index and count of each counter that is not 0, lowest first.

    The decoder of the ``pyhdrh`` package is not used: it needs an array for all counters, trusts
    the size that the data declares, and makes the caller search for the counters that are not 0.

    Args:
        packed: The encoded counters.
        length: Maximum number of counters.

    Raises:
        HistogramFormatError: There are more counters, more than 2**63 - 1 values, or the last
            count is cut short.
    """
    buckets: list[tuple[int, int]] = []
    append = buckets.append
    index = shift = number = 0
    for byte in packed:
        if shift == 56:
            # The ninth byte is the last one, and all of its bits belong to the number.
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
        raise HistogramFormatError("the histogram has counts above its highest trackable value")
    total = sum(count for _, count in buckets)
    if total > _MAX_TOTAL:
        raise HistogramFormatError(f"the histogram has {total:,} values: it is damaged")
    return buckets
