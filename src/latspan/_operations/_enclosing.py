"""The units of work that are open in this context: requests, stages, a part of one elsewhere."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from latspan._operations._contents import Contents, Inside
from latspan._segments import Side

__all__ = [
    "Elsewhere",
    "Unit",
    "active_work",
    "current_unit",
    "enclosing_works",
    "is_left_over",
]


class Unit(Protocol):
    """What calls and stages are inside of."""

    def holds_call(self, call: Inside) -> None:
        """Note a call that is made inside it."""
        ...

    def holds_stage(self, stage: Inside) -> None:
        """Note a stage inside it."""
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

    __slots__ = ("_contents", "_side")

    def __init__(self, side: Side) -> None:
        self._side = side
        self._contents = Contents(lambda merge: merge())

    def holds_call(self, call: Inside) -> None:
        """Note nothing: its calls are in the trace; nobody here has a timeline to lay them in."""

    def holds_stage(self, stage: Inside) -> None:
        """Note a stage inside it."""
        self._contents.add_stage(stage)

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
        return self._contents.stages_ns()
