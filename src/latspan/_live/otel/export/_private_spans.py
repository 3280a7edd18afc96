"""Spans of latspan's private provider, built when they end, all spans of a request together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    Link,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from latspan._live.otel.context_keys import current_span, with_current_span
from latspan._live.otel.export._recording_span import RecordingSpan, Written
from latspan._live.otel.export._sizes import size_of_span, size_of_state
from latspan._live.otel.limits import always_within, limited
from latspan._live.otel.samplers import constant_decisions
from latspan._live.otel.spans import (
    SPAN_BYTES,
    AttributeValue,
    ChildSpan,
    FinishedSpan,
    OpenSpan,
    encodable,
    measured,
    size_of_parts,
    size_of_text,
)
from latspan._version import __version__
from latspan.semconv import SCHEMA_URL

_RANDOM_TRACE_ID: Final = 0x02
"""A trace flag of W3C Trace Context Level 2, propagated unchanged from the trace's root."""

TRACE_FLAGS: Final = {
    (sampled, is_random): TraceFlags(TraceFlags.SAMPLED * sampled | _RANDOM_TRACE_ID * is_random)
    for sampled in (False, True)
    for is_random in (False, True)
}
"""Flags of a trace, by whether it is sampled and whether its ID is random."""

_SCOPE = InstrumentationScope("latspan", __version__, SCHEMA_URL)
_FAILED = Status(StatusCode.ERROR)
_FINE = Status(StatusCode.UNSET)


class MeasuredSpan(ReadableSpan):
    """Span whose encoded size is set when it is created, from the sizes of its parts."""

    max_bytes: int = 0
    """Maximum encoded size in bytes, without its resource; read by ``size_of``."""


