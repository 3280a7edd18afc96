"""Builder of segments that tile a duration exactly, whatever instants they are cut at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import NamedTuple

from latspan._model.metrics import MetricValue
from latspan._model.segments import Mark, Segment, Source
from latspan._model.timeline._constants import MEASURED, new_tuple

Cut = tuple[int | None, str, Source]
"""End of a segment, monotonic nanoseconds, ``None`` if unknown; its name; its source."""

Part = tuple[str, Source, int]
"""A segment's name, its source, and its length in nanoseconds."""


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
        done_ns: The instant at which the last one ends, at least ``start_ns``.
    """

    # A segment begins where the previous one ends, so only its end, since the start, is stored
    # until all segments are laid.
    __slots__ = ("_ends", "_names", "_sources", "_start", "cursor_ns", "done_ns")

    def __init__(self, start_ns: int, done_ns: int) -> None:
        self._start = start_ns
        self.done_ns = max(start_ns, done_ns)
        self.cursor_ns = start_ns
        self._names: list[str] = []
        self._sources: list[Source] = []
        self._ends: list[int] = []

    def clamp(self, instant_ns: int) -> int:
        """Return ``instant_ns`` clamped to the time that is left."""
        return max(self.cursor_ns, min(instant_ns, self.done_ns))

    def lay(self, cuts: Iterable[Cut], *, keeps_empty: bool = False) -> None:
        """
        Lay segments one after another; none up to an instant that is unknown or has passed.

        Args:
            cuts: End, name and source of each segment.
            keeps_empty: Whether a segment without length is laid too if it was not measured: a
                reported length of zero is information.
        """
        names, sources, ends = self._names, self._sources, self._ends
        start, done, cursor = self._start, self.done_ns, self.cursor_ns
        for instant_ns, name, source in cuts:
            if instant_ns is None:
                continue
            if instant_ns > cursor < done:
                # Not `min`: the call would take half of the time, and this runs often.
                cursor = instant_ns if instant_ns < done else done  # noqa: FURB136
            elif not keeps_empty or source is MEASURED:
                continue
            if names and names[-1] == name and sources[-1] is source:
                ends[-1] = cursor - start
            else:
                names.append(name)
                sources.append(source)
                ends.append(cursor - start)
        self.cursor_ns = cursor

    def lay_parts(self, parts: Iterable[Part]) -> None:
        """Lay segments of the given lengths; a reported length of zero is kept as information."""
        end_ns = self.cursor_ns
        cuts: list[Cut] = []
        for name, source, length_ns in parts:
            end_ns += length_ns
            cuts.append((end_ns, name, source))
        self.lay(cuts, keeps_empty=True)

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
        self.lay(((self.done_ns, name, source),))
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
