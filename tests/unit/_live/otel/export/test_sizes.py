"""What a span is measured to take is never less than what it takes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from latspan._live.otel.export import PrivateSink
from latspan._live.otel.export._sizes import size_of, size_of_span
from latspan._live.otel.spans import ChildSpan, FinishedSpan

TEXTS = st.text(max_size=40)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans()
ATTRIBUTES = st.dictionaries(
    TEXTS.filter(bool),
    TEXTS | NUMBERS | st.lists(TEXTS, max_size=5) | st.tuples(TEXTS),
    max_size=5,
)
RESOURCE_AND_SCOPE = 1_000


@given(TEXTS, ATTRIBUTES, st.lists(ATTRIBUTES, max_size=3))
def test_nothing_is_larger_than_it_is_measured(
    name: str, attributes: dict[str, Any], more: list[dict[str, Any]]
) -> None:
    """Events, links, a description of the status and the trace's state included."""
    state = TraceState([("vendor", "value")])
    context = SpanContext(2**128 - 1, 2**64 - 1, False, trace_state=state)
    span = (
        TracerProvider(shutdown_on_exit=False)
        .get_tracer("test")
        .start_span(name, attributes=attributes, links=[Link(context, each) for each in more])
    )
    for each in more:
        span.add_event(name, each)
    span.set_status(Status(StatusCode.ERROR, name))
    span.end()
    assert isinstance(span, ReadableSpan)

    [resource_spans] = encode_spans([span]).resource_spans
    [encoded] = resource_spans.scope_spans[0].spans
    assert encoded.ByteSize() <= size_of_span(span)


@given(TEXTS, ATTRIBUTES, st.lists(ATTRIBUTES, max_size=3))
def test_a_span_is_measured_where_it_is_made(
    name: str, attributes: dict[str, Any], of_children: list[dict[str, Any]]
) -> None:
    """Its queue need not do it again."""
    spans: list[ReadableSpan] = []
    sink = PrivateSink(TracerProvider(shutdown_on_exit=False), spans.extend)
    parent_context = SpanContext(
        2**128 - 1,
        2**64 - 1,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=TraceState([("vendor", "v" * 100)]),
    )
    open_span = sink.open(
        name,
        kind=SpanKind.CLIENT,
        start_epoch_ns=1,
        attributes=attributes,
        parent_context=set_span_in_context(NonRecordingSpan(parent_context)),
    )
    children = tuple(ChildSpan(name, 1, 2, each) for each in of_children)
    open_span.end(FinishedSpan(2, attributes, failed=True, children=children))

    assert len(spans) == len(of_children) + 1
    for span in spans:
        [resource_spans] = encode_spans([span]).resource_spans
        [encoded] = resource_spans.scope_spans[0].spans
        assert encoded.ByteSize() <= size_of(span)