class PrivateSink:
    """
    Fast span sink, which creates a span only when it ends.

    Starting and ending a span of the SDK takes about 7 µs on the caller's thread, and a call has
    ten spans. Here, opening a span only generates its ids and calls the sampler. The span itself is
    created on the thread that processes finished requests.

    Args:
        provider: Source of the resource, the sampler and the ID generator, as the ``OTEL_*``
            variables configure them. The attribute limits are those of the variables too.
        take: Function that receives finished spans, all spans of one request at once.
    """

    inline = False

    def __init__(
        self, provider: TracerProvider, take: Callable[[Sequence[ReadableSpan]], object]
    ) -> None:
        self._resource = provider.resource
        self._limits = SpanLimits()
        self._within = always_within(self._limits)
        self._sampler = provider.sampler
        self._decisions = constant_decisions(provider.sampler)
        self._ids = provider.id_generator
        self._ids_are_random = isinstance(provider.id_generator, RandomIdGenerator)
        self._take = take

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        """Open a span; the provider's sampler decides whether it is sampled."""
        current = current_span(parent_context)
        parent = None if current is None else current.get_span_context()
        if parent is not None and parent.is_valid:
            trace_id, trace_state = parent.trace_id, parent.trace_state
            is_random = has_random_id(parent)
            is_sampled = self._decisions.below[parent.is_remote, parent.trace_flags.sampled]
        else:
            parent = None
            trace_id, trace_state = self._ids.generate_trace_id(), None
            is_random = self._ids_are_random
            is_sampled = self._decisions.at_root
        if is_sampled is None:
            result = self._sampler.should_sample(
                parent_context, trace_id, name, kind=kind, attributes=encodable(attributes)
            )
            is_sampled, trace_state = result.decision.is_sampled(), result.trace_state
            added = cast("Mapping[str, AttributeValue]", result.attributes)  # pyright: ignore[reportUnknownMemberType]
            attributes = {**attributes, **added}
        span_context = SpanContext(
            trace_id,
            self._ids.generate_span_id(),
            is_remote=False,
            trace_flags=TRACE_FLAGS[is_sampled, is_random],
            trace_state=trace_state,
        )
        recording = RecordingSpan(span_context, self._limits) if is_sampled else None
        current = trace.NonRecordingSpan(span_context) if recording is None else recording
        return _PrivateSpan(
            self,
            span_context,
            with_current_span(current, parent_context),
            recording,
            parent,
            name,
            kind,
            start_epoch_ns,
            attributes,
        )

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Pass on finished children of the span that is current in ``parent``."""
        parent_span = trace.get_current_span(parent).get_span_context()
        if parent_span.trace_flags.sampled:
            self.pass_on(children, parent_span)

    def pass_on(
        self,
        ended: Iterable[ChildSpan],
        span_context: SpanContext,
        own: ChildSpan | None = None,
        *,
        parent: SpanContext | None = None,
        written: Written | None = None,
    ) -> None:
        """
        Pass on finished spans as SDK spans.

        Args:
            ended: Children of one span; also that span itself, as the last, if it has ended too.
            span_context: Identity of that span.
            own: That span, if it is one of ``ended``.
            parent: Identity of its parent.
            written: What the application wrote to it.
        """
        resource, limits, within = self._resource, self._limits, self._within
        new_id = self._ids.generate_span_id
        trace_id, _, _, flags, state, _ = span_context
        state_bytes = 0 if state is DEFAULT_TRACE_STATE else size_of_state(state)
        events: Sequence[Event] = ()
        links: Sequence[Link] = ()
        spans: list[MeasuredSpan] = []
        for each in ended:
            is_own = each is own
            name, start_ns, end_ns, attributes, kind, failed, max_bytes = each
            kept = attributes if len(attributes) <= within else limited(attributes, limits)
            status = _FAILED if failed else _FINE
            if is_own and written is not None:
                # The own span is the last one, so no other has its events and links.
                events, links, status = written.events, written.links, written.status or status
                if isinstance(kept, BoundedAttributes):
                    kept.dropped += written.attributes.dropped
            span = MeasuredSpan(
                name,
                context=span_context
                if is_own
                else SpanContext(trace_id, new_id(), False, flags, state),
                parent=parent if is_own else span_context,
                resource=resource,
                attributes=kept,
                events=events,
                links=links,
                kind=kind,
                instrumentation_scope=_SCOPE,
                status=status,
                start_time=start_ns,
                end_time=end_ns,
            )
            if max_bytes is None or kept is not attributes:
                max_bytes = size_of_parts(name, kept)
            span.max_bytes = state_bytes + max_bytes
            spans.append(span)
        if written is not None:
            spans[-1].max_bytes = size_of_span(spans[-1])
        self._take(spans)


class _PrivateSpan:
    """Open span: its identity, its start and the attributes set so far."""

    __slots__ = (
        "_attributes",
        "_kind",
        "_name",
        "_parent",
        "_recording",
        "_sink",
        "_start_epoch_ns",
        "context",
        "kept",
        "span_context",
    )

    def __init__(
        self,
        sink: PrivateSink,
        span_context: SpanContext,
        context: Context,
        recording: RecordingSpan | None,
        parent: SpanContext | None,
        name: str,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> None:
        self._sink = sink
        self._recording = recording
        self.kept = recording is not None
        self.span_context = span_context
        self.context = context
        self._parent = parent
        self._name = name
        self._kind = kind
        self._start_epoch_ns = start_epoch_ns
        self._attributes = attributes

    def when_kept(self, do: Callable[[], None]) -> None:
        """Never call ``do``: the decision is known at the start and does not change later."""

    @property
    def marked_failed(self) -> bool:
        written = None if self._recording is None else self._recording.written
        status = None if written is None else written.status
        return status is not None and not status.is_ok

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        if self._recording is not None:
            self._recording.add_event(name, attributes, epoch_ns)

    def stop_recording(self) -> None:
        if self._recording is not None:
            self._recording.is_over = True

    def end(self, finished: FinishedSpan) -> None:
        recording = self._recording
        if recording is None:
            return
        recording.is_over = True
        written = recording.written
        name = finished.name
        if name is None:
            name = self._name if written is None or written.name is None else written.name
        attributes = (
            {**self._attributes, **finished.attributes}
            if written is None
            else written.added_to(self._attributes, finished.attributes)
        )
        kept, kept_bytes = measured(attributes)
        name_bytes = len(name) if name.isascii() else size_of_text(name)
        own = ChildSpan(
            name,
            self._start_epoch_ns,
            finished.end_epoch_ns,
            kept,
            self._kind,
            finished.failed,
            SPAN_BYTES + name_bytes + kept_bytes,
        )
        # The children are passed on before it.
        self._sink.pass_on(
            [*finished.children, own],
            self.span_context,
            own,
            parent=self._parent,
            written=written,
        )


def has_random_id(span_context: SpanContext) -> bool:
    """Return whether a span context has the flag for a random trace ID."""
    return bool(span_context.trace_flags & _RANDOM_TRACE_ID)
