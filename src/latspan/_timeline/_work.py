"""The timeline of a unit of work that holds calls and stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latspan._timeline._tiling import Tiling, Timeline
from latspan.metrics import MetricValue
from latspan.segments import Segment, SegmentName, Source

__all__ = ["Interval", "WorkTimeline", "work_timeline"]


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


@dataclass(frozen=True, slots=True)
class WorkTimeline:
    """
    Where the time of a unit of work went.

    Args:
        timeline: The whole of it, its last call's own segments among the rest.
        own: The segments that no call and no stage inside it accounts for, and ``call``: what
            the unit itself has to report, so that nothing is counted twice.
    """

    timeline: Timeline
    own: tuple[Segment, ...]


def work_timeline(
    start_ns: int,
    done_ns: int,
    *,
    calls: Sequence[Interval] = (),
    stages: Sequence[Interval] = (),
    own_name: str | None = None,
) -> WorkTimeline:
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
    inside = {stage.name for stage in stages}
    # To a stage a call is not its own time; to a request earlier calls are something to report.
    foreign = inside if own_name is None else {*inside, SegmentName.CALL}
    tiling = Tiling(start_ns, done_ns)
    own: list[Segment] = []

    def lay(end_ns: int, name: str, source: Source = Source.MEASURED) -> None:
        part = Tiling(tiling.cursor_ns, tiling.clamp(end_ns))
        for edge_ns, in_call, stage in _sweep(part.cursor_ns, part.done_ns, earlier, stages):
            if in_call:
                part.until(edge_ns, SegmentName.CALL)
            elif stage is not None:
                part.until(edge_ns, stage)
            else:
                part.until(edge_ns, name, source)
        laid = tiling.append(part.finish(name, source))
        own.extend(segment for segment in laid if segment.name not in foreign)

    if last is None:
        lay(
            done_ns,
            own_name or SegmentName.UNATTRIBUTED,
            Source.MEASURED if own_name else Source.UNKNOWN,
        )
    else:
        lay(last.start_ns, own_name or SegmentName.PREPARE)
        whole = Tiling(tiling.cursor_ns, tiling.clamp(last.done_ns))
        for segment in last.segments:
            whole.until(last.start_ns + segment.end_ns, segment.name, segment.source)
        laid = tiling.append(whole.finish(SegmentName.CALL))
        if own_name is None:
            own.extend(segment for segment in laid if segment.name == SegmentName.CALL)
        lay(done_ns, own_name or SegmentName.POSTPROCESS)
    metrics = {"duration": MetricValue(done_ns - start_ns)}
    visible = [
        (call.first_visible_ns, call.first_visible_source)
        for call in calls
        if call.first_visible_ns is not None
    ]
    if visible:
        first_ns, source = min(visible)
        metrics["time_to_first_visible_token"] = MetricValue(first_ns - start_ns, source)
    return WorkTimeline(
        Timeline(
            start_ns=start_ns,
            done_ns=done_ns,
            segments=tiling.finish(own_name or SegmentName.UNATTRIBUTED),
            metrics=metrics,
        ),
        tuple(own),
    )


def _sweep(
    begin_ns: int, end_ns: int, calls: Sequence[Interval], stages: Sequence[Interval]
) -> Iterator[tuple[int, bool, str | None]]:
    """
    Yield, up to each edge, whether any call was running and which stage was the innermost.

    One pass over the edges in order: a request may hold thousands of calls.
    """
    edges: list[tuple[int, int, Interval | None]] = []
    for call in calls:
        if call.start_ns < call.done_ns:
            edges += [(call.start_ns, 1, None), (call.done_ns, -1, None)]
    for stage in stages:
        if stage.start_ns < stage.done_ns:
            edges += [(stage.start_ns, 1, stage), (stage.done_ns, -1, stage)]
    edges.sort(key=lambda edge: edge[0])
    running = 0
    inside: list[Interval] = []
    for instant_ns, step, stage in edges:
        if instant_ns > end_ns:
            break
        if instant_ns > begin_ns:
            yield instant_ns, running > 0, _innermost(inside)
        if stage is None:
            running += step
        elif step > 0:
            inside.append(stage)
        else:
            inside.remove(stage)
    yield end_ns, running > 0, _innermost(inside)


def _innermost(inside: Sequence[Interval]) -> str | None:
    return max(inside, key=lambda stage: stage.start_ns).name if inside else None
