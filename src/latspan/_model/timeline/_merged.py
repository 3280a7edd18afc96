"""
Merging of many calls and stages into a few: their positions are lost, their sums are exact.

Time is divided into cells at the start of each interval that is still open, and at both ends of the
last call. Each open interval then covers a cell either completely or not at all. So the ended
intervals in a cell can be laid end to end without a change of any sum: of the calls, of each stage,
and of the remaining time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from latspan._model.segments import SegmentName, Source
from latspan._model.timeline._marks import ChildInterval
from latspan._model.timeline._scope import innermost, last_of, states

_CALL: Final = SegmentName.CALL.value

_Stage = tuple[str, Source, bool, bool]
"""
Properties that distinguish stages: name, source, whether the scope itself reports them, and whether
they are HTTP exchanges.
"""


class _Cell:
    __slots__ = ("calls", "stages")

    def __init__(self) -> None:
        self.calls: list[ChildInterval] = []
        self.stages: list[ChildInterval] = []


def merged(
    calls: Iterable[ChildInterval],
    stages: Iterable[ChildInterval],
    *,
    open_calls: Iterable[ChildInterval] = (),
    open_stages: Iterable[ChildInterval] = (),
) -> tuple[list[ChildInterval], list[ChildInterval]]:
    """
    Return calls and stages with the same sums, at most one of each per cell and name.

    The timeline of a scope has the same sums with them, and so has the timeline of its stages
    without its calls. The call that began last is not changed. The caller must put open stages
    before the returned ones, because a returned stage may begin at the same instant as the open
    stage around it.

    Args:
        calls: Calls that have ended.
        stages: Stages that have ended, in the order in which they were opened.
        open_calls: Calls that have not ended; only their start is used.
        open_stages: Stages that have not ended; only their start is used.
    """
    calls = list(calls)
    last = last_of(calls)
    covers = sorted(stage.start_ns for stage in open_stages)
    edges = {*covers, *(call.start_ns for call in open_calls)}
    if last is not None:
        edges |= {last.start_ns, last.done_ns}
    cuts = sorted(edges)
    cells: defaultdict[int, _Cell] = defaultdict(_Cell)
    for call in calls:
        if call is not last:
            for number, part in _cut(call, cuts):
                cells[number].calls.append(part)
    # Sorted, so that if parts begin at the same cut, the part of the stage that began last is the
    # innermost.
    for stage in sorted(stages, key=lambda stage: stage.start_ns):
        for number, part in _cut(stage, cuts):
            covered = bisect_right(covers, part.start_ns)
            if not covered or covers[covered - 1] <= stage.start_ns:
                cells[number].stages.append(part)
            # Otherwise an open stage that began later is the innermost during this part.
    kept_calls: list[ChildInterval] = []
    kept_stages: list[ChildInterval] = []
    for _, cell in sorted(cells.items()):
        summed_calls, summed_stages = _summed(cell)
        kept_calls += summed_calls
        kept_stages += summed_stages
    return kept_calls if last is None else [*kept_calls, last], kept_stages


def _cut(interval: ChildInterval, cuts: Sequence[int]) -> Iterator[tuple[int, ChildInterval]]:
    """Yield the number of each cell that an interval overlaps, and the part in that cell."""
    first = bisect_right(cuts, interval.start_ns)
    inside = [cut for cut in cuts[first:] if cut < interval.done_ns]
    if not inside:
        yield first, interval
        return
    ends = [interval.start_ns, *inside, interval.done_ns]
    counts = _counts(interval)
    for number, (start_ns, done_ns) in enumerate(pairwise(ends), start=first):
        # An interval is counted only in the cell in which it begins.
        yield number, interval._replace(start_ns=start_ns, done_ns=done_ns, merged=counts)
        counts = 0


def _counts(interval: ChildInterval) -> int:
    return 1 if interval.merged is None else interval.merged


@dataclass(slots=True)
class _Sum:
    """
    Time during which a stage was the innermost, the part inside calls, and the number of stages.
    """

    total_ns: int = 0
    in_calls_ns: int = 0
    count: int = 0


def _summed(cell: _Cell) -> tuple[list[ChildInterval], list[ChildInterval]]:
    """Return the calls and the stages of a cell as one interval per name, laid end to end."""
    parts = [*cell.calls, *cell.stages]
    if len(parts) == 1:
        # Only the segments of the last call are used.
        return [call._replace(segments=()) for call in cell.calls], cell.stages
    begin_ns = min(part.start_ns for part in parts)
    end_ns = max(part.done_ns for part in parts)
    sums: defaultdict[_Stage | None, _Sum] = defaultdict(_Sum)
    for stage in cell.stages:
        sums[_kind_of(stage)].count += _counts(stage)
    at_ns = begin_ns
    for edge_ns, in_a_call, inside in states(begin_ns, end_ns, cell.calls, cell.stages):
        spent = sums[_kind_of(innermost(inside)) if inside else None]
        spent.total_ns += edge_ns - at_ns
        spent.in_calls_ns += in_a_call * (edge_ns - at_ns)
        at_ns = edge_ns
    return _laid(begin_ns, sums, cell.calls)


def _kind_of(stage: ChildInterval) -> _Stage:
    return stage.name, stage.source, stage.own, stage.is_exchange


def _laid(
    begin_ns: int, sums: dict[_Stage | None, _Sum], merged_calls: Sequence[ChildInterval]
) -> tuple[list[ChildInterval], list[ChildInterval]]:
    calls: list[ChildInterval] = []
    stages: list[ChildInterval] = []
    at_ns = begin_ns
    for kind, spent in sums.items():
        if kind is not None:
            name, source, own, is_exchange = kind
            stages.append(
                ChildInterval(
                    name,
                    at_ns,
                    at_ns + spent.total_ns,
                    own=own,
                    is_exchange=is_exchange,
                    source=source,
                    merged=spent.count,
                )
            )
        if spent.in_calls_ns:
            calls.append(ChildInterval(_CALL, at_ns, at_ns + spent.in_calls_ns, merged=0))
        at_ns += spent.total_ns
    if merged_calls:
        visible = [
            (call.first_visible_ns, call.first_visible_source)
            for call in merged_calls
            if call.first_visible_ns is not None
        ]
        first_ns, source = min(visible, default=(None, Source.MEASURED))
        first = calls[0] if calls else ChildInterval(_CALL, begin_ns, begin_ns)
        calls[:1] = [
            first._replace(
                first_visible_ns=first_ns,
                first_visible_source=source,
                streamed=any(call.streamed for call in merged_calls),
                merged=sum(map(_counts, merged_calls)),
            )
        ]
    return calls, stages
