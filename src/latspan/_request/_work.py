"""One unit of work in progress: a user-visible request, or a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar

from opentelemetry.trace import SpanKind

from latspan import semconv
from latspan._fork import this_process
from latspan._request._context import Entered, series_attributes, span_attributes
from latspan._runtime import Runtime
from latspan._spans import AttributeValue, FinishedSpan, segment_spans
from latspan._timeline import Interval, work_timeline
from latspan.recording import RequestRecord
from latspan.segments import Kind, Outcome, SegmentName

__all__ = ["LiveWork", "active_work", "enclosing_works"]

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


def enclosing_works() -> tuple[LiveWork, ...]:
    """Return every request and stage that is open in this context, innermost first."""
    works: list[LiveWork] = []
    work = _work.get()
    while work is not None:
        if not work.finished:
            works.append(work)
        work = work.outer
    return tuple(works)


class LiveWork:
    """
    A request or a stage that is current in this context until it is finished.

    Args:
        runtime: What is switched on.
        kind: ``request`` or ``stage``.
        name: The span's name, and of a stage the segment's.
        attributes: Further attributes of the span.
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
    ) -> None:
        sink = runtime.sink()
        self._runtime = runtime
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
        self._start_ns = runtime.clock.monotonic_ns()
        self._offset_ns = runtime.clock.epoch_offset_ns()
        self._span = sink.open(
            name,
            kind=SpanKind.INTERNAL,
            start_epoch_ns=self._start_ns + self._offset_ns,
            attributes={**(attributes or {}), **span_attributes(kind, self._series)},
        )
        self._entered = Entered(_work, self, self._span)

    @property
    def finished(self) -> bool:
        """Whether it has ended, or is that of the process that this one was forked from."""
        return not self._open or self._process is not this_process()

    def interval(self, until_ns: int) -> Interval:
        """Return it as the unit around it sees it, which ended at ``until_ns``."""
        done_ns = until_ns if self._done_ns is None else self._done_ns
        return Interval(self.name, self._start_ns, done_ns)

    def finish(self, outcome: Outcome, *, error_type: str | None = None) -> None:
        """
        End it, once, and be current no longer.

        Args:
            outcome: How it ended.
            error_type: The name of the exception type that ended it.
        """
        try:
            self._open.pop()
        except IndexError:
            return
        done_ns = self._done_ns = self._runtime.clock.monotonic_ns()
        self._entered.leave()
        if self._process is not this_process():
            return

        self._runtime.conclude(
            lambda: self._conclude(outcome, done_ns, error_type),
            "the end of a unit of work",
            # Its calls come first, and where content is read they are not done yet.
            inline=self._inline and not self._runtime.reads_content,
        )

    def _conclude(self, outcome: Outcome, done_ns: int, error_type: str | None) -> None:
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
        attributes: dict[str, AttributeValue] = {semconv.LATSPAN_OUTCOME: outcome.value}
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
                failed=outcome.failed,
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
                metrics=timeline.metrics,
                attributes=self._series,
                trace_id=identity.trace_id,
                span_id=identity.span_id,
                sampled=identity.trace_flags.sampled,
                reports=work.own,
            )
        )
