"""Whether somebody on the way held a stream back until its server was done with it."""

from __future__ import annotations

from typing import Final

from latspan._timeline._stream import Stream
from latspan.segments import Source
from latspan.units import NS_PER_MS

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
    arrivals = stream.token_arrivals
    if generation_ns is None or len(arrivals) < _CHUNKS:
        return False
    first, last = arrivals[0], arrivals[-1]
    if first.source is not Source.MEASURED:
        return False
    burst_ns = last.instant_ns - first.instant_ns
    return burst_ns * _BURST_DIVISOR <= generation_ns and generation_ns - burst_ns >= _LATE_NS


def known_at_the_latest(stream: Stream) -> Stream:
    """Return the stream with every arrival for what it is where it was buffered: the latest."""
    return stream._replace(
        arrivals={
            mark: arrival._replace(source=Source.ESTIMATED)
            for mark, arrival in stream.arrivals.items()
        },
        token_arrivals=tuple(
            arrival._replace(source=Source.ESTIMATED) for arrival in stream.token_arrivals
        ),
    )
