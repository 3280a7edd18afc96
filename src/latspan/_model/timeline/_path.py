"""
Path of a request: the activities that it waited for, one at each instant.

**The walk.** From the end backwards: of the activities that are open just before an instant, the
one that began first is what was waited for, from that instant back to its start. If none is open,
the time back to the latest end of one is the request's own. The same applies inside each activity.
This is the path of the last finisher (Dapper, CRISP), extended to starts during an open activity: a
tool that begins during a stream keeps the stream before it.

**Where an activity belongs.** An activity belongs to the one in which it began. One that outlives
that one (a task begun in a stage, and awaited after it) belongs to the innermost activity around it
that it does not outlive: it neither wins inside the stage, nor is it the request's own time.

**What counts.** If a request ended by itself, it did not wait for what was still open then; in a
request that was cut, that counts up to the end. Two kinds of activities count only where nothing
else was waited for. One that was itself cancelled or closed early: so the loser of a race is not on
the path, and a call that was given up after 5 s, before a fallback, keeps its 5 s. And one that
ended inside an activity that was open when the request ended: the stage of a producer, which ends
just after its last result was read, does not hide the work in it.

**Consumers.** While an application handles a chunk of a stream, it does not wait for the stream. So
the parts ``consumer`` of a call count only where no other activity with the same parent is open: a
tool that runs in the loop over a stream has its time.

**Certainty.** Instants do not show which activities the request waited for. Where two activities
with the same parent were open, the path is inferred.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

from latspan._model.segments import SegmentName, Source
from latspan._model.timeline._activity import Activity, as_activity

Interval = tuple[int, int]
"""Begin and end, monotonic nanoseconds."""


class _Around(NamedTuple):
    """
    Activity around another one.

    Args:
        activity: The activity.
        end_ns: Its end; ``None`` if it was open when the request ended by itself.
        outer: The activity around it; ``None`` for the request.
    """

    activity: Activity
    end_ns: int | None
    outer: _Around | None


class Piece(NamedTuple):
    """
    Part of a path.

    Args:
        begin_ns: Its begin, monotonic nanoseconds.
        end_ns: Its end, after its begin.
        owner: Activity whose own time it is.
    """

    begin_ns: int
    end_ns: int
    owner: Activity


class Inner(NamedTuple):
    """
    Activity inside a request or stage.

    Args:
        activity: The activity.
        parent: The activity in which it began.
        end_ns: Its end, at most that of the request; ``None`` if it was open when the request
            ended by itself.
        owner: The activity to which it belongs; ``parent`` if it was open.
    """

    activity: Activity
    parent: Activity
    end_ns: int | None
    owner: Activity


class Path(NamedTuple):
    """
    Path of a request or stage.

    Args:
        pieces: Its parts, in the order of time, without a gap or an overlap.
        inferred_ns: Time in which two activities with the same parent were open, in nanoseconds.
        inside: What the request contains, on the path or not, each after the one that it is in.
    """

    pieces: list[Piece]
    inferred_ns: int
    inside: list[Inner]


class _Bounded(NamedTuple):
    """
    Activity, or a part of one, that is part of what an activity waited for.

    The order is that in which open ones are waited for.

    Args:
        yields: Whether it is a part in which it yields to every other activity.
        start_ns: Start of the activity, monotonic nanoseconds.
        opened: Number of activities that precede it in the tree.
        begin_ns: Begin of the part.
        end_ns: End of the part, at most that of the request.
        counts_last: Whether it counts only where nothing else was waited for.
        activity: The activity.
    """

    yields: bool
    start_ns: int
    opened: int
    begin_ns: int
    end_ns: int
    counts_last: bool
    activity: Activity


def path_of(root: Activity, until_ns: int, *, keeps_open: bool) -> Path:
    """
    Return the path of a request or stage.

    Args:
        root: The request or stage.
        until_ns: Its end, monotonic nanoseconds.
        keeps_open: Whether what is open at the end counts: the request was cut.
    """
    inside, waited = _inside(root, until_ns, keeps_open=keeps_open)
    pieces: list[Piece] = []
    inferred: list[Interval] = []
    # A stack instead of recursion: a chain of activities may be deeper than Python's stack.
    todo = [(root, root.start_ns, until_ns, False)]
    while todo:
        node, begin_ns, end_ns, is_last = todo.pop()
        eligible = [each for each in waited.get(id(node), ()) if each.counts_last is is_last]
        if len(eligible) > 1:
            eligible = [part for each in eligible for part in _parts(each)]
            inferred += _overlapping(eligible, begin_ns, end_ns)
        for child, low_ns, high_ns in _walk(eligible, begin_ns, end_ns):
            if child is not None:
                todo.append((child, low_ns, high_ns, False))
                if child.inferred_ns:
                    inferred.append((low_ns, min(high_ns, low_ns + child.inferred_ns)))
            elif is_last:
                pieces.append(Piece(low_ns, high_ns, node))
            else:
                todo.append((node, low_ns, high_ns, True))
    return Path(_joined(pieces), sum(end - begin for begin, end in _union(inferred)), inside)


def clipped(piece: Piece) -> Iterator[tuple[int, int, str, Source]]:
    """
    Yield the segments of a call in a piece.

    Yields:
        Begin and end, monotonic nanoseconds, name and source; the name is that of the own time of
        the call where it has no segment.
    """
    cursor_ns, until_ns, call = piece
    for name, _, end_ns, source in call.segments:
        edge_ns = min(call.start_ns + end_ns, until_ns)
        if edge_ns > cursor_ns:
            yield cursor_ns, edge_ns, name, source
            cursor_ns = edge_ns
    if cursor_ns < until_ns:
        yield cursor_ns, until_ns, call.own_name, call.own_source


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Return the pieces in the order of time, adjacent ones of one owner as one."""
    joined: list[Piece] = []
    for piece in sorted(pieces, key=_begin):
        if joined and joined[-1].owner is piece.owner:
            joined[-1] = joined[-1]._replace(end_ns=piece.end_ns)
        else:
            joined.append(piece)
    return joined


