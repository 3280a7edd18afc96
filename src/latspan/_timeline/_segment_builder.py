"""Builder of segments that tile a duration exactly, whatever instants they are cut at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import NamedTuple

from latspan._metrics import MetricValue
from latspan._segments import Mark, Segment, Source
from latspan._timeline._constants import MEASURED, new_tuple

__all__ = ["SegmentBuilder", "Timeline"]


class Timeline(NamedTuple):
    """
    Segments, metrics and marks of one request.

    Args:
        start_ns: Monotonic instant of its start.
        done_ns: Monotonic instant of its end, at least ``start_ns``.
        segments: Contiguous intervals, in nanoseconds since the start, that tile
            ``[0, duration_ns]``.
        metrics: Metrics by name; an undefined metric is absent.
        marks: Monotonic instants of the marks that are known.
        chunk_gaps: Gaps between token-bearing chunks, in order.
        rejected: Names of the systems whose reported times do not fit into the timeline.
    """

    start_ns: int
    done_ns: int
    segments: tuple[Segment, ...]
    metrics: Mapping[str, MetricValue]
    marks: Mapping[Mark, int]
    chunk_gaps: tuple[MetricValue, ...] = ()
    rejected: tuple[str, ...] = ()

    @property
    def duration_ns(self) -> int:
        """``done_ns - start_ns``."""
        return self.done_ns - self.start_ns


class SegmentBuilder:
    """
    Builder that lays (appends) segments end to end between two instants.

    Every cut is clamped to the time that is left. So no sequence of cuts can produce an overlap or
    a gap, or miss the end.

    Args:
        start_ns: Monotonic instant at which the first segment begins.
        done_ns: Monotonic instant at which the last one ends.

    Attributes:
        cursor_ns: The instant up to which segments are laid.
    """

    # A segment begins where the previous one ends, so only its end, since the start, is stored
    # until all segments are laid.
    __slots__ = ("_done", "_ends", "_names", "_sources", "_start", "cursor_ns")

    def __init__(self, start_ns: int, done_ns: int) -> None:
        self._start = start_ns
        self._done = max(start_ns, done_ns)
        self.cursor_ns = start_ns
        self._names: list[str] = []
        self._sources: list[Source] = []
        self._ends: list[int] = []

    def clamp(self, instant_ns: int) -> int:
        """Return ``instant_ns`` clamped to the time that is left."""
        if instant_ns <= self.cursor_ns:
            return self.cursor_ns
        # Not `min`, here and below: the call would take half of the time, and this runs often.
        return instant_ns if instant_ns < self._done else self._done  # noqa: FURB136

    def until(
        self,
        instant_ns: int | None,
        name: str,
        source: Source = MEASURED,
        *,
        keeps_empty: bool = False,
    ) -> None:
        """
        Lay ``name`` up to ``instant_ns``; nothing if that is unknown or has already passed.

        Args:
            instant_ns: Monotonic instant; ``None`` if it is unknown.
            name: Name of the segment.
            source: Source of its length.
            keeps_empty: Whether a segment without length is laid too.
        """
        if instant_ns is None:
            return
        end = instant_ns if instant_ns < self._done else self._done  # noqa: FURB136
        if end <= self.cursor_ns:
            if not keeps_empty:
                return
            end = self.cursor_ns
        self.cursor_ns = end
        names, sources, ends = self._names, self._sources, self._ends
        if names and names[-1] == name and sources[-1] is source:
            ends[-1] = end - self._start
        else:
            names.append(name)
            sources.append(source)
            ends.append(end - self._start)

    def exactly(self, length_ns: int, name: str, source: Source) -> None:
        """Lay ``length_ns`` of ``name``; a reported length of zero is kept as information."""
        keeps_empty = source is not MEASURED
        self.until(self.cursor_ns + length_ns, name, source, keeps_empty=keeps_empty)

    def append(self, laid: Iterable[Segment]) -> list[Segment]:
        """
        Append segments whose start is the cursor, with their edges unchanged.

        Returns:
            The same segments, relative to the start of this builder.
        """
        offset = self.cursor_ns - self._start
        moved = [
            segment._replace(start_ns=offset + segment.start_ns, end_ns=offset + segment.end_ns)
            for segment in laid
        ]
        for name, _, end, source in moved:
            self._names.append(name)
            self._sources.append(source)
            self._ends.append(end)
            self.cursor_ns = self._start + end
        return moved

    def build(self, name: str, source: Source = MEASURED) -> tuple[Segment, ...]:
        """
        Lay ``name`` up to the end and return all segments, without empty repetitions of a name.
        """
        self.until(self._done, name, source)
        edges = [0, *self._ends]
        # Not `map(Segment, …)`: the constructor of a named tuple is a function written in Python.
        fields = zip(self._names, edges, self._ends, self._sources, strict=False)
        segments: tuple[Segment, ...] = tuple(map(new_tuple, repeat(Segment), fields))
        # If all edges differ, no segment is empty.
        return segments if len({*edges}) == len(edges) else _without_needless_zeros(segments)


def _without_needless_zeros(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    longest = {segment.name: 0 for segment in segments}
    for segment in segments:
        longest[segment.name] = max(longest[segment.name], segment.duration_ns)
    return tuple(
        segment
        for segment in segments
        if segment.duration_ns > 0 or longest.pop(segment.name, None) == 0
    )
