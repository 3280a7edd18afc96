"""Span sink that passes only the spans of kept traces to another sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind

from latspan import semconv
from latspan._live.otel.context_keys import current_span
from latspan._live.otel.spans import AttributeValue, ChildSpan, FinishedSpan, OpenSpan, SpanSink
from latspan._live.sampling._decisions import Decisions, Ended
from latspan._live.sampling._trace_buffer import HeldTrace, TraceBuffer
from latspan._model.segments import Outcome
from latspan._model.units import from_unit


class SamplingSink:
    """
    Holds the spans of a trace until the decision to keep or drop all of them.

    Spans that the sampler of ``sink`` does not sample are not held, and there is no decision about
    them.

    Args:
        sink: Receives the spans of kept traces.
        ratio: Maximum fraction of all traces that are kept in the long run, in (0, 1).
        slow_ns: Traces with a longer duration are always kept; ``None`` for no such limit.
    """

    def __init__(self, sink: SpanSink, ratio: float, slow_ns: int | None = None) -> None:
        self._sink = sink
        self.traces = TraceBuffer(lambda: Decisions(ratio, slow_ns))
        """Held traces, and counts of the dropped ones."""

    @property
    def inline(self) -> bool:
        """Whether the wrapped sink requires that spans are finished on the caller's thread."""
        return self._sink.inline

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        """Begin a span in the wrapped sink."""
        current = current_span(parent_context)
        span = self._sink.open(
            name,
            kind=kind,
            start_epoch_ns=start_epoch_ns,
            attributes=attributes,
            parent_context=parent_context,
        )
        identity = span.span_context
        if not identity.trace_flags.sampled:
            return span
        parent = None if current is None else current.get_span_context()
        is_inner = parent is not None and parent.is_valid and not parent.is_remote
        held = self.traces.open(identity.trace_id, start_epoch_ns, has_local_parent=is_inner)
        # The end of a parent that another library opened is not reported here, so the first open
        # span of the trace counts as the outermost one.
        outermost = not is_inner or len(held.unfinished) == 1
        begun = (name, start_epoch_ns, attributes) if outermost else None
        return _SampledSpan(self.traces, held, span, begun)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Pass on children of the span that is current in ``parent``, together with its trace."""
        trace_id = trace.get_current_span(parent).get_span_context().trace_id
        self.traces.hand_on(
            trace_id, lambda: self._sink.end_children(children, parent), spans=len(children)
        )


class _SampledSpan:
    """Span whose end may be held until its trace ends."""

    __slots__ = ("_begun", "_held", "_span", "_traces")

    def __init__(
        self,
        traces: TraceBuffer,
        held: HeldTrace,
        span: OpenSpan,
        begun: tuple[str, int, Mapping[str, AttributeValue]] | None,
    ) -> None:
        self._traces = traces
        self._held = held
        self._span = span
        self._begun = begun

    @property
    def span_context(self) -> SpanContext:
        return self._span.span_context

    @property
    def context(self) -> Context:
        return self._span.context

    @property
    def kept(self) -> bool:
        return self._held.kept is True

    def when_kept(self, do: Callable[[], None]) -> None:
        self._traces.when_kept(self._held, do)

    @property
    def marked_failed(self) -> bool:
        return self._span.marked_failed

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        self._span.add_event(name, attributes, epoch_ns)

    def stop_recording(self) -> None:
        self._span.stop_recording()

    def end(self, finished: FinishedSpan) -> None:
        first_token_s = finished.attributes.get(semconv.LATSPAN_TIME_TO_FIRST_TOKEN)
        self._traces.end(
            self._held,
            lambda: self._span.end(finished),
            end_epoch_ns=finished.end_epoch_ns,
            spans=1 + len(finished.children),
            failed=finished.failed or self._span.marked_failed,
            first_token_ns=from_unit(first_token_s, "s")
            if isinstance(first_token_s, float)
            else None,
            ended=self._ended(finished),
        )

    def _ended(self, finished: FinishedSpan) -> Ended | None:
        if self._begun is None:
            return None
        name, start_epoch_ns, attributes = self._begun
        known = {**attributes, **finished.attributes}
        kind = str(known.get(semconv.LATSPAN_KIND, ""))
        path = str(known.get(semconv.LATSPAN_INFERENCE_PATH, finished.name or name))
        return Ended(
            (kind, path),
            finished.end_epoch_ns - start_epoch_ns,
            abandoned=known.get(semconv.LATSPAN_OUTCOME) == Outcome.ABANDONED,
        )
