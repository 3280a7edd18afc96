"""One unit of work in progress: a user-visible request, or a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Final, NamedTuple

from opentelemetry.trace import SpanKind

from latspan import semconv
from latspan._fork import this_process
from latspan._request._context import Entered, series_attributes, span_attributes
from latspan._runtime import Runtime
from latspan._spans import (
    AttributeValue,
    FinishedSpan,
    SpanSink,
    interleaved_attributes,
    segment_spans,
)
from latspan._timeline import Interval, work_timeline
from latspan.metrics import MetricValue
from latspan.recording import RequestRecord
from latspan.segments import Kind, Outcome, SegmentName, SegmentTotal, Side, totals

__all__ = [
    "NOTHING_MORE",
    "Known",
    "LiveWork",
    "active_work",
    "enclosing_works",
    "is_left_over",
]

_work: ContextVar[LiveWork | None] = ContextVar("latspan_work", default=None)


def active_work() -> LiveWork | None:
    """
    Return the innermost request or stage that is open in this context, if any.

    A task that was begun inside a unit of work carries it in its context, long after its end.
    """
    work = _work.get()
    while work is not None and work.finished:
        work = work.outer
    return work


def is_left_over() -> bool:
    """Return whether a unit of work that has ended is still current: it was never left here."""
    work = _work.get()
    return work is not None and work.finished


def enclosing_works() -> tuple[LiveWork, ...]:
    """Return every request and stage that is open in this context, innermost first."""
    works: list[LiveWork] = []
    work = _work.get()
    while work is not None:
        if not work.finished:
            works.append(work)
        work = work.outer
    return tuple(works)


class Known(NamedTuple):
    """
    What is known of a unit of work only at its end.

    Args:
        name: What it turned out to be; its first name stands if ``None``.
        attributes: Further attributes of its span.
        metrics: Further metrics of its record.
        series: What its series are keyed by, beside what the surrounding code has said; what was
            known at its start stands if empty.
    """

    name: str | None = None
    attributes: Mapping[str, AttributeValue] = {}
    metrics: Mapping[str, MetricValue] = {}
    series: Mapping[str, str] = {}


NOTHING_MORE: Final = Known()

_STILL_OPEN: Final = -1
"""No instant of a monotonic clock's: the end of what has none yet."""


