"""Maximum encoded size of spans and events in bytes, computed without encoding them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, Status, TraceState

from latspan._spans import size_of_attributes, size_of_parts, size_of_text

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord

__all__ = ["MeasuredSpan", "size_of", "size_of_span", "size_of_state"]

_EVENT_BYTES: Final = 32
_LINK_BYTES: Final = 64


class MeasuredSpan(ReadableSpan):
    """Span whose encoded size is set when it is created, from the sizes of its parts."""

    most_bytes: int = 0
    """Maximum encoded size in bytes, without its resource."""

    def add(
        self,
        events: Sequence[Event],
        links: Sequence[Link],
        status: Status | None,
        dropped_attributes: int,
    ) -> None:
        """
        Add what the application has set on the span; call this once, before the span is exported.

        Args:
            events: Events.
            links: Links to other spans.
            status: Status, ``None`` if the application has set none.
            dropped_attributes: Number of attributes that were dropped while the span was open.
        """
        self._events, self._links = events, links
        if isinstance(self._attributes, BoundedAttributes):
            self._attributes.dropped += dropped_attributes
        if status is not None:
            self._status = status
        self.most_bytes = size_of_span(self)


def size_of(sent: ReadableSpan | ReadableLogRecord) -> int:
    """Return the maximum encoded size of a span or an event in bytes, without its resource."""
    if isinstance(sent, MeasuredSpan):
        return sent.most_bytes
    if isinstance(sent, ReadableSpan):
        return size_of_span(sent)
    return size_of_parts("", sent.log_record.attributes or {})


def size_of_span(span: ReadableSpan) -> int:
    """Return the maximum encoded size of a span in bytes, without its resource."""
    size = size_of_parts(span.name, span.attributes or {})
    if span.context is not None:
        size += size_of_state(span.context.trace_state)
    if span.status.description:
        size += size_of_text(span.status.description)
    for event in span.events:
        size += _EVENT_BYTES + size_of_text(event.name) + size_of_attributes(event.attributes or {})
    for link in span.links:
        size += _LINK_BYTES + size_of_attributes(link.attributes or {})
    return size


def size_of_state(trace_state: TraceState) -> int:
    """Return the maximum encoded size, in bytes, of a trace's state in each of its spans."""
    return size_of_text(trace_state.to_header()) if trace_state else 0
