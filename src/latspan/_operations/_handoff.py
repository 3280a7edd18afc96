"""Handoff of a request or stage to another thread, task or process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final
from urllib.parse import quote, unquote

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context

from latspan import _runtime
from latspan._fork import this_process
from latspan._metrics import MetricValue
from latspan._operations._context import Entered, ambient_attributes, only_said
from latspan._operations._enclosing import (
    RemoteScope,
    Scope,
    active_scope,
    current_scope,
    enclosing_scopes,
)
from latspan._operations._scope import LocalScope
from latspan._segments import Kind, Outcome, Side, Source
from latspan._timeline import ChildInterval, fits
from latspan._units import from_unit
from latspan._wire import server_timing

__all__ = ["Handoff"]

_SIDE: Final = "latspan-side"
_SAID: Final = {
    name: f"latspan-{name.replace('_', '-')}"
    for name in ("inference_path", "route", "traffic_class", "tenant")
}
"""Header name of each request attribute."""


class Handoff:
    """
    An open scope and its attributes, for the thread, task or process that continues it.

    It can be pickled. :meth:`headers` and :meth:`received` convert it to and from text.

    Args:
        unit: Innermost open scope, if any.
        around: OpenTelemetry context of the scope.
        said: Attributes of requests in that context.
        waits: Name of the stage that lasts until it is attached; ``None`` for no such stage.
    """

    __slots__ = ("_around", "_away", "_carried_ns", "_process", "_said", "_unit", "_waiting")

    def __init__(
        self,
        unit: Scope | None,
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
    def here(cls, waits: str | None = None) -> Handoff:
        """Return a handoff of the innermost open scope of this context."""
        return cls(active_scope(), context.get_current(), ambient_attributes(), waits=waits)

    @classmethod
    def received(cls, headers: Mapping[str, str]) -> Handoff:
        """
        Return the handoff that another process sent.

        Args:
            headers: Result of :meth:`headers`, possibly among others, in any letter case. Values
                that are not text are ignored.
        """
        with _runtime.handle_internal_errors("the headers of a unit of work"):
            # The headers come from a message and may be of any type.
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
            return cls(RemoteScope(side), propagate.extract(found, Context()), said)
        return cls(RemoteScope(Side.SERVER), Context(), {})

    def headers(self) -> dict[str, str]:
        """Return the handoff as text by name, names in lower case, for a message or a request."""
        self._away = True
        carried: dict[str, str] = {}
        with _runtime.handle_internal_errors("the headers of a unit of work"):
            propagate.inject(carried, self._around)
            for name, value in self._said.items():
                carried[_SAID[name]] = quote(value, errors="replace")
        carried[_SIDE] = (Side.CLIENT if self._unit is None else self._unit.side).value
        return carried

    def __reduce__(self) -> tuple[Callable[[Mapping[str, str]], Handoff], tuple[dict[str, str]]]:
        return Handoff.received, (self.headers(),)

    def __copy__(self) -> Handoff:
        return self

    def __deepcopy__(self, memo: Any) -> Handoff:
        return self

    @contextmanager
    def resumed(self) -> Generator[Handoff]:
        """Enter the context of the scope for the length of the block; this ends the wait."""
        with ExitStack() as inside:
            with _runtime.handle_internal_errors("going on with a unit of work"):
                if self._process is not this_process():
                    # A forked child has a copy of the object, but the scope belongs to the parent.
                    self._unit = RemoteScope(Side.CLIENT if self._unit is None else self._unit.side)
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
        if unit is not self._unit and isinstance(unit, LocalScope):
            # The handoff was created in a stage that has ended; what follows is not part of it.
            around = trace.set_span_in_context(unit.span, around)
        # A generator may be closed in another context than the one in which it was started.
        with only_said(self._said), Entered(current_scope, unit, around):
            yield

    def server_timing(self) -> str:
        """Return the stages that have ended, in the format of the ``Server-Timing`` header."""
        with _runtime.handle_internal_errors("the stages of a unit of work"):
            return "" if self._unit is None else server_timing.written(self._unit.took_ns())
        return ""

    def merge_remote(self, header: str) -> None:
        """
        Add the stages of another process to the scope; call this when its response has arrived.

        Clocks of two processes are never compared: the stages are placed directly before this
        moment. The rest of the time since the handoff is the wait, an estimate, because it includes
        the transmission in both directions. Stages that do not fit are not used, and are counted as
        ``evidence_rejected``.

        Args:
            header: Result of :meth:`server_timing` in the other process.
        """
        with _runtime.handle_internal_errors("the return of a unit of work"):
            took = [
                (name, from_unit(ms, "ms"))
                for name, ms in server_timing.parsed(header)
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
                request.annotations.metrics["evidence_rejected"] = MetricValue(1)
            return
        at_ns = max(self._carried_ns, now_ns - took_ns)
        with self._entered():
            if not self._waited(Outcome.COMPLETED, at_ns, Source.ESTIMATED):
                return
            enclosing = enclosing_scopes()
        for name, duration_ns in took:
            until_ns = min(now_ns, at_ns + duration_ns)
            stage = ChildInterval(name, at_ns, until_ns, source=Source.SERVER_REPORTED)
            for each in enclosing:
                each.add_stage(stage)
            at_ns = until_ns

    def _dropped(self) -> None:
        """End the wait if the request ended and the handoff was not attached in this process."""
        if self._away:
            # Another process may have attached it; the length of that wait is unknown here.
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
        End the wait, as a stage of the scope that was handed off.

        Returns:
            Whether this invocation ended the wait; another thread may have ended it before.
        """
        runtime = _runtime.current()
        try:
            name = self._waiting.pop()
        except IndexError:
            return False
        request = _request_around(self._unit)
        if request is not None:
            with suppress(ValueError):
                # Otherwise a request with many handoffs would hold each of them until its end.
                request.waits.remove(self._dropped)
        if runtime is not None:
            wait = LocalScope(
                runtime,
                kind=Kind.STAGE,
                name=name,
                start_ns=self._carried_ns,
                current=False,
            )
            wait.finish(outcome, done_ns=until_ns, source=source)
        return True


def _request_around(unit: Scope | None) -> LocalScope | None:
    """Return the request around ``unit``, which outlives its stages, if it is of this process."""
    while isinstance(unit, LocalScope) and unit.kind is Kind.STAGE and unit.outer is not None:
        unit = unit.outer
    return unit if isinstance(unit, LocalScope) else None
