"""Calls, stages and HTTP exchanges inside a request or stage, held in bounded memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from latspan._model.segments import Source, totals
from latspan._model.timeline import ChildInterval

Inside = ChildInterval | Callable[[int], ChildInterval]
"""
Call, stage or HTTP exchange inside a request or stage.

An open one is a function that takes the end of the enclosing scope and returns the interval.
"""

KEPT_ONE_BY_ONE: Final = 512
"""Number of calls, and of stages, held individually: a call takes 3 kB, a stage 0.6 kB."""

_STILL_OPEN: Final = -1
"""End of an interval that is still open; a monotonic clock never returns this value."""


class Place:
    """
    Position of a stage in the enclosing scopes.

    It does not refer to the stage, because the stage refers to the enclosing scopes: a reference
    cycle would keep all of them until Python's garbage collector runs, and model servers switch
    that off.

    Args:
        name: Name of the stage.
        start_ns: Start of the stage, monotonic nanoseconds.
    """

    __slots__ = ("_name", "_start_ns", "done_ns", "done_other_ns", "source", "start_other_ns")

    def __init__(self, name: str, start_ns: int) -> None:
        self._name = name
        self._start_ns = start_ns
        self.done_ns: int | None = None
        """End of the stage, monotonic nanoseconds; ``None`` while it is open."""
        self.start_other_ns: int | None = None
        self.done_other_ns: int | None = None
        self.source = Source.MEASURED
        """Source of the stage's times."""

    def __call__(self, until_ns: int) -> ChildInterval:
        """Return the interval of the stage in a scope that ended at ``until_ns``."""
        done_ns = until_ns if self.done_ns is None else self.done_ns
        return ChildInterval(
            self._name,
            self._start_ns,
            done_ns,
            source=self.source,
            start_other_ns=self.start_other_ns,
            done_other_ns=self.done_other_ns,
        )


class Contents:
    """
    Calls and stages inside a request or stage.

    A request may stay open for the lifetime of the process and contain any number of calls. Past
    512 entries the ended ones are merged: their sums stay exact, their individual positions are
    lost. Appending takes no lock. Merging and reading share a lock, which is held only while lists
    are exchanged or copied.

    Args:
        enqueue: Function that runs a merge, inline or on the worker thread.
    """

    __slots__ = ("_calls", "_enqueue", "_exchange", "_merge_from", "_merging", "_stages")

    def __init__(self, enqueue: Callable[[Callable[[], None]], None]) -> None:
        self._enqueue = enqueue
        self._calls: list[Inside] = []
        self._stages: list[Inside] = []
        self._merge_from = KEPT_ONE_BY_ONE
        self._merging = threading.Lock()
        self._exchange = threading.RLock()

    def add_call(self, call: Inside) -> None:
        """Add a call that has just started."""
        self._calls.append(call)
        if len(self._calls) >= self._merge_from:
            self._enqueue(self._merge)

    def add_stage(self, stage: Inside) -> None:
        """Add a stage, or an HTTP exchange outside any call, that has just started."""
        self._stages.append(stage)
        if len(self._stages) >= self._merge_from:
            self._enqueue(self._merge)

    def intervals(self, until_ns: int) -> tuple[list[ChildInterval], list[ChildInterval]]:
        """Return the calls and the stages; the open ones end at ``until_ns``."""
        calls, stages = self._held()
        return _intervals(calls, until_ns), _intervals(stages, until_ns)

    def stages_ns(self) -> list[tuple[str, int]]:
        """
        Return the durations of the ended stages in nanoseconds, including the calls in them.

        HTTP exchanges are not stages: a client of a served request must not see their hosts.
        """
        _, stages = self._held()
        over = [
            stage
            for stage in _intervals(stages, _STILL_OPEN)
            if stage.done_ns != _STILL_OPEN and not stage.is_exchange
        ]
        if not over:
            return []
        from latspan._model.timeline import scope_timeline

        begun_ns = min(stage.start_ns for stage in over)
        work = scope_timeline(begun_ns, max(stage.done_ns for stage in over), stages=over)
        names = {stage.name for stage in over}
        return [
            (name, duration_ns)
            for name, duration_ns, _ in totals(work.timeline.segments)
            if name in names
        ]

    def clear(self) -> None:
        """Drop all calls and stages."""
        with self._exchange:
            self._calls.clear()
            self._stages.clear()

    def _held(self) -> tuple[tuple[Inside, ...], tuple[Inside, ...]]:
        with self._exchange:
            return tuple(self._calls), tuple(self._stages)

    def _merge(self) -> None:
        # Each entry added since then has requested a merge as well, so this one may be superfluous.
        if max(len(self._calls), len(self._stages)) < self._merge_from:
            return
        from latspan._model.timeline import merged

        if not self._merging.acquire(blocking=False):
            return
        try:
            calls, stages = self._held()
            calls_over, calls_open = _parted(calls)
            stages_over, stages_open = _parted(stages)
            merged_calls, merged_stages = merged(
                calls_over,
                stages_over,
                open_calls=_intervals(calls_open, _STILL_OPEN),
                open_stages=_intervals(stages_open, _STILL_OPEN),
            )
            with self._exchange:
                # Other threads may have appended entries after these.
                self._calls[: len(calls)] = [*merged_calls, *calls_open]
                self._stages[: len(stages)] = [*stages_open, *merged_stages]
                left = max(len(self._calls), len(self._stages))
            # Open entries and distinct names cannot be merged; if many are left, the next merge
            # starts at twice their number.
            self._merge_from = max(KEPT_ONE_BY_ONE, 2 * left)
        finally:
            self._merging.release()


def _intervals(held: Iterable[Inside], until_ns: int) -> list[ChildInterval]:
    return [each if isinstance(each, ChildInterval) else each(until_ns) for each in held]


def _parted(held: Iterable[Inside]) -> tuple[list[ChildInterval], list[Inside]]:
    """Return the intervals of the ended entries, and the open entries."""
    over: list[ChildInterval] = []
    still_open: list[Inside] = []
    for each in held:
        interval = each if isinstance(each, ChildInterval) else each(_STILL_OPEN)
        if interval.done_ns == _STILL_OPEN:
            still_open.append(each)
        else:
            over.append(interval)
    return over, still_open