class LiveWork:
    """
    A request or a stage that is current in this context until it is finished.

    Args:
        runtime: What is switched on.
        kind: ``request`` or ``stage``.
        name: The span's name, and of a stage the segment's.
        attributes: Further attributes of the span.
        side: The side of the network it is on; a stage of a served request is on the
            server's.
        span_kind: Of what kind its span is.
        sink: Where its span goes; the runtime's, if not given.
    """

    __slots__ = (
        "_done_ns",
        "_entered",
        "_inline",
        "_offset_ns",
        "_open",
        "_process",
        "_runtime",
        "_series",
        "_side",
        "_span",
        "_start_ns",
        "calls",
        "kind",
        "name",
        "outer",
        "stages",
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
    ) -> None:
        if sink is None:
            sink = runtime.sink()
        self._runtime = runtime
        self._side = side
        self._inline = sink.inline
        self._series = series_attributes(runtime, {})
        self._done_ns: int | None = None
        self._open = [True]
        self._process = this_process()
        self.kind = kind
        self.name = name
        self.outer = active_work()
        self.calls: list[Callable[[int], Interval]] = []
        self.stages: list[Callable[[int], Interval]] = []
        if kind is Kind.STAGE:
            for work in enclosing_works():
                work.stages.append(self.interval)
                if work.side is Side.SERVER:
                    self._side = Side.SERVER
        self._start_ns = runtime.clock.monotonic_ns()
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self._span = sink.open(
            name,
            kind=span_kind,
            start_epoch_ns=self._start_ns + self._offset_ns,
            attributes={**(attributes or {}), **span_attributes(kind, self._series)},
        )
        self._entered = Entered(_work, self, self._span)

    @property
    def finished(self) -> bool:
        """Whether it has ended, or is that of the process that this one was forked from."""
        return not self._open or self._process is not this_process()

    @property
    def side(self) -> Side:
        """The side of the network it is on."""
        return self._side

    @property
    def start_ns(self) -> int:
        """When it began, monotonic nanoseconds."""
        return self._start_ns

    def stages_so_far(self) -> tuple[SegmentTotal, ...]:
        """Return how long each stage inside it took that is over, the calls in it included."""
        ended = [
            stage
            for stage in (interval(_STILL_OPEN) for interval in tuple(self.stages))
            if stage.done_ns != _STILL_OPEN
        ]
        until_ns = max((stage.done_ns for stage in ended), default=self._start_ns)
        work = work_timeline(self._start_ns, until_ns, stages=ended)
        names = {stage.name for stage in ended}
        return tuple(each for each in totals(work.timeline.segments) if each.name in names)

    def interval(self, until_ns: int) -> Interval:
        """Return it as the unit around it sees it, which ended at ``until_ns``."""
        done_ns = until_ns if self._done_ns is None else self._done_ns
        return Interval(self.name, self._start_ns, done_ns)

    def leave(self) -> bool:
        """
        Be current no longer, where :meth:`finish` was called in another context.

        Returns:
            Whether it is current no longer; not where this is another context too.
        """
        return self._entered.leave()

    def finish(
        self,
        outcome: Outcome,
        *,
        error_type: str | None = None,
        known: Known = NOTHING_MORE,
    ) -> None:
        """
        End it, once, and be current no longer.

        Args:
            outcome: How it ended.
            error_type: The name of the exception type that ended it, or a status code.
            known: What was not known of it at its start.
        """
        try:
            self._open.pop()
        except IndexError:
            return
        done_ns = self._done_ns = self._runtime.clock.monotonic_ns()
        if known.name is not None:
            self.name = known.name
        if known.series:
            self._series = series_attributes(self._runtime, known.series)
        self._entered.leave()
        if self._process is not this_process():
            return

        self._runtime.conclude(
            lambda: self._conclude(outcome, done_ns, error_type, known),
            "the end of a unit of work",
            # Its calls come first, and where content is read they are not done yet.
            inline=self._inline and not self._runtime.reads_content,
        )

    def _conclude(
        self, outcome: Outcome, done_ns: int, error_type: str | None, known: Known
    ) -> None:
        stage_name = self.name if self.kind is Kind.STAGE else None
        work = work_timeline(
            self._start_ns,
            done_ns,
            calls=[interval(done_ns) for interval in self.calls],
            stages=[interval(done_ns) for interval in self.stages],
            own_name=stage_name,
        )
        timeline = work.timeline
        # Whoever still holds this unit of work needs none of what was inside it.
        self.calls.clear()
        self.stages.clear()
        attributes: dict[str, AttributeValue] = {
            **({} if not known.series else span_attributes(self.kind, self._series)),
            **known.attributes,
            **interleaved_attributes(work.own),
            semconv.LATSPAN_OUTCOME: outcome.value,
        }
        if error_type is not None:
            attributes[semconv.ERROR_TYPE] = error_type
        if stage_name is not None:
            attributes[semconv.LATSPAN_SEGMENT] = stage_name
        # A stage is a span itself, and an earlier call has its own; the rest has no span yet.
        unseen = () if stage_name is not None else work.own
        self._span.finish(
            FinishedSpan(
                end_epoch_ns=timeline.done_ns + self._offset_ns,
                attributes=attributes,
                # Who refuses a request on purpose has not failed; who was refused has.
                failed=outcome.failed
                and (self._side is Side.CLIENT or outcome is not Outcome.REJECTED),
                name=known.name,
                children=segment_spans(
                    [each for each in unseen if each.name != SegmentName.CALL],
                    self._start_ns + self._offset_ns,
                ),
            )
        )
        identity = self._span.span_context
        self._runtime.recorder.record(
            RequestRecord(
                name=self.name,
                kind=self.kind,
                outcome=outcome,
                start_epoch_ns=self._start_ns + self._offset_ns,
                duration_ns=timeline.duration_ns,
                segments=timeline.segments,
                metrics={**timeline.metrics, **known.metrics},
                attributes=self._series,
                side=self._side,
                trace_id=identity.trace_id,
                span_id=identity.span_id,
                sampled=identity.trace_flags.sampled,
                reports=work.own,
            )
        )
