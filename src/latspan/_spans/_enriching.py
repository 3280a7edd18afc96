"""No span of our own: another instrumentation's, with what is known added."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._spans._current import with_current_span
from latspan._spans._encodable import encodable
from latspan._spans._span import (
    AttributeValue,
    ChildSpan,
    DecidedAtStart,
    FinishedSpan,
    OpenSpan,
    SpanSink,
)

__all__ = ["EnrichingSink"]


class EnrichingSink:
    """
    No span of its own: what is known goes to the span that another instrumentation has open.

    Args:
        sink: Where the spans beneath go.
        span: The other's span.
    """

    inline = True

    def __init__(self, sink: SpanSink, span: trace.Span) -> None:
        self._sink = sink
        self._span = span

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],
        around: Context,
    ) -> OpenSpan:
        """Take the other's span for ours, which it ends itself."""
        return _EnrichedSpan(self._sink, self._span, attributes, around)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Hand them on."""
        self._sink.end_children(children, parent)


class _EnrichedSpan(DecidedAtStart):
    """
    The other's span, whose end waits for the call's.

    Some end theirs inside the call, before its answer is known: ended, it would take nothing more.
    """

    __slots__ = ("_attributes", "_ended_epoch_ns", "_sink", "_span", "context", "span_context")

    def __init__(
        self,
        sink: SpanSink,
        span: trace.Span,
        attributes: Mapping[str, AttributeValue],
        around: Context,
    ) -> None:
        self._sink = sink
        self._span = span
        self._attributes = attributes
        self.span_context = span.get_span_context()
        self.context = with_current_span(span, around)
        self._ended_epoch_ns: int | None = None
        with suppress(AttributeError):
            span.end = self._end_later

    def _end_later(self, end_time: int | None = None) -> None:
        if self._ended_epoch_ns is None:
            self._ended_epoch_ns = time.time_ns() if end_time is None else end_time

    def finish(self, finished: FinishedSpan) -> None:
        span = self._span
        try:
            self._sink.end_children(finished.children, self.context)
            # What the other says of it stands: a span is its maker's.
            said: Mapping[str, object] = getattr(span, "attributes", None) or {}
            known = encodable({**self._attributes, **finished.attributes})
            span.set_attributes({key: value for key, value in known.items() if key not in said})
        finally:
            with suppress(AttributeError):
                del span.end
            if self._ended_epoch_ns is not None:
                span.end(self._ended_epoch_ns)
