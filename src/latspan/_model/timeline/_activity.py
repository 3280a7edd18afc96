"""
Activities of a request: what it did, as a tree.

A call, a tool, another stage, an HTTP exchange and an inner request are activities inside the
request or stage in whose context they began. The tree shows who began what, and nothing of who
waited for whom: that is derived from the instants, see :mod:`latspan._model.timeline._path`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from latspan._model.segments import Kind, Segment, SegmentName, Source

KEPT_ONE_BY_ONE: Final = 512
"""
Number of activities that a request or stage holds one by one, before it folds those that have
ended: a call takes 3 kB, a stage 0.6 kB.
"""


@dataclass(slots=True, eq=False)
class Activity:
    """
    A request, or a call, stage, HTTP exchange or inner request inside one.

    A part of the time of a request or stage that has a name, for example a write that was held up,
    is in the tree too.

    It refers to no scope, because a scope refers to the activities around it: a reference cycle
    would keep all of them until Python's garbage collector runs, and model servers switch that off.
    Instants are monotonic nanoseconds.

    Args:
        kind: Its kind; ``None`` for a part of the own time of the request or stage around it.
        name: Name of a stage; name of the span of a call or an inner request; name of the segment
            of an HTTP exchange.
        start_ns: Its start.
        done_ns: Its end; ``None`` while it is open.
        was_cut: Whether its result was not used: it was cancelled, closed early or abandoned.
        source: Source of its own time.
        segments: Segments of a call, relative to its start; empty if they are not known.
        first_visible_ns: Arrival of the first visible token of a call, if there was one.
        first_visible_source: Source of that time.
        streamed: Whether the response of a call was requested as a stream.
        start_other_ns: Last instant before its start at which something else than its task is known
            to have run on the event loop; ``None`` if unknown.
        done_other_ns: The same for its end.
        merged: Number of activities that were merged into this one; ``None`` if it is a single one.
        inferred_ns: Time of it that is inferred: its place among the others is not known.
        children: Activities that began inside it, in the order in which they were opened.
    """

    kind: Kind | None
    name: str
    start_ns: int
    done_ns: int | None = None
    was_cut: bool = False
    source: Source = Source.MEASURED
    segments: tuple[Segment, ...] = ()
    first_visible_ns: int | None = None
    first_visible_source: Source = Source.MEASURED
    streamed: bool = False
    start_other_ns: int | None = None
    done_other_ns: int | None = None
    merged: int | None = None
    inferred_ns: int = 0
    children: list[Inside] = field(default_factory=list["Inside"])

    @property
    def own_name(self) -> str:
        """Name of the segment of its own time."""
        if self.kind in _OF_THE_APPLICATION:
            return SegmentName.APPLICATION.value
        return self.name if self.kind is not Kind.CALL else SegmentName.UNATTRIBUTED.value

    @property
    def own_source(self) -> Source:
        """Source of its own time."""
        return Source.UNKNOWN if self.kind is Kind.CALL else self.source

    @property
    def is_step(self) -> bool:
        """Whether it is a step of the request that it is inside of."""
        return self.kind is not None and self.kind not in _OF_THE_APPLICATION


Inside: TypeAlias = Activity | Callable[[], Activity | None]
"""
Activity inside a request or stage. A call or an HTTP exchange is a function that returns what is
known of it, and ``None`` if it turned out to be another one.
"""

_OF_THE_APPLICATION: Final = frozenset({Kind.REQUEST, Kind.INNER_REQUEST})


def as_activity(inside: Inside) -> Activity | None:
    """Return the activity as far as it is known now; ``None`` if it is none any more."""
    return inside if isinstance(inside, Activity) else inside()
