"""The timeline of a unit of work that holds calls and stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latspan._timeline._tiling import Tiling, Timeline
from latspan.metrics import MetricValue
from latspan.segments import Segment, SegmentName, Source

__all__ = ["Interval", "work_timeline"]


@dataclass(frozen=True, slots=True)
class Interval:
    """
    A call or a stage inside a unit of work. Instants are monotonic nanoseconds.

    Args:
        name: A stage's name; of a call, its span's.
        start_ns: Its start.
        done_ns: Its end; the unit's own end where it was still open then.
        segments: A call's own segments, since its start; empty where it had not ended.
        first_visible_ns: When a call's first visible token came, if it did.
        first_visible_source: How certain that is.
    """

    name: str
    start_ns: int
    done_ns: int
    segments: tuple[Segment, ...] = ()
    first_visible_ns: int | None = None
    first_visible_source: Source = Source.MEASURED


def work_timeline(
    start_ns: int,
    done_ns: int,
    *,
    calls: Sequence[Interval] = (),
    stages: Sequence[Interval] = (),
    own_name: str | None = None,
) -> Timeline:
    """
    Return the timeline of a request or of a stage.

    The last call, the one that began last, gives its own segments. Time inside other calls is
    ``call``, their union. Of the rest, time inside a stage is the innermost stage's; what then is
    left is ``own_name`` or, where that is ``None``, ``prepare`` before the last call began,
    ``postprocess`` after, and ``unattributed`` where there was no call.

    Args:
        start_ns: The unit's start, monotonic nanoseconds.
        done_ns: The unit's end.
        calls: The calls made inside it.
        stages: The stages named inside it.
        own_name: What to call its own time: a stage's name.
    """
    done_ns = max(start_ns, done_ns)
    last = max(calls, key=lambda call: call.start_ns, default=None)
    earlier = [call for call in calls if call is not last]
    tiling = Tiling(start_ns, done_ns)

    def lay(end_ns: int, own: str, source: Source) -> None:
        for edge in _edges(tiling.clamp(end_ns), tiling.cursor_ns, (*earlier, *stages)):
            instant = tiling.cursor_ns
            if any(call.start_ns <= instant < call.done_ns for call in earlier):
                tiling.until(edge, SegmentName.CALL)
                continue
            inside = [stage for stage in stages if stage.start_ns <= instant < stage.done_ns]
            if inside:
                tiling.until(edge, max(inside, key=lambda stage: stage.start_ns).name)
            else:
                tiling.until(edge, own, source)

    if last is None:
        own = own_name or SegmentName.UNATTRIBUTED
        lay(done_ns, own, Source.MEASURED if own_name else Source.UNKNOWN)
    else:
        lay(last.start_ns, own_name or SegmentName.PREPARE, Source.MEASURED)
        for segment in last.segments:
            tiling.until(last.start_ns + segment.end_ns, segment.name, segment.source)
        tiling.until(last.done_ns, SegmentName.CALL)
        lay(done_ns, own_name or SegmentName.POSTPROCESS, Source.MEASURED)
    metrics = {"duration": MetricValue(done_ns - start_ns)}
    visible = [call for call in calls if call.first_visible_ns is not None]
    if visible:
        first = min(visible, key=lambda call: call.first_visible_ns or 0)
        metrics["time_to_first_visible_token"] = MetricValue(
            (first.first_visible_ns or 0) - start_ns, first.first_visible_source
        )
    return Timeline(
        start_ns=start_ns,
        done_ns=done_ns,
        segments=tiling.finish(own_name or SegmentName.UNATTRIBUTED),
        metrics=metrics,
    )


def _edges(end_ns: int, begin_ns: int, intervals: Sequence[Interval]) -> list[int]:
    """Return where anything begins or ends between two instants, and the end itself."""
    edges = {
        instant
        for interval in intervals
        for instant in (interval.start_ns, interval.done_ns)
        if begin_ns < instant < end_ns
    }
    return [*sorted(edges), end_ns]
