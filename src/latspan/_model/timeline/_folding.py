"""
Folding of many activities into a few: their positions are lost, their sums are exact.

Activities of one name inside activities of the same names become one, as long as the time for which
the request waited for them. They are laid end to end, so the path through them has the same sums.
What is folded must have ended. If nothing that is still open, or that begins later, overlaps it,
the path of the whole request has the same sums too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from latspan._model.segments import Kind, Segment, Source
from latspan._model.timeline._activity import KEPT_ONE_BY_ONE, Activity, Inside, as_activity
from latspan._model.timeline._path import clipped, path_of

_Name = tuple[Kind | None, str, Source]


@dataclass(slots=True)
class _Sum:
    """Activities of one name inside activities of the same names."""

    count: int = 0
    own_ns: int = 0
    segments: dict[tuple[str, Source], int] = field(default_factory=dict[tuple[str, Source], int])
    visible: list[tuple[int, Source]] = field(default_factory=list[tuple[int, Source]])
    streamed: bool = False
    inside: dict[_Name, _Sum] = field(default_factory=dict[_Name, "_Sum"])

    def add(self, activity: Activity) -> None:
        """Count an activity."""
        self.count += 1 if activity.merged is None else activity.merged
        self.streamed = self.streamed or activity.streamed
        if activity.first_visible_ns is not None:
            self.visible.append((activity.first_visible_ns, activity.first_visible_source))


def fold(node: Activity) -> int:
    """
    Fold the activities inside a request or stage that have ended.

    Those that overlap an open one are kept one by one, up to a number: whether the request will
    have waited for them depends on the end of that one. Beyond, they are folded too, and the path
    through them is inferred.

    Args:
        node: The request or stage; its children that were known at the start are replaced. Other
            threads may append children meanwhile.

    Returns:
        Number of activities that are left inside it.
    """
    known = len(node.children)
    resolved = [(child, as_activity(child)) for child in node.children[:known]]
    still_open: list[tuple[Inside, Activity]] = []
    ended: list[Activity] = []
    for child, activity in resolved:
        if activity is None:
            continue
        if _has_ended(activity):
            ended.append(activity)
        else:
            still_open.append((child, activity))
    first_open_ns = min((activity.start_ns for _, activity in still_open), default=None)
    certain, rest = _before(ended, first_open_ns)
    kept = folded(node, certain)
    if len(rest) + len(still_open) > KEPT_ONE_BY_ONE:
        kept += folded(node, rest, is_inferred=True)
    else:
        kept += rest
    node.children[:known] = [*kept, *(child for child, _ in still_open)]
    return sum(_size(activity) for activity in (*kept, *(each for _, each in still_open)))


def folded(
    node: Activity, ended: Sequence[Activity], *, is_inferred: bool = False
) -> list[Activity]:
    """
    Return activities with the same sums, one per name.

    Args:
        node: The request or stage that they are inside of.
        ended: Activities that have ended, with all that is inside them.
        is_inferred: Whether something overlaps them that may have been waited for instead.
    """
    if not ended:
        return []
    begin_ns = min(activity.start_ns for activity in ended)
    end_ns = max(activity.done_ns or activity.start_ns for activity in ended)
    window = Activity(node.kind, node.name, begin_ns, end_ns, children=list(ended))
    path = path_of(window, end_ns, keeps_open=False)
    sums = {id(window): _Sum()}
    for activity, parent, *_ in path.inside:
        name = (activity.kind, activity.name, activity.source)
        held = sums[id(parent)].inside.setdefault(name, _Sum())
        held.add(activity)
        sums[id(activity)] = held
    for piece in path.pieces:
        held = sums[id(piece.owner)]
        if piece.owner.segments:
            for low_ns, high_ns, name, source in clipped(piece):
                held.segments.setdefault((name, source), 0)
                held.segments[name, source] += high_ns - low_ns
        else:
            held.own_ns += piece.end_ns - piece.begin_ns
    laid = _laid(sums[id(window)], begin_ns)
    left_ns = end_ns - begin_ns if is_inferred else path.inferred_ns
    for activity in laid:
        activity.inferred_ns = min(left_ns, (activity.done_ns or 0) - activity.start_ns)
        left_ns -= activity.inferred_ns
    return laid


def _laid(within: _Sum, begin_ns: int) -> list[Activity]:
    """Return the activities inside one, end to end."""
    lengths = _lengths(within)
    laid: list[Activity] = []
    # A stack instead of recursion: stages may be nested deeper than Python's stack.
    todo: list[tuple[_Sum, int, Activity | None]] = [(within, begin_ns, None)]
    while todo:
        each, at_ns, around = todo.pop()
        for (kind, name, source), held in each.inside.items():
            first_ns, first_source = min(held.visible, default=(None, Source.MEASURED))
            activity = Activity(
                kind,
                name,
                at_ns,
                at_ns + lengths[id(held)],
                source=source,
                segments=_end_to_end(held),
                first_visible_ns=first_ns,
                first_visible_source=first_source,
                streamed=held.streamed,
                merged=held.count,
            )
            if around is None:
                laid.append(activity)
            else:
                around.children.append(activity)
            todo.append((held, at_ns, activity))
            at_ns += lengths[id(held)]
    return laid


def _lengths(within: _Sum) -> dict[int, int]:
    """Return the time in the activities of each sum, with those inside them, by its identity."""
    order = [within]
    for each in order:
        order += each.inside.values()
    lengths: dict[int, int] = {}
    for each in reversed(order):
        inside_ns = sum(lengths[id(held)] for held in each.inside.values())
        lengths[id(each)] = inside_ns + each.own_ns + sum(each.segments.values())
    return lengths


def _end_to_end(held: _Sum) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    at_ns = 0
    for (name, source), length_ns in held.segments.items():
        segments.append(Segment(name, at_ns, at_ns + length_ns, source))
        at_ns += length_ns
    return tuple(segments)


def _before(
    ended: Iterable[Activity], limit_ns: int | None
) -> tuple[list[Activity], list[Activity]]:
    """Return the activities that nothing else overlaps up to a limit, and the others."""
    if limit_ns is None:
        return list(ended), []
    certain: list[Activity] = []
    rest: list[Activity] = []
    for activity in sorted(ended, key=_end, reverse=True):
        if _end(activity) <= limit_ns:
            certain.append(activity)
        else:
            rest.append(activity)
            limit_ns = min(limit_ns, activity.start_ns)
    return sorted(certain, key=_start), sorted(rest, key=_start)


def _whole(activity: Activity) -> Iterator[Activity]:
    """Yield an activity and all that is inside it."""
    waiting = [activity]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [child for inside in each.children if (child := as_activity(inside)) is not None]


def _has_ended(activity: Activity) -> bool:
    return all(each.done_ns is not None for each in _whole(activity))


def _start(activity: Activity) -> int:
    return activity.start_ns


def _end(activity: Activity) -> int:
    """Return the last end of an activity and of all that is inside it."""
    return max(each.done_ns or each.start_ns for each in _whole(activity))


def _size(activity: Activity) -> int:
    return sum(1 for _ in _whole(activity))
