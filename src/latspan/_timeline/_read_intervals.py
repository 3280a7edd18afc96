"""Intervals of a stream up to its last read: time of the caller, or time of the stream."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

__all__ = ["ReadInterval", "ReadIntervals", "intervals_between"]

ReadInterval = tuple[int, bool]
"""
An interval that ends at the return of a read: its end in monotonic nanoseconds, and whether it was
held.

In a held interval, the caller had the stream and each read found its chunk already available. Such
an interval is the caller's time (``consumer``).
"""

_held: Final = itemgetter(1)


class ReadIntervals(NamedTuple):
    """
    Time intervals of a stream up to its last token, and after it.

    Args:
        pieces: Intervals from the instant at which the caller received the stream to the last
            token, or to the last read if there is no token.
        tail: Intervals from the last token to the last read.
        wait_ns: Nanoseconds to the first token, held intervals excluded.
        reasoning_ns: The same, from there to the first visible token.
        decode_ns: The same, from there to the last token.
    """

    pieces: Sequence[ReadInterval]
    tail: Sequence[ReadInterval]
    wait_ns: int
    reasoning_ns: int
    decode_ns: int


def intervals_between(
    handed_over_ns: int,
    returns_ns: Sequence[int],
    reader_bound: Sequence[bool],
    *,
    ends: tuple[int, int, int],
) -> ReadIntervals:
    """
    Return the time intervals of a stream.

    Args:
        handed_over_ns: Instant at which the caller received the stream, monotonic nanoseconds.
        returns_ns: Instants at which the reads returned, in order.
        reader_bound: Whether each read was reader-bound; empty if none was.
        ends: Positions of the reads of the first token, the first visible token and the last token.
    """
    if not returns_ns:
        return ReadIntervals([(handed_over_ns, False)], [], 0, 0, 0)
    if reader_bound:
        return _held_up(handed_over_ns, list(zip(returns_ns, reader_bound, strict=True)), ends)
    first, seen, last = ends
    first_ns, seen_ns, last_ns = returns_ns[first], returns_ns[seen], returns_ns[last]
    return ReadIntervals(
        pieces=[(max(handed_over_ns, first_ns, seen_ns, last_ns), False)],
        tail=[(returns_ns[-1], False)],
        wait_ns=max(0, first_ns - handed_over_ns),
        reasoning_ns=max(0, seen_ns - first_ns),
        decode_ns=max(0, last_ns - seen_ns),
    )


def _held_up(
    handed_over_ns: int, returns: list[ReadInterval], ends: tuple[int, int, int]
) -> ReadIntervals:
    """Return the intervals if the caller held the stream during some of them."""
    pieces: list[ReadInterval] = [(handed_over_ns, False)]
    flowing_ns: list[int] = []
    begin = 0
    for end in ends:
        taken_ns = 0
        for end_ns, held in _runs(returns[begin : end + 1]):
            if not held:
                taken_ns += max(0, end_ns - pieces[-1][0])
            pieces.append((end_ns, held))
        flowing_ns.append(taken_ns)
        begin = end + 1
    wait_ns, reasoning_ns, decode_ns = flowing_ns
    return ReadIntervals(pieces, _runs(returns[begin:]), wait_ns, reasoning_ns, decode_ns)


def _runs(returns: Sequence[ReadInterval]) -> list[ReadInterval]:
    """Return one interval per run of consecutive reads that are all held or all not held."""
    return [list(run)[-1] for _, run in groupby(returns, key=_held)]
