"""The units of work that are open in this context: requests, stages, a part of one elsewhere."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final, Protocol

from latspan._timeline import Interval, work_timeline
from latspan.segments import Side, totals

__all__ = [
    "Elsewhere",
    "Unit",
    "active_work",
    "current_unit",
    "enclosing_works",
    "is_left_over",
    "stages_ns",
]


class Unit(Protocol):
    """What calls and stages are inside of."""

    stages: list[Callable[[int], Interval]]
    """The stages inside it; each is told when the unit ended."""

    @property
    def calls(self) -> list[Callable[[int], Interval]]:
        """The calls made inside it; likewise."""
        ...

    @property
    def outer(self) -> Unit | None:
        """What it is inside of itself."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it has ended, here."""
        ...

    @property
    def side(self) -> Side:
        """The side of the network it is on."""
        ...

    def took_ns(self) -> list[tuple[str, int]]:
        """Return how long each stage took that is over, in nanoseconds."""
        ...


current_unit: ContextVar[Unit | None] = ContextVar("latspan_work", default=None)
"""The innermost, ended or not."""


def active_work() -> Unit | None:
    """
    Return the innermost unit of work that is open in this context, if any.

    A task that was begun inside one carries it in its context, long after its end.
    """
    unit = current_unit.get()
    while unit is not None and unit.finished:
        unit = unit.outer
    return unit


def is_left_over() -> bool:
    """Return whether a unit of work that has ended is still current: it was never left here."""
    unit = current_unit.get()
    return unit is not None and unit.finished


def enclosing_works() -> tuple[Unit, ...]:
    """Return every unit of work that is open in this context, innermost first."""
    units: list[Unit] = []
    unit = current_unit.get()
    while unit is not None:
        if not unit.finished:
            units.append(unit)
        unit = unit.outer
    return tuple(units)


class Elsewhere:
    """
    A request of another process, as seen by those who do a part of it in this one.

    Args:
        side: The side of the network it is on.
    """

    __slots__ = ("_counting", "_over_ns", "_side", "stages")

    def __init__(self, side: Side) -> None:
        self._side = side
        self._over_ns = Counter[str]()
        self._counting = threading.Lock()
        self.stages: list[Callable[[int], Interval]] = []

    @property
    def calls(self) -> list[Callable[[int], Interval]]:
        """Its calls are in the trace; nobody here has a timeline to lay them in."""
        return []

    @property
    def outer(self) -> None:
        """What it is inside of is in the other process."""

    @property
    def finished(self) -> bool:
        """Whether it has ended; nobody here knows."""
        return False

    @property
    def side(self) -> Side:
        """The side of the network it is on."""
        return self._side

    def took_ns(self) -> list[tuple[str, int]]:
        """Return how long each stage here took that is over, in nanoseconds."""
        with self._counting:
            took = self._over_ns.copy()
            took.update(dict(stages_ns(self.stages)))
        return [*took.items()]

    def stage_ended(self) -> None:
        """Keep of the stages no more than how long they took, once none of them is open."""
        with self._counting:
            # Others may begin meanwhile, behind these.
            begun = tuple(self.stages)
            if all(interval(_STILL_OPEN).done_ns != _STILL_OPEN for interval in begun):
                self._over_ns.update(dict(stages_ns(begun)))
                del self.stages[: len(begun)]


_STILL_OPEN: Final = -1
"""No instant of a monotonic clock's: the end of what has none yet."""


def stages_ns(stages: Iterable[Callable[[int], Interval]]) -> list[tuple[str, int]]:
    """
    Return how long each stage took that is over, the calls in it included, in nanoseconds.

    Args:
        stages: Of one unit.
    """
    over = [
        stage
        for stage in (interval(_STILL_OPEN) for interval in tuple(stages))
        if stage.done_ns != _STILL_OPEN
    ]
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
