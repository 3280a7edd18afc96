"""Timeline of a scope, which is a request or a stage: what it waited for at each instant."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from latspan._model.metrics import DURATION, TIME_TO_FIRST_VISIBLE_TOKEN, MetricValue
from latspan._model.segments import Kind, Segment, SegmentName, Source, Step
from latspan._model.timeline._activity import Activity
from latspan._model.timeline._delays import delay_of_own_code
from latspan._model.timeline._marks import Block
from latspan._model.timeline._path import Inner, Path, clipped, path_of
from latspan._model.timeline._segment_builder import Timeline


class ScopeTimeline(NamedTuple):
    """
    Timeline of a scope, and the steps inside it.

    Args:
        timeline: The timeline: the segments of what the scope waited for.
        steps: Calls, stages and HTTP exchanges inside it, whether it waited for them or not, in the
            order of their starts.
        segment_steps: Number of the step of each segment, from 1; 0 if the segment is in none.
        own: Segments of its own time, in order.
        inferred_ns: Time in which it is not certain which of several steps it waited for.
        inside: Activities inside it, each after the one that it is in.
    """

    timeline: Timeline
    steps: tuple[Step, ...]
    segment_steps: tuple[int, ...]
    own: tuple[Segment, ...]
    inferred_ns: int
    inside: Sequence[Inner]

    @property
    def merged(self) -> int:
        """Number of activities inside whose positions are not known."""
        return sum(inner.activity.merged or 0 for inner in self.inside)

    @property
    def application_ns(self) -> tuple[int, int, int] | None:
        """
        Time of the application itself before the first step, between steps, and after the last.

        ``None`` if the request waited for no step.
        """
        segments = self.timeline.segments
        waited = [
            at
            for at, (step, segment) in enumerate(zip(self.segment_steps, segments, strict=True))
            if step and segment.duration_ns
        ]
        if not waited:
            return None
        sums = [0, 0, 0]
        for at, segment in enumerate(segments):
            if segment.name == SegmentName.APPLICATION:
                sums[(at > waited[0]) + (at > waited[-1])] += segment.duration_ns
        return sums[0], sums[1], sums[2]


class _Interval(NamedTuple):
    """
    Interval of the path with one name.

    Args:
        begin_ns: Its begin, monotonic nanoseconds.
        end_ns: Its end, at least its begin.
        name: Name of the segment.
        source: How its time is known.
        step: Number of the step that it belongs to, 0 for none.
        is_own: Whether it is the own time of the scope.
    """

    begin_ns: int
    end_ns: int
    name: str
    source: Source
    step: int
    is_own: bool


def scope_timeline(
    root: Activity, *, blocks: Sequence[Block] = (), keeps_open: bool = False
) -> ScopeTimeline:
    """
    Return the timeline of a request or stage that has ended.

    Each instant has the segment of the activity that was waited for, see
    :mod:`latspan._model.timeline._path`: a segment of a call, or the own time of a stage, an HTTP
    exchange or the application. Outside calls, the time by which a block of the event loop delayed
    the end of a piece is ``event_loop``. A stage that ended inside the scope always has a segment,
    of 0 ns if the scope did not wait for it, or if the event loop was blocked for all of its time.

    Args:
        root: The request or stage, with its end.
        blocks: Blocks of the event loop.
        keeps_open: Whether the scope waited for what was open at its end: it was cut.
    """
    start_ns = root.start_ns
    done_ns = start_ns if root.done_ns is None else max(start_ns, root.done_ns)
    path = path_of(root, done_ns, keeps_open=keeps_open)
    steps, numbers = _steps(path.inside, root)
    laid = list(_joined(_laid(path, root, numbers, blocks)))
    laid = sorted([*laid, *_unwaited(laid, path, root, numbers)], key=_at)
    metrics = {DURATION: MetricValue(done_ns - start_ns)}
    visible = [
        (inner.activity.first_visible_ns, inner.activity.first_visible_source)
        for inner in path.inside
        if inner.activity.first_visible_ns is not None
    ]
    if visible:
        first_ns, source = min(visible)
        metrics[TIME_TO_FIRST_VISIBLE_TOKEN] = MetricValue(first_ns - start_ns, source)
    segments = [
        Segment(name, begin_ns - start_ns, end_ns - start_ns, source)
        for begin_ns, end_ns, name, source, *_ in laid
    ]
    return ScopeTimeline(
        Timeline(start_ns, done_ns, tuple(segments), metrics, marks={}),
        steps=steps,
        segment_steps=tuple(each.step for each in laid),
        own=tuple(segment for segment, each in zip(segments, laid, strict=True) if each.is_own),
        inferred_ns=path.inferred_ns,
        inside=path.inside,
    )


def _at(interval: _Interval) -> tuple[int, int]:
    return interval.begin_ns, interval.end_ns


def _laid(
    path: Path, root: Activity, numbers: Mapping[int, int], blocks: Sequence[Block]
) -> Iterator[_Interval]:
    """Yield the intervals of the path, with the delays by blocks outside calls."""
    others = _others(path.inside, root)
    for piece in path.pieces:
        begin_ns, end_ns, owner = piece
        step = numbers[id(owner)]
        belongs = (step, _is_own(owner, root, step))
        if owner.segments:
            for low_ns, high_ns, name, source in clipped(piece):
                yield _Interval(low_ns, high_ns, name, source, *belongs)
            continue
        own = (owner.own_name, owner.own_source, *belongs)
        delay = None
        if blocks and owner.kind is not Kind.CALL:
            delay = delay_of_own_code(blocks, begin_ns, end_ns, others.get(end_ns))
        if delay is not None:
            yield _Interval(begin_ns, delay.begin_ns, *own)
            begin_ns = delay.until_ns
            loop = SegmentName.EVENT_LOOP.value
            yield _Interval(delay.begin_ns, begin_ns, loop, Source.MEASURED, *belongs)
        yield _Interval(begin_ns, end_ns, *own)


def _is_own(owner: Activity, root: Activity, step: int) -> bool:
    """Return whether the own time of an activity is that of the scope: of no step inside it."""
    # A stage does not include the own time of a request inside it.
    return owner is root or (step == 0 and (owner.kind is None or not root.is_step))


def _joined(intervals: Iterable[_Interval]) -> Iterator[_Interval]:
    """Yield the intervals that are not empty, adjacent ones of one segment and owner as one."""
    before: _Interval | None = None
    for each in intervals:
        if each.begin_ns == each.end_ns:
            continue
        if before is not None and before[2:] == each[2:]:
            before = before._replace(end_ns=each.end_ns)
            continue
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield before


def _unwaited(
    laid: Sequence[_Interval], path: Path, root: Activity, numbers: Mapping[int, int]
) -> Iterator[_Interval]:
    """Yield an empty interval for each name of an ended stage that has none on the path."""
    shown = {each.name for each in laid}
    begins_ns = [each.begin_ns for each in laid]
    stages = [root] if root.kind is Kind.STAGE else []
    stages += [
        inner.activity
        for inner in path.inside
        if inner.activity.kind is Kind.STAGE and inner.end_ns is not None
    ]
    for stage in stages:
        if stage.name not in shown:
            shown.add(stage.name)
            # Between two intervals, so that no interval is divided.
            before = bisect_right(begins_ns, stage.start_ns) - 1
            at_ns = begins_ns[max(before, 0)] if begins_ns else root.start_ns
            step = numbers[id(stage)]
            belongs = (step, _is_own(stage, root, step))
            yield _Interval(at_ns, at_ns, stage.name, stage.source, *belongs)


def _others(inside: Iterable[Inner], root: Activity) -> Mapping[int, int | None]:
    """Return for each edge when something else last ran on the event loop before it."""
    others: dict[int, int | None] = {}
    for child in [inner.activity for inner in inside]:
        others[child.start_ns] = child.start_other_ns
        if child.done_ns is not None:
            others[child.done_ns] = child.done_other_ns
    if root.done_ns is not None and root.done_other_ns is not None:
        others[root.done_ns] = root.done_other_ns
    return others


def _steps(inside: Sequence[Inner], root: Activity) -> tuple[tuple[Step, ...], dict[int, int]]:
    """Return the steps, and the number of the step of each activity by its identity."""
    numbers = {id(root): 0}
    ordered = sorted(
        (
            (inner.activity.kind, inner)
            for inner in inside
            if inner.activity.kind is not None and inner.activity.is_step
        ),
        key=lambda each: each[1].activity.start_ns,
    )
    for number, (_, inner) in enumerate(ordered, start=1):
        numbers[id(inner.activity)] = number
    parents: dict[int, int] = {}
    for activity, parent, _, owner in inside:
        # Each activity comes after those around it.
        parents[id(activity)] = numbers[id(parent)]
        numbers.setdefault(id(activity), numbers[id(owner)])
    steps: list[Step] = []
    for kind, (activity, _, end_ns, _) in ordered:
        begin_ns = max(0, activity.start_ns - root.start_ns)
        until_ns = None if end_ns is None else max(begin_ns, end_ns - root.start_ns)
        count = 1 if activity.merged is None else activity.merged
        parent = parents[id(activity)]
        steps.append(Step(activity.name, kind, begin_ns, until_ns, parent, count))
    return tuple(steps), numbers
