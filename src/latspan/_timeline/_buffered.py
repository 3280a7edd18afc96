"""Detection of streams that a hop on the way held back until the server had generated them."""

from __future__ import annotations

from typing import Final

from latspan._timeline._stream import Stream
from latspan._units import NS_PER_MS

__all__ = ["is_buffered", "known_at_the_latest"]

_CHUNKS: Final = 8
"""Minimum number of chunks; fewer prove little, as servers write several tokens at once."""
_BURST_DIVISOR: Final = 10
"""A reader sees a stream ten times faster than it was generated only if it was buffered."""
_LATE_NS: Final = 100 * NS_PER_MS
"""Twice the delay that a busy machine was seen to add to a client's stamp of the first token."""


def is_buffered(stream: Stream, generation_ns: int | None) -> bool:
    """
    Return whether the tokens came in one burst, though the server took its time over them.

    Only a server's own report distinguishes that from a fast server, and only if the first token
    was waited for: otherwise the caller may have let the stream wait.

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
    """Return a buffered stream with every arrival marked as the latest time it can have been."""
    return stream._replace(late=[True] * len(stream.returns_ns))