def _begin(piece: Piece) -> int:
    return piece.begin_ns


def _inside(
    root: Activity, until_ns: int, *, keeps_open: bool
) -> tuple[list[Inner], dict[int, list[_Bounded]]]:
    """Return what a request contains, and what belongs to each activity, by its identity."""
    inside: list[Inner] = []
    waited: dict[int, list[_Bounded]] = {}
    opened = count()
    todo = [_Around(root, until_ns, None)]
    while todo:
        around = todo.pop()
        node = around.activity
        deeper: list[_Around] = []
        # A copy: another thread may fold the children meanwhile.
        for child in map(as_activity, node.children.copy()):
            if child is None:
                continue
            end_ns = child.done_ns
            if end_ns is None or end_ns > until_ns:
                end_ns = until_ns if keeps_open else None
            owner = node
            if end_ns is not None:
                owner, is_in_open = _owner(around, end_ns)
                start_ns = child.start_ns
                waited.setdefault(id(owner), []).append(
                    _Bounded(
                        yields=False,
                        start_ns=start_ns,
                        opened=next(opened),
                        begin_ns=start_ns,
                        end_ns=end_ns,
                        counts_last=child.was_cut or is_in_open,
                        activity=child,
                    )
                )
            inside.append(Inner(child, node, end_ns, owner))
            if child.children:
                deeper.append(_Around(child, end_ns, around))
        # The stack returns the last one first.
        todo += reversed(deeper)
    return inside, waited


def _owner(around: _Around, end_ns: int) -> tuple[Activity, bool]:
    """
    Return the activity to which one with that end belongs, and whether an open one is between.

    An open activity was not waited for, so what ended inside it belongs to one around it.
    """
    is_in_open = False
    each: _Around | None = around
    while each is not None:
        if each.end_ns is None:
            is_in_open = True
        elif end_ns <= each.end_ns:
            return each.activity, is_in_open
        each = each.outer
    raise ValueError("an activity ends after the request")


def _parts(bounded: _Bounded) -> Iterator[_Bounded]:
    """Yield the parts of a call that are ``consumer``, and those between them; else the whole."""
    call = bounded.activity
    begin_ns = bounded.begin_ns
    for name, start_ns, end_ns, _ in call.segments:
        if name == SegmentName.CONSUMER:
            low_ns = min(call.start_ns + start_ns, bounded.end_ns)
            high_ns = min(call.start_ns + end_ns, bounded.end_ns)
            if begin_ns < low_ns:
                yield bounded._replace(begin_ns=begin_ns, end_ns=low_ns)
            if low_ns < high_ns:
                yield bounded._replace(yields=True, begin_ns=low_ns, end_ns=high_ns)
            begin_ns = high_ns
    if begin_ns < bounded.end_ns:
        yield bounded._replace(begin_ns=begin_ns)


def _walk(
    children: Sequence[_Bounded], begin_ns: int, until_ns: int
) -> Iterator[tuple[Activity | None, int, int]]:
    """Yield who was waited for, from the end backwards; ``None`` for the activity itself."""
    by_end = sorted((each for each in children if each.begin_ns < each.end_ns), key=_end)
    opened: list[_Bounded] = []
    cursor_ns = until_ns
    while cursor_ns > begin_ns:
        while by_end and by_end[-1].end_ns >= cursor_ns:
            heapq.heappush(opened, by_end.pop())
        while opened and opened[0].begin_ns >= cursor_ns:
            heapq.heappop(opened)
        child, low_ns = None, begin_ns
        if opened:
            child, low_ns = opened[0].activity, max(opened[0].begin_ns, begin_ns)
        if by_end and (not opened or opened[0].yields):
            low_ns = max(low_ns, by_end[-1].end_ns)
        yield child, low_ns, cursor_ns
        cursor_ns = low_ns


def _end(bounded: _Bounded) -> int:
    return bounded.end_ns


def _overlapping(children: Iterable[_Bounded], begin_ns: int, end_ns: int) -> Iterator[Interval]:
    """Yield the intervals in which at least two activities were open."""
    edges: list[Interval] = []
    for child in children:
        low_ns, high_ns = max(child.begin_ns, begin_ns), min(child.end_ns, end_ns)
        if low_ns < high_ns and not child.yields:
            edges += ((low_ns, 1), (high_ns, -1))
    edges.sort()
    running, since_ns = 0, begin_ns
    for instant_ns, step in edges:
        if running > 1 and instant_ns > since_ns:
            yield since_ns, instant_ns
        running += step
        since_ns = instant_ns


def _union(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Yield disjoint intervals that cover the same instants."""
    reached_ns: int | None = None
    for begin_ns, end_ns in sorted(intervals):
        low_ns = begin_ns if reached_ns is None else max(begin_ns, reached_ns)
        if low_ns < end_ns:
            yield low_ns, end_ns
            reached_ns = end_ns
