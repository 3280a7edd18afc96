"""Scopes of this context: requests, stages, and remote scopes (requests of another process)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from latspan._live.operations._contents import Contents
from latspan._model.segments import Kind, Side
from latspan._model.timeline import Activity, Inside


class ScopeIds(NamedTuple):
    """
    Numbers of a scope, unique in this process; 0 stands for no scope of this process.

    Args:
        scope_id: Number of the scope.
        root_id: Number of the outermost open scope that it is inside of, or its own.
    """

    scope_id: int
    root_id: int


NO_SCOPE: Final = ScopeIds(0, 0)


class Scope(Protocol):
    """A scope, in which activities begin."""

    def add(self, child: Inside) -> None:
        """Add a call, stage or inner request that begins directly inside it."""
        ...

    def add_exchange(self, exchange: Inside) -> None:
        """Add an HTTP exchange that no call belongs to; a stage does not, because it covers it."""
        ...

    def hold(self, count: int) -> None:
        """Count the activities in one that has ended inside it."""
        ...

    @property
    def ids(self) -> ScopeIds:
        """Its number and that of the outermost scope around it."""
        ...

    @property
    def outer(self) -> Scope | None:
        """Enclosing scope, ``None`` if there is none."""
        ...

    @property
    def finished(self) -> bool:
        """Whether it has ended in this process."""
        ...

    @property
    def side(self) -> Side:
        """Side of the network."""
        ...

    def took_ns(self) -> list[tuple[str, int]]:
        """Return the durations of the ended stages, in nanoseconds."""
        ...


current_scope: ContextVar[Scope | None] = ContextVar("latspan_scope", default=None)
"""Innermost scope of the context, ended or not."""


def active_scope() -> Scope | None:
    """
    Return the innermost open scope of this context, if any.

    A task that was started inside a scope has it in its context even after the scope has ended.
    """
    scope = current_scope.get()
    while scope is not None and scope.finished:
        scope = scope.outer
    return scope


def is_left_over() -> bool:
    """Return whether an ended scope is still current, because it ended in another context."""
    scope = current_scope.get()
    return scope is not None and scope.finished


def enclosing_scopes() -> tuple[Scope, ...]:
    """Return all open scopes of this context, innermost first."""
    scopes: list[Scope] = []
    scope = current_scope.get()
    while scope is not None:
        if not scope.finished:
            scopes.append(scope)
        scope = scope.outer
    return tuple(scopes)


class RemoteScope:
    """
    A request of another process, of which this process executes a part.

    Args:
        side: Side of the network.
    """

    __slots__ = ("_contents", "_side")

    ids = NO_SCOPE

    def __init__(self, side: Side) -> None:
        self._side = side
        # Its start is in the other process.
        self._contents = Contents(Activity(Kind.REQUEST, "", 0), lambda fold: fold())

    def add(self, child: Inside) -> None:
        """Add a stage inside it; a call is in the trace, and its time is that of its stage."""
        if isinstance(child, Activity):
            self._contents.add(child)

    def add_exchange(self, exchange: Inside) -> None:
        """Do nothing: the exchange is in the trace."""

    def hold(self, count: int) -> None:
        """Count the activities in one that has ended inside it."""
        self._contents.hold(count)

    @property
    def outer(self) -> None:
        """Always ``None``: an enclosing scope is in the other process."""

    @property
    def finished(self) -> bool:
        """Always false: this process cannot determine whether it has ended."""
        return False

    @property
    def side(self) -> Side:
        """Side of the network."""
        return self._side

    def took_ns(self) -> list[tuple[str, int]]:
        """Return the durations of the ended stages of this process, in nanoseconds."""
        return self._contents.stages_ns()
