"""
An open scope: a user-visible request, or a stage of one.

**States.** A scope is open until :meth:`LocalScope.end` removes it from ``open_scopes``. Removing
an item is atomic, so exactly one caller ends the scope. Ending a scope and leaving it are two
steps, because a context variable can be reset only in the context in which it was set. If ``end``
runs in another context, the scope has ended but is still current where it began, until ``leave`` is
called there. Code that looks for the current scope must therefore skip ended ones, as
``active_scope`` does. A scope that a shutdown or a reconfiguration abandons stays current, because
the code of the application is still inside it: its own end then only leaves the scope.

**Order at the end.** The waits of handoffs that were not attached end first, because they are
stages inside the scope. Then the end is fixed, the annotations are frozen, and the previous scope
becomes current. ``_record_end`` runs last, inline or on the worker thread, and after the ends of
the calls inside the scope, whose timelines it needs.

**Inner requests.** A request that opens inside another open request of this process is a part of
that request, so its kind becomes ``inner_request``, and nothing downstream needs to recognise it in
another way. It has a span and a timeline of its own, but the enclosing request records its
segments: each instant is counted once. A served request is never an inner one, because its caller,
even if it is in this process, is another application.

**Forks.** A forked child has copies of its parent's scopes. They are finished and not registered
there, so the child neither ends their spans nor records them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

from opentelemetry import context, trace
from opentelemetry.trace import Span, SpanKind

from latspan import semconv
from latspan._base.text import text_of
from latspan._live.operations._annotations import NOTHING_MORE, Annotations, Known
from latspan._live.operations._contents import Contents
from latspan._live.operations._context import (
    Entered,
    ambient_attributes,
    custom_attributes,
    series_attributes,
    span_attributes,
)
from latspan._live.operations._enclosing import (
    NO_SCOPE,
    Scope,
    ScopeIds,
    active_scope,
    current_scope,
    enclosing_scopes,
)
from latspan._live.operations._open_operations import open_scopes
from latspan._live.otel.spans import AttributeValue, SpanSink, given_attributes
from latspan._live.process.event_loop import LoopWatch
from latspan._live.process.runtime import Runtime
from latspan._model.segments import CUT, STAGE_KINDS, Kind, Outcome, Side, Source
from latspan._model.timeline import Activity, Inside
from latspan._model.wire import server_timing

_next_id: Final = count(1).__next__
_GIVEN_UP: Final = frozenset({Outcome.CLOSED_EARLY, Outcome.CANCELLED})
"""Outcomes of a request whose client no longer waits for the response."""
_OVERRULED: Final = frozenset({Outcome.COMPLETED, Outcome.ERROR})
"""Outcomes that an outcome set by the application's code replaces."""


