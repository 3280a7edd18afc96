"""Activities inside a request or stage, held in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from latspan._model.segments import Kind, totals
from latspan._model.timeline import KEPT_ONE_BY_ONE, Activity, Inside, as_activity


class Contents:
    """
    Activities inside a request or stage.

    A request may stay open for the lifetime of the process and contain any number of calls. Past
    512 activities the ended ones are folded: their sums stay exact, their individual positions are
    lost. Adding takes no lock. Only one thread folds, and readers copy the list.

    Args:
        activity: The request or stage itself.
        enqueue: Function that runs a fold, inline or on the worker thread.
    """

    __slots__ = ("_enqueue", "_fold_from", "_folding", "_held", "activity")

    def __init__(self, activity: Activity, enqueue: Callable[[Callable[[], None]], None]) -> None:
        self.activity = activity
        self._enqueue = enqueue
        self._held = 0
        self._fold_from = KEPT_ONE_BY_ONE
        self._folding = threading.Lock()

    def add(self, child: Inside) -> None:
        """Add an activity that has just started."""
        self.activity.children.append(child)
        self.hold(1)

    def hold(self, count: int) -> None:
        """Count activities that are now held, here or inside an activity that has ended."""
        self._held += count
        if self._held >= self._fold_from:
            self._enqueue(self._fold)

    @property
    def held(self) -> int:
        """Number of activities that are held."""
        return self._held

    def stages_ns(self) -> list[tuple[str, int]]:
        """
        Return the durations of the ended stages in nanoseconds, including the calls in them.

        HTTP exchanges are not stages: a client of a served request must not see their hosts.
        """
        stages = _ended_stages(self.activity)
        if not stages:
            return []
        from latspan._model.timeline import scope_timeline

        root = Activity(
            Kind.REQUEST,
            "",
            min(stage.start_ns for stage in stages),
            max(stage.done_ns or 0 for stage in stages),
            children=list(stages),
        )
        names = {each.name for each in _inside(stages)}
        return [
            (name, duration_ns)
            for name, duration_ns, _ in totals(scope_timeline(root).timeline.segments)
            if name in names
        ]

    def _fold(self) -> None:
        # Each activity added since then has requested this as well, so it may be superfluous.
        if self._held < self._fold_from or not self._folding.acquire(blocking=False):
            return
        try:
            from latspan._model.timeline import fold

            self._held = fold(self.activity)
            # Open activities and distinct names cannot be folded; if many are left, the next fold
            # starts at twice their number.
            self._fold_from = max(KEPT_ONE_BY_ONE, 2 * self._held)
        finally:
            self._folding.release()


def _ended_stages(node: Activity) -> list[Activity]:
    """Return the ended stages inside an activity, each with the ended stages inside it only."""
    found: list[Activity] = []
    for child in map(as_activity, node.children.copy()):
        if child is None:
            continue
        inside = _ended_stages(child)
        if child.kind is Kind.STAGE and child.done_ns is not None:
            found.append(
                Activity(
                    child.kind,
                    child.name,
                    child.start_ns,
                    child.done_ns,
                    was_cut=child.was_cut,
                    source=child.source,
                    children=list(inside),
                )
            )
        else:
            found += inside
    return found


def _inside(stages: list[Activity]) -> Iterator[Activity]:
    for stage in stages:
        yield stage
        yield from _inside([each for each in stage.children if isinstance(each, Activity)])
