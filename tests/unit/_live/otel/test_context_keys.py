"""latspan and OpenTelemetry read and set the same current span."""

from __future__ import annotations

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import (
    is_http_instrumentation_enabled,
    is_instrumentation_enabled,
)
from opentelemetry.trace import NonRecordingSpan, SpanContext

from latspan._live.otel.context_keys import (
    current_span,
    suppress_instrumentation,
    with_current_span,
)

SPAN = NonRecordingSpan(SpanContext(1, 2, is_remote=False))


def test_a_span_that_opentelemetry_made_current_is_found() -> None:
    """Without a current span, the result is ``None``."""
    assert current_span(trace.set_span_in_context(SPAN, Context({"said": 1}))) is SPAN
    assert current_span(Context({"said": 1})) is None


def test_opentelemetry_finds_a_span_that_latspan_made_current() -> None:
    """Other values of the context are kept, and the outer context does not change."""
    outside = NonRecordingSpan(SpanContext(3, 4, is_remote=False))
    parent_context = trace.set_span_in_context(outside, Context({"said": 1}))
    inside = with_current_span(SPAN, parent_context)

    assert trace.get_current_span(inside) is SPAN
    assert inside["said"] == 1
    assert trace.get_current_span(parent_context) is outside


def test_opentelemetrys_instrumentations_see_the_suppression() -> None:
    """Only inside the block, and other values of the context are kept."""
    token = context.attach(Context({"said": 1}))
    with suppress_instrumentation():
        assert not is_instrumentation_enabled()
        assert not is_http_instrumentation_enabled()
        assert context.get_value("said") == 1
    assert is_instrumentation_enabled()
    assert is_http_instrumentation_enabled()
    context.detach(token)
