"""Maximum encoded size of spans and events in bytes, computed without encoding them."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, cast

from latspan._live.otel.spans import size_of_attributes, size_of_parts, size_of_text

if TYPE_CHECKING:
    # Spans are measured on the caller's thread, which must not wait for the SDK's import.
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import TraceState

_EVENT_BYTES: Final = 32
_LINK_BYTES: Final = 64

MAX_BYTES: Final = "max_bytes"
"""Attribute of a span that was measured when it was created: its maximum encoded size in bytes."""


def size_of(*sent: ReadableSpan | ReadableLogRecord) -> int:
    """Return the maximum encoded size of spans and events in bytes, without their resource."""
    measured: list[int | None] = list(map(getattr, sent, repeat(MAX_BYTES), repeat(None)))
    if None not in measured:
        return sum(cast("list[int]", measured))
    return sum(
        _computed_size(each) if size is None else size
        for each, size in zip(sent, measured, strict=True)
    )


def _computed_size(sent: ReadableSpan | ReadableLogRecord) -> int:
    record: Any = getattr(sent, "log_record", None)
    if record is not None:
        return size_of_parts("", record.attributes or {})
    return size_of_span(cast("ReadableSpan", sent))


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
