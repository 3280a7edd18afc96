"""Spans through the OpenTelemetry API."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from latspan._spans._span import (
    AttributeValue,
    ChildSpan,
    DecidedAtStart,
    EndChildren,
    FinishedSpan,
    OpenSpan,
)

__all__ = ["ApiSink", "start_and_end"]


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
    """A span of the OpenTelemetry API."""

    __slots__ = ("_context", "_end_children", "_span")

    def __init__(self, span: trace.Span, end_children: EndChildren) -> None:
        self._span = span
        self._end_children = end_children
        self._context = trace.set_span_in_context(span)

    @property
    def span_context(self) -> SpanContext:
        return self._span.get_span_context()

    @property
    def context(self) -> Context:
        return self._context

    def finish(self, finished: FinishedSpan) -> None:
        span = self._span
        if span.is_recording():
            self._end_children(finished.children, self._context)
            if finished.name is not None:
                span.update_name(finished.name)
            span.set_attributes(finished.attributes)
            if finished.failed:
                span.set_status(Status(StatusCode.ERROR))
        span.end(finished.end_epoch_ns)


class ApiSink:
    """
    Spans through the OpenTelemetry API: an application's provider, whatever it is.

    Args:
        tracer: A tracer of that provider.
        end_children: How its spans' children are ended; started first, unless given.
    """

    inline = True

    def __init__(self, tracer: trace.Tracer, end_children: EndChildren | None = None) -> None:
        self._tracer = tracer
        self._end_children = end_children or functools.partial(start_and_end, tracer)

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
    ) -> OpenSpan:
        """Begin a span beneath the current one; the provider's sampler rules."""
        span = self._tracer.start_span(
            name, kind=kind, attributes=attributes, start_time=start_epoch_ns
        )
        return _ApiSpan(span, self._end_children)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Make and end spans beneath the one that is current in ``parent``."""
        self._end_children(children, parent)
