"""Timeline of a scope: a request or stage that contains calls and stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from latspan._model.metrics import DURATION, TIME_TO_FIRST_VISIBLE_TOKEN, MetricValue
from latspan._model.segments import Segment, SegmentName, Source
from latspan._model.timeline._delays import delay_of_own_code
from latspan._model.timeline._marks import Block, ChildInterval
from latspan._model.timeline._segment_builder import SegmentBuilder, Timeline


class ScopeTimeline(NamedTuple):
    """
    Timeline of a scope, and the part that the scope itself reports.

    Args:
        timeline: The whole timeline, with the segments of the last call.
        own: Segments that the scope itself reports: those of no call and no stage inside it, and
            ``call``. No time is counted twice. A stage has one under its own name, of 0 ns if the
            event loop was blocked for all of its time, or if all of it belongs to others.
    """

    timeline: Timeline
    own: tuple[Segment, ...]


def scope_timeline(
    start_ns: int,
    done_ns: int,
    *,
    calls: Sequence[ChildInterval] = (),
    stages: Sequence[ChildInterval] = (),
    own_name: str | None = None,
    own_source: Source = Source.MEASURED,
    blocks: Sequence[Block] = (),
    done_other_ns: int | None = None,
) -> ScopeTimeline:
    """
    Return the timeline of a request or of a stage.

    The call that began last contributes its own segments. The union of the other calls is the
    segment ``call``. Remaining time inside a stage belongs to the innermost stage. The rest is
    ``own_name``. If that is ``None``, the rest is ``prepare`` before the last call began,
    ``postprocess`` after it, and ``unattributed`` if there was no call. Outside calls, the time by
    which a block of the event loop delayed an edge is ``event_loop``.

    Args:
        start_ns: Start of the scope, monotonic nanoseconds.
        done_ns: End of the scope, monotonic nanoseconds.
        calls: Calls made inside it.
        stages: Stages inside it.
        own_name: Name of the segment for the scope's own time, if the scope is a stage.
        own_source: Source of the scope's own time.
        blocks: Blocks of the event loop.
        done_other_ns: Last instant before the end at which something else than the task of the
            scope is known to have run on the event loop; ``None`` if unknown.
    """
    done_ns = max(start_ns, done_ns)
    others = _others(calls, stages) if blocks else {}
    if done_other_ns is not None:
        others[done_ns] = done_other_ns
    last = last_of(calls)
    earlier = [call for call in calls if call is not last]
    builder = SegmentBuilder(start_ns, done_ns)
    own: list[Segment] = []

    def add(pieces: Iterable[_Interval]) -> None:
        # Grouped by owner and not by name: a stage may have any name, even that of the scope.
        for mine, run in groupby(pieces, key=lambda piece: piece.own):
            run_pieces = list(run)
            part = SegmentBuilder(builder.cursor_ns, builder.clamp(run_pieces[-1].end_ns))
            part.lay([(piece.end_ns, str(piece.name), piece.source) for piece in run_pieces])
            laid = builder.append(part.build(str(run_pieces[-1].name)))
            if mine:
                own.extend(laid)

    def add_own(until_ns: int, name: str, source: Source = Source.MEASURED) -> None:
        # The time of calls is not a stage's own time, but a request reports the time of its
        # earlier calls.
        call = _Interval(0, SegmentName.CALL, Source.MEASURED, own=own_name is None)
        rest = _Interval(0, name, source, own=True)
        begin_ns, end_ns = builder.cursor_ns, builder.clamp(until_ns)
        pieces = _sweep(begin_ns, end_ns, earlier, stages, call, rest)
        add(_delayed(pieces, begin_ns, blocks, others) if blocks else pieces)

    if last is None:
        add_own(
            done_ns,
            own_name or SegmentName.UNATTRIBUTED,
            own_source if own_name else Source.UNKNOWN,
        )
    else:
        add_own(last.start_ns, own_name or SegmentName.PREPARE)
        add(_opened(last, builder.clamp(last.done_ns), own=own_name is None))
        add_own(done_ns, own_name or SegmentName.POSTPROCESS)
    if own_name is not None and all(each.name != own_name for each in own):
        own.insert(0, Segment(own_name, 0, 0, own_source))
    metrics = {DURATION: MetricValue(done_ns - start_ns)}
    visible = [
        (call.first_visible_ns, call.first_visible_source)
        for call in calls
        if call.first_visible_ns is not None
    ]
    if visible:
        first_ns, source = min(visible)
        metrics[TIME_TO_FIRST_VISIBLE_TOKEN] = MetricValue(first_ns - start_ns, source)
    return ScopeTimeline(
        Timeline(
            start_ns=start_ns,
            done_ns=done_ns,
            segments=builder.build(str(own_name or SegmentName.UNATTRIBUTED)),
            metrics=metrics,
            marks={},
        ),
        tuple(own),
    )


class _Interval(NamedTuple):
    """
    Time up to an instant, and its owner.

    Args:
        end_ns: Its end, monotonic nanoseconds; it begins where the previous interval ends.
        name: The segment's name.
        source: How its time is known.
        own: Whether the scope reports it; otherwise a call or a stage inside it does.
    """

    end_ns: int
    name: str
    source: Source
    own: bool


def _opened(call: ChildInterval, end_ns: int, *, own: bool) -> Iterator[_Interval]:
    """Yield the segments of a call up to ``end_ns``; time that they do not cover is ``call``."""
    for segment in call.segments:
        edge_ns = min(call.start_ns + segment.end_ns, end_ns)
        yield _Interval(edge_ns, segment.name, segment.source, own=False)
    yield _Interval(end_ns, SegmentName.CALL, Source.MEASURED, own=own)


def _others(
    calls: Iterable[ChildInterval], stages: Iterable[ChildInterval]
) -> dict[int, int | None]:
    """Return for each edge when something else last ran on the event loop before it."""
    others: dict[int, int | None] = {}
    for child in (*calls, *stages):
        others[child.start_ns] = child.start_other_ns
        others[child.done_ns] = child.done_other_ns
    return others


def _delayed(
    pieces: Iterable[_Interval],
    begin_ns: int,
    blocks: Sequence[Block],
    others: Mapping[int, int | None],
) -> Iterator[_Interval]:
    """Yield the intervals, with the delays of edges outside calls as ``event_loop``."""
    for piece in pieces:
        delay = None
        if piece.name != SegmentName.CALL:
            delay = delay_of_own_code(blocks, begin_ns, piece.end_ns, others.get(piece.end_ns))
        if delay is not None:
            yield piece._replace(end_ns=delay.begin_ns)
            yield _Interval(delay.until_ns, SegmentName.EVENT_LOOP, Source.MEASURED, own=piece.own)
        yield piece
        begin_ns = piece.end_ns


def _sweep(
    begin_ns: int,
    end_ns: int,
    calls: Sequence[ChildInterval],
    stages: Sequence[ChildInterval],
    in_call: _Interval,
    otherwise: _Interval,
) -> Iterator[_Interval]:
    """
    Yield the interval that ends at each edge: ``in_call``, the innermost stage, or ``otherwise``.

    It takes one pass over the edges, because a request may contain thousands of calls.
    """
    for edge_ns, in_a_call, inside in states(begin_ns, end_ns, calls, stages):
        if in_a_call:
            yield in_call._replace(end_ns=edge_ns)
        elif inside:
            stage = innermost(inside)
            yield _Interval(edge_ns, stage.name, stage.source, own=stage.own)
        else:
            yield otherwise._replace(end_ns=edge_ns)


def last_of(calls: Iterable[ChildInterval]) -> ChildInterval | None:
    """Return the call that began last, if there is one; merged calls are never the last."""
    whole = (call for call in calls if call.merged is None)
    return max(whole, key=lambda call: call.start_ns, default=None)


def innermost(stages: Sequence[ChildInterval]) -> ChildInterval:
    """Return the stage that began last; if several began at one instant, the one opened last."""
    return max(reversed(stages), key=lambda stage: stage.start_ns)


def states(
    begin_ns: int, end_ns: int, calls: Iterable[ChildInterval], stages: Iterable[ChildInterval]
) -> Iterator[tuple[int, bool, Sequence[ChildInterval]]]:
    """
    Yield each instant at which a call or stage begins or ends, and what was open until then.

    Args:
        begin_ns: Start of the first period, monotonic nanoseconds.
        end_ns: The last instant that is yielded.
        calls: Calls in any order.
        stages: Stages in the order in which they were opened.

    Yields:
        The instant, whether a call was open, and the open stages. The list is valid only until the
        next item is requested.
    """
    edges: list[tuple[int, int, ChildInterval | None]] = []
    for call in calls:
        if call.start_ns < call.done_ns:
            edges += [(call.start_ns, 1, None), (call.done_ns, -1, None)]
    for stage in stages:
        if stage.start_ns < stage.done_ns:
            edges += [(stage.start_ns, 1, stage), (stage.done_ns, -1, stage)]
    edges.sort(key=lambda edge: edge[0])
    edges.append((end_ns, 0, None))
    running = 0
    inside: list[ChildInterval] = []
    for instant_ns, step, stage in edges:
        edge_ns = min(instant_ns, end_ns)
        # There is no time between two edges at the same instant, so nothing is yielded for the
        # second.
        if edge_ns > begin_ns:
            begin_ns = edge_ns
            yield edge_ns, running > 0, inside
        if instant_ns >= end_ns:
            return
        if stage is None:
            running += step
        elif step > 0:
            inside.append(stage)
        else:
            inside.remove(stage)
