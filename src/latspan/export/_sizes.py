"""How many bytes things take on the wire, at most, without encoding them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.sdk.trace import ReadableSpan

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord

__all__ = ["size_of", "size_of_attributes", "size_of_span"]

_ATTRIBUTE_BYTES: Final = 16
"""Tags and lengths of one attribute."""

_NUMBER_BYTES: Final = 12
_NUMBERS: Final = frozenset({bool, int, float})

_SPAN_BYTES: Final = 160
"""Identities, times, kind, flags and status of a span."""

_EVENT_BYTES: Final = 32
_LINK_BYTES: Final = 64


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return how many bytes attributes take at most when encoded."""
    size = _ATTRIBUTE_BYTES * len(attributes)
    for name, value in attributes.items():
        size += _size_of_text(name)
        # To write a number out would take longer than all the rest.
        size += _NUMBER_BYTES if type(value) in _NUMBERS else _size_of_text(value)
    return size


def size_of(sent: ReadableSpan | ReadableLogRecord) -> int:
    """Return how many bytes a span or an event takes at most when encoded, its resource apart."""
    if isinstance(sent, ReadableSpan):
        return size_of_span(sent)
    return _SPAN_BYTES + size_of_attributes(sent.log_record.attributes or {})


def size_of_span(span: ReadableSpan) -> int:
    """Return how many bytes a span takes at most when encoded, its resource apart."""
    size = _SPAN_BYTES + _size_of_text(span.name) + size_of_attributes(span.attributes or {})
    if span.context is not None and span.context.trace_state:
        size += _size_of_text(span.context.trace_state.to_header())
    if span.status.description:
        size += _size_of_text(span.status.description)
    for event in span.events:
        size += (
            _EVENT_BYTES + _size_of_text(event.name) + size_of_attributes(event.attributes or {})
        )
    for link in span.links:
        size += _LINK_BYTES + size_of_attributes(link.attributes or {})
    return size


def _size_of_text(value: object) -> int:
    text = value if isinstance(value, str) else str(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
