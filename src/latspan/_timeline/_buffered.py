"""Whether somebody on the way held a stream back until its server was done with it."""

from __future__ import annotations

from typing import Final

from latspan._timeline._stream import Stream
from latspan._units import NS_PER_MS

__all__ = ["is_buffered", "known_at_the_latest"]

_CHUNKS: Final = 8
"""Fewer that come together say little: servers write several tokens at once."""
_BURST_DIVISOR: Final = 10
"""No reader sees a stream ten times faster than it was made, unless somebody saved it up."""
_LATE_NS: Final = 100 * NS_PER_MS
"""Twice what a busy machine was seen to delay a client's stamp of the first token."""


def is_buffered(stream: Stream, generation_ns: int | None) -> bool:
    """
    Return whether the tokens came in one burst, though the server took its time over them.

    Only a server's own word tells that from a server that is fast, and only where the first
    token was waited for: else the caller may have let the stream wait.

    Args:
        stream: As it was read.
        generation_ns: How long the server says it generated, from a report that fits; ``None``
            where it says nothing.
    """
    arrivals_ns = stream.arrivals_ns
    if generation_ns is None or len(arrivals_ns) < _CHUNKS:
        return False
    if stream.late and stream.late[stream.tokens[0]]:
        return False
    burst_ns = arrivals_ns[-1] - arrivals_ns[0]
    return burst_ns * _BURST_DIVISOR <= generation_ns and generation_ns - burst_ns >= _LATE_NS


def known_at_the_latest(stream: Stream) -> Stream:
    """Return the stream with every arrival for what it is where it was buffered: the latest."""
    return stream._replace(late=[True] * len(stream.returns_ns))
