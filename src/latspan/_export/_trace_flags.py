"""Trace flags of span contexts, one shared object per combination."""

from __future__ import annotations

from typing import Final

from opentelemetry.trace import SpanContext, TraceFlags

__all__ = ["TRACE_FLAGS", "has_random_id"]

_RANDOM_TRACE_ID: Final = 0x02
"""A trace flag of W3C Trace Context Level 2, propagated unchanged from the trace's root."""

TRACE_FLAGS: Final = {
    (sampled, is_random): TraceFlags(TraceFlags.SAMPLED * sampled | _RANDOM_TRACE_ID * is_random)
    for sampled in (False, True)
    for is_random in (False, True)
}
"""Flags of a trace, by whether it is sampled and whether its ID is random."""


def has_random_id(span_context: SpanContext) -> bool:
    """Return whether a span context has the flag for a random trace ID."""
    return bool(span_context.trace_flags & _RANDOM_TRACE_ID)
