"""Detection of buffered streams, which a proxy or gateway held back until they were complete."""

from __future__ import annotations

from typing import Final

from latspan._timeline._stream import Stream
from latspan._units import NS_PER_MS

__all__ = ["is_buffered", "known_at_the_latest"]

_CHUNKS: Final = 8
"""
Minimum number of chunks. Servers may write several tokens at once, so fewer chunks prove little.
"""
_BURST_DIVISOR: Final = 10
"""
A stream counts as buffered if its tokens arrive at least this many times faster than generated.
"""
_LATE_NS: Final = 100 * NS_PER_MS
"""
Minimum difference of the two durations: twice the delay by which a busy machine was observed to
record the first token late.
"""


def is_buffered(stream: Stream, generation_ns: int | None) -> bool:
    """
    Return whether the tokens arrived in a burst, although the server generated them slowly.

    Only the server's own report distinguishes this from a fast server. The read of the first token
    must have waited for it; otherwise the caller may have read the stream late.

    Args:
        stream: The stream as it was read.
        generation_ns: Generation time that the server reported, from a report that fits; ``None``
            if it did not report any.
    """
    arrivals_ns = stream.arrivals_ns
    if generation_ns is None or len(arrivals_ns) < _CHUNKS:
        return False
    if stream.late and stream.late[stream.tokens[0]]:
        return False
    burst_ns = arrivals_ns[-1] - arrivals_ns[0]
    return burst_ns * _BURST_DIVISOR <= generation_ns and generation_ns - burst_ns >= _LATE_NS


def known_at_the_latest(stream: Stream) -> Stream:
    """
    Return a buffered stream with every arrival marked as reader-bound: its time is only a maximum.
    """
    return stream._replace(late=[True] * len(stream.returns_ns))
