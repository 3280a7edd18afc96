"""A unit of work on its way to whoever goes on with it: another thread, task or process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context

from latspan import _runtime
from latspan._fork import this_process
from latspan._request._context import Entered, ambient_attributes, only_said
from latspan._request._enclosing import (
    Elsewhere,
    Unit,
    active_work,
    current_unit,
    enclosing_works,
)
from latspan._request._work import LiveWork
from latspan._timeline import Interval, fits
from latspan.metrics import MetricValue
from latspan.segments import Kind, Outcome, Side, Source
from latspan.units import from_unit
from latspan.wire import server_timing

__all__ = ["Carried"]

_SIDE: Final = "latspan-side"
_SAID: Final = {
    name: f"latspan-{name.replace('_', '-')}"
    for name in ("path", "route", "traffic_class", "tenant")
}
"""The header of each thing that is said of requests."""


class Carried:
    """
    A unit of work, and what is said of it, to be gone on with somewhere else.

    It can be pickled; where only text travels, :meth:`headers` and :meth:`received` carry it.

    Args:
        unit: The innermost unit that is open, if any.
        around: The OpenTelemetry context there.
        said: What requests there are about.
        waits: The stage that it is in until somebody goes on with it; ``None`` for none.
    """

    __slots__ = ("_around", "_away", "_carried_ns", "_process", "_said", "_unit", "_waiting")

    def __init__(
        self,
        unit: Unit | None,
        around: Context,
        said: Mapping[str, str],
        *,
        waits: str | None = None,
    ) -> None:
        self._unit = unit
        self._around = around
        self._said = said
        self._process = this_process()
        self._away = False
        self._carried_ns = 0
        # In a list so that only one thread can end it.
        self._waiting: list[str] = []
        runtime = _runtime.current()
        if waits is not None and runtime is not None:
            self._carried_ns = runtime.clock.monotonic_ns()
            self._waiting.append(waits)
            request = _request_around(unit)
            if request is not None:
                request.waits.append(self._dropped)

    @classmethod
    def here(cls, waits: str | None = None) -> Carried:
        """Return what is open in this context."""
        return cls(active_work(), context.get_current(), ambient_attributes(), waits=waits)

    @classmethod
    def received(cls, headers: Mapping[str, str]) -> Carried:
        """
        Return what another process carried.

        Args:
            headers: What :meth:`headers` gave there, among others; any letter case. What is no
                text is not read.
        """
        with _runtime.guarded("the headers of a unit of work"):
            # It came with a message, and is of whatever type that had.
            told: Mapping[Any, Any] = headers if hasattr(headers, "items") else {}
            found = {
                name.lower(): value
                for name, value in told.items()
                if isinstance(name, str) and isinstance(value, str)
            }
            said = {
                name: unquote(found[header]) for name, header in _SAID.items() if header in found
            }
            side = Side.CLIENT if found.get(_SIDE) == Side.CLIENT.value else Side.SERVER
            return cls(Elsewhere(side), propagate.extract(found, Context()), said)
        return cls(Elsewhere(Side.SERVER), Context(), {})

    def headers(self) -> dict[str, str]:
        """Return it as text by name, names in lower case, for a message or a request."""
        self._away = True
        carried: dict[str, str] = {}
        with _runtime.guarded("the headers of a unit of work"):
            propagate.inject(carried, self._around)
            for name, value in self._said.items():
                carried[_SAID[name]] = quote(value, errors="replace")
        carried[_SIDE] = (Side.CLIENT if self._unit is None else self._unit.side).value
        return carried

    def __reduce__(self) -> tuple[Callable[[Mapping[str, str]], Carried], tuple[dict[str, str]]]:
        return Carried.received, (self.headers(),)

    def __copy__(self) -> Carried:
        return self

    def __deepcopy__(self, memo: Any) -> Carried:
        return self

    @contextmanager
    def resumed(self) -> Generator[Carried]:
        """Inside, be where it was carried from; its wait is over."""
        with ExitStack() as inside:
            with _runtime.guarded("going on with a unit of work"):
                if self._process is not this_process():
                    # A fork has the object, but what it is of is the parent's.
                    self._unit = Elsewhere(Side.CLIENT if self._unit is None else self._unit.side)
                    self._process = this_process()
                    self._waiting.clear()
                inside.enter_context(self._entered())
                self._waited(Outcome.COMPLETED)
            yield self

    @contextmanager
    def _entered(self) -> Generator[None]:
        unit, around = self._unit, self._around
        while unit is not None and unit.finished:
            unit = unit.outer
        if unit is not self._unit and isinstance(unit, LiveWork):
            # It was carried out of a stage that is over: what follows is no part of that.
            around = trace.set_span_in_context(unit.span, around)
        # A generator may be closed in another context than the one that it was begun in.
        with only_said(self._said), Entered(current_unit, unit, around):
            yield

    def server_timing(self) -> str:
        """Return the stages that are over, as the ``Server-Timing`` header has them."""
        with _runtime.guarded("the stages of a unit of work"):
            return "" if self._unit is None else server_timing.written(self._unit.took_ns())
        return ""

    def returned(self, told: str) -> None:
        """
        Hear, where it was carried from, what was done in another process; it has just come back.

        Two clocks are never compared: the stages are laid before this moment, and what is left
        since it was carried is its wait, as an estimate, for it holds the way there and back. What
        cannot have fitted in is not believed, and counted as ``evidence_rejected``.

        Args:
            told: What :meth:`server_timing` gave there.
        """
        with _runtime.guarded("the return of a unit of work"):
            took = [
                (name, from_unit(ms, "ms"))
                for name, ms in server_timing.parsed(told)
                if name != server_timing.TOTAL
            ]
            runtime = _runtime.current()
            if runtime is not None and self._waiting:
                self._lay(took, runtime.clock.monotonic_ns())

    def _lay(self, took: Sequence[tuple[str, int]], now_ns: int) -> None:
        took_ns = sum(duration_ns for _, duration_ns in took)
        negative = any(duration_ns < 0 for _, duration_ns in took)
        if negative or not fits(took_ns, self._carried_ns, now_ns):
            self._waiting.clear()
            request = _request_around(self._unit)
            if request is not None:
                request.remarks.metrics["evidence_rejected"] = MetricValue(1)
            return
        at_ns = max(self._carried_ns, now_ns - took_ns)
        with self._entered():
            if not self._waited(Outcome.COMPLETED, at_ns, Source.ESTIMATED):
                return
            enclosing = enclosing_works()
        for name, duration_ns in took:
            until_ns = min(now_ns, at_ns + duration_ns)
            stage = Interval(name, at_ns, until_ns, source=Source.SERVER_REPORTED)
            for each in enclosing:
                each.holds_stage(stage)
            at_ns = until_ns

    def _dropped(self) -> None:
        """Hear that the unit ends, and nobody here went on with it."""
        if self._away:
            # Elsewhere somebody may have: how long it waited there nobody has said.
            self._waiting.clear()
            return
        with self._entered():
            self._waited(Outcome.ABANDONED)

    def _waited(
        self,
        outcome: Outcome,
        until_ns: int | None = None,
        source: Source = Source.MEASURED,
    ) -> bool:
        """
        End its wait, inside of what it was carried from.

        Returns:
            Whether it waited until now; somebody else may have been first.
        """
        runtime = _runtime.current()
        try:
            name = self._waiting.pop()
        except IndexError:
            return False
        request = _request_around(self._unit)
        if request is not None:
            with suppress(ValueError):
                # Or a request that hands on many would hold each of them until its end.
                request.waits.remove(self._dropped)
        if runtime is not None:
            wait = LiveWork(
                runtime,
                kind=Kind.STAGE,
                name=name,
                start_ns=self._carried_ns,
                current=False,
            )
            wait.finish(outcome, done_ns=until_ns, source=source)
        return True


def _request_around(unit: Unit | None) -> LiveWork | None:
    """Return what outlives the stages of a request: the request, where it is of this process."""
    while isinstance(unit, LiveWork) and unit.kind is Kind.STAGE and unit.outer is not None:
        unit = unit.outer
    return unit if isinstance(unit, LiveWork) else None
