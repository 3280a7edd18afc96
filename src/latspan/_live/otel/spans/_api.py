"""Spans created through the OpenTelemetry API."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from latspan._live.otel.context_keys import with_current_span
from latspan._live.otel.spans._encodable import encodable
from latspan._live.otel.spans._span import (
    AttributeValue,
    ChildSpan,
    DecidedAtStart,
    EndChildren,
    FinishedSpan,
    OpenSpan,
)


def start_and_end(tracer: trace.Tracer, children: Sequence[ChildSpan], context: Context) -> None:
    """Start and end children through the OpenTelemetry API."""
    for child in children:
        span = tracer.start_span(
            child.name,
            context=context,
            kind=child.kind,
            attributes=child.attributes,
            start_time=child.start_epoch_ns,
        )
        if child.failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(child.end_epoch_ns)


class _ApiSpan(DecidedAtStart):
    """Span of the OpenTelemetry API."""

    __slots__ = ("_end_children", "_span", "context", "span_context")

    def __init__(
        self, span: trace.Span, end_children: EndChildren, parent_context: Context
    ) -> None:
        self._span = span
        self._end_children = end_children
        self.span_context = span.get_span_context()
        self.context = with_current_span(span, parent_context)

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        self._span.add_event(name, attributes, epoch_ns)

    def end(self, finished: FinishedSpan) -> None:
        span = self._span
        if span.is_recording():
            self._end_children(finished.children, self.context)
            if finished.name is not None:
                span.update_name(finished.name)
            span.set_attributes(encodable(finished.attributes))
            if finished.failed:
                span.set_status(Status(StatusCode.ERROR))
        span.end(finished.end_epoch_ns)


class ApiSink:
    """
    Sink that uses the OpenTelemetry API: an application's provider, whatever it is.

    Args:
        tracer: Tracer of that provider.
        end_children: Function that ends its spans' children; by default it starts them first.
    """

    def __init__(self, tracer: trace.Tracer, end_children: EndChildren | None = None) -> None:
        self._tracer = tracer
        self._end_children = end_children or functools.partial(start_and_end, tracer)

    @property
    def inline(self) -> bool:
        """
        Always true: spans end with their request; it is unknown when the application reads them.
        """
        return True

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        """Begin a span; the provider's sampler decides whether it is recorded."""
        span = self._tracer.start_span(
            name,
            context=parent_context,
            kind=kind,
            attributes=encodable(attributes),
            start_time=start_epoch_ns,
        )
        return _ApiSpan(span, self._end_children, parent_context)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Create and end child spans of the span that is current in ``parent``."""
        self._end_children(children, parent)