class LocalScope:
    """
    A request or a stage that is current in this context until it is ended.

    Args:
        runtime: The active runtime.
        kind: ``request`` or ``stage``; a request becomes an ``inner_request`` inside another one.
        name: Name of the span, and of the segment for a stage.
        attributes: Additional attributes of the span.
        side: Side of the network; a stage of a served request is on the server side.
        span_kind: Kind of the span.
        sink: Destination of the span; the runtime's sink if not given.
        start_ns: Start, monotonic nanoseconds; now if not given.
        current: Whether it becomes current in this context. If not, :meth:`active` makes it
            current while the application works on it.
    """

    __slots__ = (
        "_activity",
        "_ambient",
        "_annotated",
        "_contents",
        "_custom",
        "_entered",
        "_inline",
        "_is_inside",
        "_loop",
        "_observation",
        "_offset_ns",
        "_runtime",
        "_series",
        "_side",
        "_span",
        "_start_ns",
        "_started_with",
        "_watch",
        "finished",
        "ids",
        "kind",
        "name",
        "on_abandon",
        "outer",
        "waits",
    )

    def __init__(
        self,
        runtime: Runtime,
        *,
        kind: Kind,
        name: str,
        attributes: Mapping[str, AttributeValue] | None = None,
        side: Side = Side.CLIENT,
        span_kind: SpanKind = SpanKind.INTERNAL,
        sink: SpanSink | None = None,
        start_ns: int | None = None,
        current: bool = True,
    ) -> None:
        name = text_of(name)
        if sink is None:
            sink = runtime.sink()
        self._runtime = runtime
        self._side = side
        self._inline = sink.inline
        self._ambient = ambient_attributes()
        self._custom = custom_attributes()
        self._series = series_attributes(runtime, {}, self._ambient)
        self._annotated: list[Annotations] = []
        self._started_with: Mapping[str, AttributeValue] = attributes or {}
        self.outer: Scope | None = active_scope()
        around = NO_SCOPE if self.outer is None else self.outer.ids
        scope_id = _next_id()
        self.ids = ScopeIds(scope_id, around.root_id or scope_id)
        """Numbers that the records of this scope, and of the calls and scopes inside it, have."""
        if kind is Kind.STAGE and name in STAGE_KINDS:
            # The name is the stage kind, unless the caller's attributes set another one.
            self._started_with = {semconv.LATSPAN_STAGE_KIND: name, **self._started_with}
        if kind is Kind.REQUEST and side is Side.CLIENT:
            enclosing = request_around(self.outer)
            if enclosing is not None and enclosing.kind is not Kind.STAGE:
                kind, self._side = Kind.INNER_REQUEST, enclosing.side
        self.finished = False
        """Whether it has ended; always true for a scope of the parent in a forked child."""
        self.on_abandon: Callable[[], None] | None = None
        """Function that ends it as ``abandoned`` with more facts; it refers to this object."""
        self.kind = kind
        self.name = name
        self.waits: list[Callable[[], None]] = []
        """Functions that end the waits of handoffs not attached yet, called when this ends."""
        self._start_ns = runtime.clock.monotonic_ns() if start_ns is None else start_ns
        self._activity = Activity(kind, name, self._start_ns)
        self._contents = Contents(self._activity, runtime.enqueue)
        self._watch: LoopWatch | None = None
        """Watch that ends with this scope: a stage uses that of its request, which costs less."""
        self._loop = self.outer._loop if isinstance(self.outer, LocalScope) else None
        if self._loop is None or kind is not Kind.STAGE:
            self._loop = self._watch = runtime.watch_loop()
        if self._loop is not None:
            self._activity.start_other_ns = self._loop.report_step(self._start_ns)
        if kind is Kind.STAGE and any(each.side is Side.SERVER for each in enclosing_scopes()):
            self._side = Side.SERVER
        # A served request is not a part of its caller's, even in the same process.
        self._is_inside = self.outer is not None and (
            kind is not Kind.REQUEST or side is not Side.SERVER
        )
        if self.outer is not None and self._is_inside:
            self.outer.add(self._activity)
        observe = None if kind is Kind.STAGE else runtime.observe
        self._observation = None if observe is None else observe()
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self._span = sink.open(
            name,
            kind=span_kind,
            start_epoch_ns=self._start_ns + self._offset_ns,
            # First the application's: a span with too many attributes loses the first ones.
            attributes={
                **self._custom,
                **self._started_with,
                **span_attributes(kind, self._series),
            },
            parent_context=context.get_current(),
        )
        self._entered = self.active() if current else None
        open_scopes[self] = True

    def active(self) -> Entered[Scope | None]:
        """Return a context manager that makes this the innermost scope and its span current."""
        return Entered(current_scope, self, self._span.context)

    @property
    def side(self) -> Side:
        """Side of the network."""
        return self._side

    @property
    def span(self) -> Span:
        """OpenTelemetry span."""
        return trace.get_current_span(self._span.context)

    @property
    def start_ns(self) -> int:
        """Start, monotonic nanoseconds."""
        return self._start_ns

    def adopt(self, sink: SpanSink) -> None:
        """
        Use the span that ``sink`` opens, if it was opened without a span and has not ended.

        Args:
            sink: Sink that uses the span that another instrumentation opened inside the scope.
        """
        if self.finished or self._span.span_context.is_valid:
            return
        self._inline = sink.inline
        self._span = sink.open(
            self.name,
            kind=SpanKind.SERVER,
            start_epoch_ns=self._start_ns + self._offset_ns,
            attributes={**self._started_with, **span_attributes(self.kind, self._series)},
            parent_context=context.get_current(),
        )

    def add(self, child: Inside) -> None:
        """Add a call, stage or inner request that begins directly inside it."""
        self._contents.add(child)

    def add_exchange(self, exchange: Inside) -> None:
        """Add an HTTP exchange that no call belongs to, unless this is a stage."""
        if self.kind is not Kind.STAGE:
            self._contents.add(exchange)

    def hold(self, count: int) -> None:
        """Count the activities in one that has ended inside it."""
        self._contents.hold(count)

    def took_ns(self) -> list[tuple[str, int]]:
        """
        Return the durations of the ended stages, and the total so far, in nanoseconds.

        If tokens are tracked, the total ends at the last token, because the client waits for
        nothing after it.
        """
        token_ns = self._annotated[0].last_token_ns if self._annotated else None
        until_ns = self._runtime.clock.monotonic_ns() if token_ns is None else token_ns
        return [*self._contents.stages_ns(), (server_timing.TOTAL, until_ns - self._start_ns)]

    @property
    def runtime(self) -> Runtime:
        """Runtime that was active at the start."""
        return self._runtime

    @property
    def annotations(self) -> Annotations:
        """Annotations set while it is open."""
        # Two threads may be the first at the same time: both append, and both use the first item.
        if not self._annotated:
            before = {**self._ambient, **self._custom}
            self._annotated.append(Annotations(self._runtime.clock.monotonic_ns, before))
        return self._annotated[0]

    @property
    def trace_id(self) -> str | None:
        """Id of the trace as 32 hexadecimal digits; ``None`` if spans are not exported."""
        identity = self._span.span_context
        return f"{identity.trace_id:032x}" if identity.is_valid else None

    def set_attribute(self, name: str, value: object) -> None:
        """Set an attribute of the span, and of the series if it is configured to be one."""
        if not self.finished:
            self.annotations.add_custom(given_attributes({text_of(name): value}))

    def add_event(self, name: str, attributes: object = None) -> None:
        """Add an event to the span now."""
        if not self.finished:
            epoch_ns = self._runtime.clock.monotonic_ns() + self._offset_ns
            self._span.add_event(text_of(name), given_attributes(attributes), epoch_ns)

    def leave(self) -> bool:
        """
        Stop being current, if :meth:`end` was called in another context.

        Returns:
            Whether it is no longer current; false if this is another context, too.
        """
        return self._entered is None or self._entered.leave()

    def abandon(self) -> None:
        """End it as ``abandoned``; it stays current for the code that is inside it."""
        if self.on_abandon is None:
            self.end(Outcome.ABANDONED)
        else:
            self.on_abandon()

    def end(
        self,
        outcome: Outcome,
        *,
        error_type: str | None = None,
        known: Known = NOTHING_MORE,
        done_ns: int | None = None,
        source: Source = Source.MEASURED,
    ) -> None:
        """
        End it and, unless it is abandoned, stop being current.

        Only the first invocation has an effect.

        Args:
            outcome: Outcome of the request or stage.
            error_type: Name of the exception type that ended it, or a status code.
            known: Facts that were not known at the start.
            done_ns: End, monotonic nanoseconds; now if not given.
            source: Source of the end time.
        """
        if self.waits and not self.finished:
            for dropped in tuple(self.waits):
                dropped()
            # The functions refer back to this object, and Python's garbage collector, which frees
            # such cycles, may be switched off.
            self.waits.clear()
        if not open_scopes.pop(self, False):
            return
        self.finished = True
        self.on_abandon = None
        ended_ns = self._runtime.clock.monotonic_ns() if done_ns is None else done_ns
        if outcome in _GIVEN_UP and self.kind is not Kind.STAGE:
            self._end_stages(outcome, ended_ns)
        if self._loop is not None:
            self._activity.done_other_ns = self._loop.report_step(ended_ns)
        if self._watch is not None:
            self._watch.end()
        # Its end comes last: another thread may read the activity.
        self._activity.source, self._activity.was_cut = source, outcome in CUT
        self._activity.done_ns = ended_ns
        annotations = self._annotated[0] if self._annotated else None
        if annotations is not None:
            annotations.closed()
        if known.name is not None:
            self.name = self._activity.name = text_of(known.name)
            known = known._replace(name=self.name)
        if known.series or (annotations is not None and annotations.series):
            annotated = {} if annotations is None else annotations.series
            self._series = series_attributes(self._runtime, known.series, self._ambient, annotated)
            known = known._replace(series=self._series)
        if annotations is not None and annotations.outcome is not None and outcome in _OVERRULED:
            outcome, error_type = annotations.outcome, None
        if self._entered is not None and outcome is not Outcome.ABANDONED:
            self._entered.leave()
        self._span.stop_recording()
        self._runtime.run_at_end(
            "the end of a request or stage",
            self._record_end,
            outcome,
            ended_ns,
            error_type,
            known,
            # The calls inside are recorded first. If content is read, the worker thread does that,
            # so this must be queued after them.
            inline=self._inline and not self._runtime.ends_on_worker,
        )

    def _end_stages(self, outcome: Outcome, done_ns: int) -> None:
        """
        End the stages that are open inside it.

        After a client has left, Python may close the generator of the body much later, and with it
        the stage that is open there.
        """
        for scope in tuple(open_scopes):
            if scope.kind is Kind.STAGE and any(each is self for each in _around(scope)):
                scope.end(outcome, done_ns=done_ns)

    def _record_end(
        self, outcome: Outcome, done_ns: int, error_type: str | None, known: Known
    ) -> None:
        from latspan._live.operations._scope_end import ObservedScope, finished_scope, publish_scope

        observed = ObservedScope(
            runtime=self._runtime,
            kind=self.kind,
            name=self.name,
            side=self._side,
            offset_ns=self._offset_ns,
            activity=self._activity,
            contents=self._contents,
            loop=self._loop,
            series=self._series,
            custom=self._custom,
            started_with=self._started_with,
            annotations=self._annotated[0] if self._annotated else None,
            span=self._span,
            observation=self._observation,
            ids=self.ids,
            parent_id=0 if self.outer is None else self.outer.ids.scope_id,
        )
        finished = finished_scope(observed, outcome, done_ns, error_type, known)
        self._loop = self._watch = None
        if self.outer is not None and self._is_inside:
            self.outer.hold(self._contents.held)
        else:
            # Code that still holds this object does not need the activities inside it.
            self._activity.children.clear()
        publish_scope(observed, finished, known.name)


def _around(scope: Scope) -> Iterator[Scope]:
    """Yield the scopes around a scope, innermost first."""
    outer = scope.outer
    while outer is not None:
        yield outer
        outer = outer.outer


def request_around(scope: Scope | None) -> LocalScope | None:
    """
    Return the open request of this process that ``scope`` is, or is inside of.

    Returns:
        An inner request only if the request that it is a part of has ended before it. The outermost
        open stage if there is no open request, and ``None`` if there is no stage either.
    """
    found: LocalScope | None = None
    while isinstance(scope, LocalScope):
        if not scope.finished:
            found = scope
        if scope.kind is Kind.REQUEST:
            break
        scope = scope.outer
    return found
