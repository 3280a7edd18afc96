"""
Segments of a record from spans: they tile the duration, as they did when they were measured.

A segment that is one interval has a span and so its place. The time of any other segment is an
attribute of the span above, without a place: it fills the gaps that the spans leave, in the order
in which a request passes through the segments. What is left is ``unattributed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from latspan import semconv
from latspan._model.segments import SEGMENT_ORDER, Segment, SegmentName, Source
from latspan._study.traces._spans import seconds_as_ns

_PREFIX, _SUFFIX = semconv.segment_duration("|").split("|")
_NOT_SEGMENTS: Final = frozenset({semconv.LATSPAN_STALL_DURATION, semconv.LATSPAN_HOST_GC_DURATION})
_UNKNOWN: Final = frozenset({SegmentName.SERVER_WAIT, SegmentName.UNATTRIBUTED})
_ROUNDING_NS: Final = 1_000
"""Largest rest of a gap that comes from seconds as floating-point numbers."""

OFFSET_NS: Final = 1_000_000
"""
Largest difference between two spans of one process: each converts its times with a reading of the
wall clock of its own.
"""


class Piece(NamedTuple):
    """
    Segment of a span, in nanoseconds since the start of that span.

    Args:
        name: Its name.
        start_ns: Its start.
        end_ns: Its end.
        source: Source of its length.
    """

    name: str
    start_ns: int
    end_ns: int
    source: Source = Source.MEASURED

    @property
    def segment(self) -> Segment:
        """The same as a segment of a record."""
        return Segment(self.name, self.start_ns, self.end_ns, self.source)


def segments_without_span(attributes: Mapping[str, Any]) -> dict[str, int]:
    """
    Return the time of each segment that has no span, in nanoseconds, in the order of a request.

    Args:
        attributes: Attributes of the span of a request, call or stage.
    """
    found = {
        name.removeprefix(_PREFIX).removesuffix(_SUFFIX): time_ns
        for name, value in attributes.items()
        if name.startswith(_PREFIX)
        and name.endswith(_SUFFIX)
        and name not in _NOT_SEGMENTS
        and (time_ns := seconds_as_ns(value)) is not None
    }
    known = [str(name) for name in SEGMENT_ORDER if name in found]
    return {name: found[name] for name in (*known, *sorted(found.keys() - set(known)))}


def tiled(
    pieces: Iterable[Piece],
    duration_ns: int,
    without_span: Mapping[str, int],
    source: Source = Source.ESTIMATED,
) -> tuple[Piece, ...]:
    """
    Return the pieces that tile a duration.

    Args:
        pieces: Segments with a place; where they overlap, the earlier one keeps the time.
        duration_ns: Duration to tile, in nanoseconds.
        without_span: Time of the segments without a place, in nanoseconds.
        source: Source of the segments without a place.
    """
    left = dict(without_span)
    tiles: list[Piece] = []
    cursor = 0
    for name, start_ns, end_ns, known in (*sorted(pieces, key=_place), _end(duration_ns)):
        start, end = max(start_ns, cursor), min(end_ns, duration_ns)
        gap_end = min(start, duration_ns)
        if tiles and 0 < gap_end - cursor <= _ROUNDING_NS:
            # Spans of two clocks' readings, and not a segment of its own.
            tiles[-1] = tiles[-1]._replace(end_ns=gap_end)
        elif cursor < gap_end:
            tiles += _filled(cursor, gap_end, left, source)
            rest_ns = tiles[-1].end_ns if tiles else cursor
            if tiles and gap_end - rest_ns <= OFFSET_NS:
                tiles[-1] = tiles[-1]._replace(end_ns=gap_end)
            else:
                tiles.append(Piece(SegmentName.UNATTRIBUTED, rest_ns, gap_end, Source.UNKNOWN))
        if start < end:
            tiles.append(Piece(name, start, end, known))
        cursor = max(cursor, end)
    return tuple(tiles)


def _place(piece: Piece) -> tuple[int, int]:
    return piece.start_ns, piece.end_ns


def _end(duration_ns: int) -> Piece:
    return Piece("", duration_ns, duration_ns)


def _filled(start_ns: int, end_ns: int, left: dict[str, int], source: Source) -> Iterator[Piece]:
    """Yield segments that fill a gap, and take their time from what is left."""
    while start_ns < end_ns and left:
        name = next(iter(left))
        until = min(end_ns, start_ns + left[name])
        if end_ns - until <= _ROUNDING_NS:
            until = end_ns
        left[name] -= until - start_ns
        if left[name] <= 0:
            del left[name]
        if start_ns < until:
            yield Piece(name, start_ns, until, Source.UNKNOWN if name in _UNKNOWN else source)
        start_ns = until
