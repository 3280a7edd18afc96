"""
Enrichment of another instrumentation's span with latspan's attributes.

The other instrumentation may end its span before the call ends, and an ended span accepts no
attributes. So the span object gets an attribute ``end`` of its own, which hides the method of its
class and only stores the time. The span really ends once both the other instrumentation and the
call have ended it, in either order and on any thread, at the time that the other instrumentation
gave. The attribute is removed when the span really ends, or when the call ends if the other
instrumentation has not ended the span by then. If a span class does not allow the attribute, the
span ends when the other instrumentation ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from latspan._live.otel.context_keys import with_current_span
from latspan._live.otel.spans._encodable import encodable
from latspan._live.otel.spans._span import (
    AttributeValue,
    ChildSpan,
    DecidedAtStart,
    FinishedSpan,
    OpenSpan,
    SpanSink,
)

WhenEnded = Callable[[], Mapping[str, AttributeValue] | None]
"""
Callback for the moment when the other instrumentation ends its span.

It returns ``None`` to delay that end until the call ends, or the attributes to set on the span now.
"""


class EnrichingSink:
    """
    Sink that adds attributes to the open span of another instrumentation and opens none itself.

    Args:
        sink: Sink for the child spans.
        span: Span of the other instrumentation.
        when_ended: Called when the other instrumentation ends its span. If not given, that end
            always waits for the end of the call.
        left_out: Names of the attributes that are not added.
    """

    inline = True

    def __init__(
        self,
        sink: SpanSink,
        span: trace.Span,
        when_ended: WhenEnded | None = None,
        *,
        left_out: Collection[str] = (),
    ) -> None:
        self._sink = sink
        self._span = span
        self._when_ended = when_ended
        self._left_out = left_out

    def open(
        self,
        name: str,  # noqa: ARG002
        *,
        kind: SpanKind,  # noqa: ARG002
        start_epoch_ns: int,  # noqa: ARG002
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        """Use the span of the other instrumentation, which that instrumentation ends."""
        return _EnrichedSpan(
            self._sink,
            self._span,
            attributes,
            parent_context,
            self._when_ended,
            self._left_out,
        )

    def end_children(self, children: Sequence[ChildSpan], parent: Context) -> None:
        """Pass the children on to the inner sink."""
        self._sink.end_children(children, parent)


class _EnrichedSpan(DecidedAtStart):
    """
    Span of another instrumentation whose end is delayed until the call ends.

    Some instrumentations end their span inside the call, before its response is known; an ended
    span accepts no more attributes. Two ends are due: the other instrumentation's and the call's.
    Each removes one item of the list, in either order and on any thread; the one that removes the
    last item ends the span.
    """

    __slots__ = (
        "_attributes",
        "_due",
        "_ended_epoch_ns",
        "_left_out",
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
        parent_context: Context,
        when_ended: WhenEnded | None,
        left_out: Collection[str],
    ) -> None:
        self._sink = sink
        self._span = span
        self._attributes = attributes
        self._when_ended = when_ended
        self._left_out = left_out
        self.span_context = span.get_span_context()
        self.context = with_current_span(span, parent_context)
        self._ended_epoch_ns: int | None = None
        # Removing an item from a list is atomic.
        self._due = [True, False]
        """The two ends that are due; an item is true if its removal is the last one."""
        with suppress(AttributeError):
            span.end = self._end_later

    def _end_later(self, end_time: int | None = None) -> None:
        if self._ended_epoch_ns is not None:
            return
        self._ended_epoch_ns = time.time_ns() if end_time is None else end_time
        self._claim()
        when_ended = self._when_ended
        known = None if when_ended is None or not self._due else when_ended()
        if known is not None and self._due:
            self._add(known)
            self._claim()

    def _claim(self) -> None:
        """Remove one of the two ends, and end the span if it was the last."""
        try:
            is_last = self._due.pop()
        except IndexError:
            # Both ends have been removed: the span has ended before the call.
            return
        if is_last:
            with suppress(AttributeError):
                del self._span.end
            self._span.end(self._ended_epoch_ns)

    def _add(self, known: Mapping[str, AttributeValue]) -> None:
        span = self._span
        # Attributes that the other instrumentation has set are not overwritten: the span belongs
        # to it.
        existing: Mapping[str, object] = getattr(span, "attributes", None) or {}
        given = encodable(known)
        span.set_attributes(
            {
                key: value
                for key, value in given.items()
                if key not in existing and key not in self._left_out
            }
        )

    def add_event(self, name: str, attributes: Mapping[str, AttributeValue], epoch_ns: int) -> None:
        self._span.add_event(name, attributes, epoch_ns)

    def end(self, finished: FinishedSpan) -> None:
        self._when_ended = None
        try:
            self._sink.end_children(finished.children, self.context)
            if self._due:
                self._add({**self._attributes, **finished.attributes})
        finally:
            self._claim()
            if self._ended_epoch_ns is None:
                with suppress(AttributeError):
                    del self._span.end
