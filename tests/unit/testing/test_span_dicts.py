"""Spans are converted to trees of plain values."""

from __future__ import annotations

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
)

import latspan
from latspan.testing import capture, spans_as_dict
from latspan.testing._span_dicts import SequentialIds

MS = 1_000_000


def _spans() -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(id_generator=SequentialIds(), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    remote = SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    parent_context = trace.set_span_in_context(NonRecordingSpan(remote))
    root = tracer.start_span(
        "root", context=parent_context, start_time=10 * MS, links=[Link(remote)]
    )
    inside = trace.set_span_in_context(root)
    late = tracer.start_span("late", context=inside, start_time=13 * MS)
    early = tracer.start_span("early", context=inside, start_time=11 * MS)
    early.set_attributes({"b": 1, "a": ("x", "y")})
    early.add_event("seen")
    early.set_status(Status(StatusCode.ERROR, "why"))
    for span, end in ((early, 12), (late, 14), (root, 15)):
        span.end(end * MS)
    return tuple(exporter.get_finished_spans())


def test_a_trace_is_one_value() -> None:
    """Children are nested in their parent by start; times are relative to the earliest start."""
    assert spans_as_dict(_spans()) == [
        {
            "name": "root",
            "kind": "INTERNAL",
            "remote_parent": 9,
            "start_ms": 0.0,
            "end_ms": 5.0,
            "attributes": {},
            "links": [9],
            "children": [
                {
                    "name": "early",
                    "kind": "INTERNAL",
                    "start_ms": 1.0,
                    "end_ms": 2.0,
                    "status": "ERROR",
                    "attributes": {"a": ["x", "y"], "b": 1},
                    "events": ["seen"],
                },
                {
                    "name": "late",
                    "kind": "INTERNAL",
                    "start_ms": 3.0,
                    "end_ms": 4.0,
                    "attributes": {},
                },
            ],
        }
    ]


def test_times_and_attributes_can_be_omitted() -> None:
    """With the machine's clock, only the rest is reproducible."""
    (root,) = spans_as_dict(_spans(), times=False, attributes=("b",))

    early, late = root["children"]
    assert early["attributes"] == {"b": 1}
    assert late == {"name": "late", "kind": "INTERNAL", "attributes": {}}


def test_captured_ids_count_from_one() -> None:
    """In the order in which spans start."""
    with capture() as captured, latspan.request("outer"), latspan.stage("inner"):
        pass

    inner, outer = captured.spans
    assert outer.context is not None
    assert inner.context is not None
    assert (outer.context.trace_id, outer.context.span_id) == (1, 1)
    assert (inner.context.trace_id, inner.context.span_id) == (1, 2)
    assert [span["name"] for span in captured.spans_as_dict()] == ["outer"]
