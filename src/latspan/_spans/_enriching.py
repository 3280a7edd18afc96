"""No span of our own: another instrumentation's, with what is known added."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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


WhenEnded = Callable[[], Mapping[str, AttributeValue] | None]
"""
Called when the other instrumentation ends its span.

It returns ``None`` to have that wait for the end of the call, or what to set on the span now.
"""


class EnrichingSink:
    """
    No span of its own: what is known goes to the span that another instrumentation has open.

    Args:
        sink: Where the spans beneath go.
        span: The other's span.
        when_ended: Decides what becomes of its end; it waits for that of the call, if not given.
    """

    inline = True

    def __init__(
        self, sink: SpanSink, span: trace.Span, when_ended: WhenEnded | None = None
    ) -> None:
        self._sink = sink
        self._span = span
        self._when_ended = when_ended

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
        return _EnrichedSpan(self._sink, self._span, attributes, around, self._when_ended)

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Hand them on."""
        self._sink.end_children(children, parent)


class _EnrichedSpan(DecidedAtStart):
    """
    The other's span, whose end waits for the call's.

    Some end theirs inside the call, before its answer is known: ended, it would take nothing more.
    Of the two ends, its maker's and the call's, each takes one of what is due, in either order and
    in any thread; who takes the last ends the span.
    """

    __slots__ = (
        "_attributes",
        "_due",
        "_ended_epoch_ns",
        "_sink",
        "_span",
        "_when_ended",
        "context",
        "span_context",
    )

    def __init__(
        self,
        sink: SpanSink,
        span: trace.Span,
        attributes: Mapping[str, AttributeValue],
        around: Context,
        when_ended: WhenEnded | None,
    ) -> None:
        self._sink = sink
        self._span = span
        self._attributes = attributes
        self._when_ended = when_ended
        self.span_context = span.get_span_context()
        self.context = with_current_span(span, around)
        self._ended_epoch_ns: int | None = None
        # Taking from a list is atomic.
        self._due = [True, False]
        """Two ends are due; what stands there says whether it is the last."""
        with suppress(AttributeError):
            span.end = self._end_later

    def _end_later(self, end_time: int | None = None) -> None:
        if self._ended_epoch_ns is not None:
            return
        self._ended_epoch_ns = time.time_ns() if end_time is None else end_time
        self._take()
        when_ended = self._when_ended
        known = None if when_ended is None or not self._due else when_ended()
        if known is not None and self._due:
            self._add(known)
            self._take()

    def _take(self) -> None:
        """Take one of the two ends, and end the span if it was the last."""
        try:
            is_last = self._due.pop()
        except IndexError:
            # It was ended before the call was.
            return
        if is_last:
            with suppress(AttributeError):
                del self._span.end
            self._span.end(self._ended_epoch_ns)

    def _add(self, known: Mapping[str, AttributeValue]) -> None:
        span = self._span
        # What the other says of it stands: a span is its maker's.
        said: Mapping[str, object] = getattr(span, "attributes", None) or {}
        given = encodable(known)
        span.set_attributes({key: value for key, value in given.items() if key not in said})

    def finish(self, finished: FinishedSpan) -> None:
        self._when_ended = None
        try:
            self._sink.end_children(finished.children, self.context)
            if self._due:
                self._add({**self._attributes, **finished.attributes})
        finally:
            self._take()
            if self._ended_epoch_ns is None:
                with suppress(AttributeError):
                    del self._span.end
