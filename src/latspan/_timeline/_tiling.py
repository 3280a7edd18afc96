"""Segments that tile a duration, whatever instants they are cut at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from latspan.metrics import MetricValue
from latspan.segments import Mark, Segment, Source

__all__ = ["Tiling", "Timeline"]


@dataclass(frozen=True, slots=True)
class Timeline:
    """
    Where the time of one request went.

    Args:
        start_ns: Monotonic instant of its start.
        done_ns: Monotonic instant of its end, at least ``start_ns``.
        segments: Contiguous intervals, in nanoseconds since the start, that tile
            ``[0, duration_ns]``.
        metrics: By name; a metric that is undefined here is absent.
        chunk_gaps: Gaps between token-bearing chunks, in order.
        marks: Monotonic instants of the marks that are known.
        rejected: The systems whose reports of their own time do not fit in here.
    """

    start_ns: int
    done_ns: int
    segments: tuple[Segment, ...]
    metrics: Mapping[str, MetricValue] = field(default_factory=dict[str, MetricValue])
    chunk_gaps: tuple[MetricValue, ...] = ()
    marks: Mapping[Mark, int] = field(default_factory=dict[Mark, int])
    rejected: tuple[str, ...] = ()

    @property
    def duration_ns(self) -> int:
        """``done_ns - start_ns``."""
        return self.done_ns - self.start_ns


class Tiling:
    """
    Lays segments end to end between two instants.

    Every cut is clamped to what is left, so no sequence of cuts can overlap, leave a gap or
    miss the end.

    Args:
        start_ns: Monotonic instant at which the first segment begins.
        done_ns: Monotonic instant at which the last one ends.
    """

    __slots__ = ("_cursor", "_done", "_segments", "_start")

    def __init__(self, start_ns: int, done_ns: int) -> None:
        self._start = start_ns
        self._done = max(start_ns, done_ns)
        self._cursor = start_ns
        self._segments: list[Segment] = []

    @property
    def cursor_ns(self) -> int:
        """The instant up to which segments are laid."""
        return self._cursor

    @property
    def done_ns(self) -> int:
        """The instant at which the last segment ends."""
        return self._done

    def clamp(self, instant_ns: int) -> int:
        """Return ``instant_ns`` moved into what is left."""
        if instant_ns <= self._cursor:
            return self._cursor
        return min(instant_ns, self._done)

    def until(
        self,
        instant_ns: int | None,
        name: str,
        source: Source = Source.MEASURED,
    ) -> None:
        """Lay ``name`` up to ``instant_ns``; nothing when that is unknown or has gone by."""
        if instant_ns is None:
            return
        # By hand: `min` costs as much as all the rest, and this is asked some ten times a call.
        end = instant_ns if instant_ns < self._done else self._done  # noqa: FURB136
        if end > self._cursor:
            self._lay(end, name, source)

    def exactly(self, length_ns: int, name: str, source: Source) -> None:
        """Lay ``length_ns`` of ``name``; of a server's report no time at all is a finding too."""
        end = self.clamp(self._cursor + length_ns)
        if end > self._cursor or source is not Source.MEASURED:
            self._lay(end, name, source)

    def _lay(self, end: int, name: str, source: Source) -> None:
        begin = self._cursor - self._start
        segments = self._segments
        if segments:
            last = segments[-1]
            if last.name == name and last.source is source:
                begin = last.start_ns
                segments.pop()
        segments.append(Segment(str(name), begin, end - self._start, source))
        self._cursor = end

    def append(self, laid: Iterable[Segment]) -> list[Segment]:
        """
        Lay a tiling that began at the cursor behind this one, its edges kept as they are.

        Returns:
            The same segments, since this tiling's start.
        """
        offset = self._cursor - self._start
        moved = [
            segment._replace(start_ns=offset + segment.start_ns, end_ns=offset + segment.end_ns)
            for segment in laid
        ]
        self._segments += moved
        if moved:
            self._cursor = self._start + moved[-1].end_ns
        return moved

    def finish(self, name: str, source: Source = Source.MEASURED) -> tuple[Segment, ...]:
        """Lay ``name`` up to the end and return the tiling; a zero stands only for itself."""
        self.until(self._done, name, source)
        if all(segment.start_ns < segment.end_ns for segment in self._segments):
            return tuple(self._segments)
        longest = {segment.name: 0 for segment in self._segments}
        for segment in self._segments:
            longest[segment.name] = max(longest[segment.name], segment.duration_ns)
        return tuple(
            segment
            for segment in self._segments
            if segment.duration_ns > 0 or longest.pop(segment.name, None) == 0
        )
