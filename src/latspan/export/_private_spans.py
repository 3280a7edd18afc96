"""Spans of latspan's private provider: built whole when they end, handed to its processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from latspan._spans import AttributeValue, ChildSpan, DecidedAtStart, FinishedSpan, OpenSpan
from latspan._version import __version__
from latspan.export._trace_flags import has_random_id, trace_flags
from latspan.semconv import SCHEMA_URL

__all__ = ["PrivateSink"]

_SCOPE = InstrumentationScope("latspan", __version__, SCHEMA_URL)
_FAILED = Status(StatusCode.ERROR)
_FINE = Status(StatusCode.UNSET)


class PrivateSink:
    """
    The fast way out: no span exists until it is over.

    A span of the SDK's costs some 7 µs to start and end on the caller's thread, and ten of them
    make a call. Here opening one draws its identity and asks the sampler; the rest happens where
    finished requests are settled.

    Args:
        provider: Gives resource, sampler and identities, as the ``OTEL_*`` variables say.
        processor: Takes finished spans.
    """

    inline = False

    def __init__(self, provider: TracerProvider, processor: SpanProcessor) -> None:
        self._resource = provider.resource
        self._sampler = provider.sampler
        self._ids = provider.id_generator
        self._ids_are_random = isinstance(provider.id_generator, RandomIdGenerator)
        self._processor = processor

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> OpenSpan:
        """Begin a span beneath the current one; the sampler of the environment rules."""
        around = context.get_current()
        parent = trace.get_current_span(around).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else self._ids.generate_trace_id()
        decision = self._sampler.should_sample(
            around, trace_id, name, kind=kind, attributes=attributes
        )
        span_context = SpanContext(
            trace_id,
            self._ids.generate_span_id(),
            is_remote=False,
            trace_flags=trace_flags(
                sampled=decision.decision.is_sampled(),
                is_random=has_random_id(parent) if parent.is_valid else self._ids_are_random,
            ),
            trace_state=decision.trace_state,
        )
        added = cast("Mapping[str, AttributeValue]", decision.attributes)  # pyright: ignore[reportUnknownMemberType]
        return _PrivateSpan(
            self,
            span_context,
            parent if parent.is_valid else None,
            name,
            kind,
            start_epoch_ns,
            {**attributes, **added} if added else attributes,
        )

    def emit(
        self,
        name: str,
        *,
        span_context: SpanContext,
        parent: SpanContext | None,
        kind: SpanKind,
        interval: tuple[int, int],
        attributes: Mapping[str, AttributeValue],
        failed: bool,
    ) -> None:
        """Hand one finished span to the processor."""
        self._processor.on_end(
            ReadableSpan(
                name,
                context=span_context,
                parent=parent,
                resource=self._resource,
                attributes=attributes,
                kind=kind,
                instrumentation_scope=_SCOPE,
                status=_FAILED if failed else _FINE,
                start_time=interval[0],
                end_time=interval[1],
            )
        )

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Hand over spans beneath the one that is current in ``parent``, in its trace."""
        around = trace.get_current_span(parent).get_span_context()
        for child in children:
            self.emit_child(child, around)

    def emit_child(self, child: ChildSpan, parent: SpanContext) -> None:
        """Hand over a span beneath ``parent``, in its trace."""
        self.emit(
            child.name,
            span_context=SpanContext(
                parent.trace_id,
                self._ids.generate_span_id(),
                is_remote=False,
                trace_flags=parent.trace_flags,
                trace_state=parent.trace_state,
            ),
            parent=parent,
            kind=child.kind,
            interval=(child.start_epoch_ns, child.end_epoch_ns),
            attributes=child.attributes,
            failed=child.failed,
        )


class _PrivateSpan(DecidedAtStart):
    """A span that is an identity and a start until it ends."""

    __slots__ = (
        "_attributes",
        "_context",
        "_kind",
        "_name",
        "_parent",
        "_sink",
        "_span_context",
        "_start_epoch_ns",
    )

    def __init__(
        self,
        sink: PrivateSink,
        span_context: SpanContext,
        parent: SpanContext | None,
        name: str,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> None:
        self._sink = sink
        self._span_context = span_context
        self._parent = parent
        self._name = name
        self._kind = kind
        self._start_epoch_ns = start_epoch_ns
        self._attributes = attributes
        self._context = trace.set_span_in_context(trace.NonRecordingSpan(span_context))

    @property
    def span_context(self) -> SpanContext:
        return self._span_context

    @property
    def context(self) -> Context:
        return self._context

    def finish(self, finished: FinishedSpan) -> None:
        if not self._span_context.trace_flags.sampled:
            return
        for child in finished.children:
            self._sink.emit_child(child, self._span_context)
        self._sink.emit(
            self._name if finished.name is None else finished.name,
            span_context=self._span_context,
            parent=self._parent,
            kind=self._kind,
            interval=(self._start_epoch_ns, finished.end_epoch_ns),
            attributes={**self._attributes, **finished.attributes},
            failed=finished.failed,
        )
