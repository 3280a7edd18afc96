"""The current span is OpenTelemetry's own, however it is asked for."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext

from latspan._spans import current_span, with_current_span

SPAN = NonRecordingSpan(SpanContext(1, 2, is_remote=False))


def test_what_opentelemetry_made_current_is_found() -> None:
    """And nothing where nothing is."""
    assert current_span(trace.set_span_in_context(SPAN, Context({"said": 1}))) is SPAN
    assert current_span(Context({"said": 1})) is None


def test_opentelemetry_finds_what_is_made_current_here() -> None:
    """Beside whatever else the context says, and in the new one alone."""
    outside = NonRecordingSpan(SpanContext(3, 4, is_remote=False))
    around = trace.set_span_in_context(outside, Context({"said": 1}))
    inside = with_current_span(SPAN, around)

    assert trace.get_current_span(inside) is SPAN
    assert inside["said"] == 1
    assert trace.get_current_span(around) is outside
