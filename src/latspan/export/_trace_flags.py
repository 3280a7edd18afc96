"""The flags that travel with a trace's identity, each pair of them made once."""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import SpanContext, TraceFlags

__all__ = ["has_random_id", "trace_flags"]

_RANDOM_TRACE_ID: Final = 0x02
"""A trace flag of W3C Trace Context Level 2, which travels unchanged from the trace's root."""

_FLAGS: Final = {
    (sampled, is_random): TraceFlags(TraceFlags.SAMPLED * sampled | _RANDOM_TRACE_ID * is_random)
    for sampled in (False, True)
    for is_random in (False, True)
}


def has_random_id(span_context: SpanContext) -> bool:
    """Return whether a span's trace says that its id is random."""
    return bool(span_context.trace_flags & _RANDOM_TRACE_ID)


def trace_flags(*, sampled: bool, is_random: bool) -> TraceFlags:
    """Return the flags of a trace that is sampled or not, and whose id is random or not."""
    return _FLAGS[sampled, is_random]
