"""The calls and stages inside a unit of work, in memory that is bounded however many they are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from latspan._segments import Source, totals
from latspan._timeline import Interval, merged, work_timeline

__all__ = ["KEPT_ONE_BY_ONE", "Contents", "Inside", "Place"]

Inside = Interval | Callable[[int], Interval]
"""
A call or a stage inside a unit of work.

What is not over yet returns its interval, given the instant at which the unit ended.
"""

KEPT_ONE_BY_ONE: Final = 512
"""Calls, and stages, that are held one by one: a call takes 3 kB, a stage 0.6 kB."""

_STILL_OPEN: Final = -1
"""No instant of a monotonic clock's: the end of what has none yet."""


class Place:
    """
    The place of a stage in the units around it.

    It does not refer to the stage, which refers to the units around it: a cycle would keep all of
    them until Python's collector runs, and model servers switch that off.

    Args:
        name: The stage's name.
        start_ns: Its start, monotonic nanoseconds.
    """

    __slots__ = ("_name", "_start_ns", "done_ns", "source")

    def __init__(self, name: str, start_ns: int) -> None:
        self._name = name
        self._start_ns = start_ns
        self.done_ns: int | None = None
        """Its end, ``None`` as long as it is open."""
        self.source = Source.MEASURED
        """How its time is known."""

    def __call__(self, until_ns: int) -> Interval:
        """Return the stage as it is in a unit that ended at ``until_ns``."""
        done_ns = until_ns if self.done_ns is None else self.done_ns
        return Interval(self._name, self._start_ns, done_ns, source=self.source)


class Contents:
    """
    What is inside a unit of work.

    A unit may stay open for as long as its process, with any number of calls. Beyond 512 those
    that are over are merged: their sums stay exact, where in the unit each of them was is given
    up. Appending takes no lock. Merging and reading share one, which is held to exchange and to
    copy lists.

    Args:
        settle: Runs a merge: now, or on latspan's own thread.
    """

    __slots__ = ("_calls", "_exchange", "_merge_from", "_merging", "_settle", "_stages")

    def __init__(self, settle: Callable[[Callable[[], None]], None]) -> None:
        self._settle = settle
        self._calls: list[Inside] = []
        self._stages: list[Inside] = []
        self._merge_from = KEPT_ONE_BY_ONE
        self._merging = threading.Lock()
        self._exchange = threading.RLock()

    def add_call(self, call: Inside) -> None:
        """Add a call, begun just now."""
        self._calls.append(call)
        if len(self._calls) >= self._merge_from:
            self._settle(self._merge)

    def add_stage(self, stage: Inside) -> None:
        """Add a stage, begun just now."""
        self._stages.append(stage)
        if len(self._stages) >= self._merge_from:
            self._settle(self._merge)

    def intervals(self, until_ns: int) -> tuple[list[Interval], list[Interval]]:
        """Return the calls and the stages, of which those that are open end at ``until_ns``."""
        calls, stages = self._held()
        return _intervals(calls, until_ns), _intervals(stages, until_ns)

    def stages_ns(self) -> list[tuple[str, int]]:
        """Return how long each stage took that is over, the calls in it included."""
        _, stages = self._held()
        over = [stage for stage in _intervals(stages, _STILL_OPEN) if stage.done_ns != _STILL_OPEN]
        if not over:
            return []
        begun_ns = min(stage.start_ns for stage in over)
        work = work_timeline(begun_ns, max(stage.done_ns for stage in over), stages=over)
        names = {stage.name for stage in over}
        return [
            (name, duration_ns)
            for name, duration_ns, _ in totals(work.timeline.segments)
            if name in names
        ]

    def clear(self) -> None:
        """Let go of everything."""
        with self._exchange:
            self._calls.clear()
            self._stages.clear()

    def _held(self) -> tuple[tuple[Inside, ...], tuple[Inside, ...]]:
        with self._exchange:
            return tuple(self._calls), tuple(self._stages)

    def _merge(self) -> None:
        # Each one that was added meanwhile has asked for a merge too.
        if max(len(self._calls), len(self._stages)) < self._merge_from:
            return
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
                # Others may have been added meanwhile, behind these.
                self._calls[: len(calls)] = [*merged_calls, *calls_open]
                self._stages[: len(stages)] = [*stages_open, *merged_stages]
                left = max(len(self._calls), len(self._stages))
            # Where many are open, or have a name of their own, merging is for twice as many.
            self._merge_from = max(KEPT_ONE_BY_ONE, 2 * left)
        finally:
            self._merging.release()


def _intervals(held: Iterable[Inside], until_ns: int) -> list[Interval]:
    return [each if isinstance(each, Interval) else each(until_ns) for each in held]


def _parted(held: Iterable[Inside]) -> tuple[list[Interval], list[Inside]]:
    """Return those that are over, and those that are open."""
    over: list[Interval] = []
    still_open: list[Inside] = []
    for each in held:
        interval = each if isinstance(each, Interval) else each(_STILL_OPEN)
        if interval.done_ns == _STILL_OPEN:
            still_open.append(each)
        else:
            over.append(interval)
    return over, still_open
