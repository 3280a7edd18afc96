"""An application, a Collector and Jaeger: what is read back is what there was."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from support.backends import eventually
from support.otlp import Attributes, attributes_of
from tests.backends.conftest import SERVICE, TIMES, Run

REQUESTS = 22
"""Roots that the program has each time: 20 calls of their own, and 2 requests."""

Seen = tuple[str, str, int, int, int, Attributes, tuple[int, str], list[Any], str]


def spans_of(traces: TracesData) -> dict[str, dict[str, Seen]]:
    """Return all that a span says, by trace and span."""
    found: defaultdict[str, dict[str, Seen]] = defaultdict(dict)
    for resource in traces.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                held = found[span.trace_id.hex()]
                assert span.span_id.hex() not in held, "a span came twice"
                held[span.span_id.hex()] = (
                    span.name,
                    span.parent_span_id.hex(),
                    span.kind,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    attributes_of(span.attributes),
                    (span.status.code, span.status.message),
                    [
                        (event.name, event.time_unix_nano, attributes_of(event.attributes))
                        for event in span.events
                    ],
                    f"{scope.scope.name} {scope.scope.version}",
                )
    return dict(found)


def test_every_span_of_every_trace(run: Run) -> None:
    """Name, parent, kind, both times in nanoseconds, attributes, status, events and scope."""
    sent = spans_of(run.spans)
    assert len(sent) == TIMES * REQUESTS

    for trace_id, expected in sent.items():

        def read(trace_id: str = trace_id) -> dict[str, Seen]:
            return spans_of(run.backends.trace(trace_id)).get(trace_id, {})

        def enough(found: dict[str, Seen], count: int = len(expected)) -> bool:
            return len(found) >= count

        assert eventually(read, enough) == expected


def test_who_sent_it(run: Run) -> None:
    """The resource is on what Jaeger has, as it was."""
    said = attributes_of(run.spans.resource_spans[0].resource.attributes)
    assert said["service.name"] == SERVICE
    trace_id = run.document["records"][0]["trace_id"]

    found = eventually(lambda: run.backends.trace(trace_id), lambda it: bool(it.resource_spans))

    assert [attributes_of(held.resource.attributes) for held in found.resource_spans] == [said]


def test_requests_are_found_by_a_segment_that_was_long(run: Run) -> None:
    """As the guide says, by the segment's name and a minimum duration."""
    prefills = {
        trace_id: max(span[4] - span[3] for span in spans.values() if span[0] == "prefill")
        for trace_id, spans in spans_of(run.spans).items()
        if any(span[0] == "prefill" for span in spans.values())
    }
    slowest_tenth_us = sorted(prefills.values())[-len(prefills) // 10] // 1_000
    slow = {each for each, ns in prefills.items() if ns >= slowest_tenth_us * 1_000}
    assert len(prefills) / 20 < len(slow) < len(prefills) / 5

    def search() -> set[str]:
        return run.backends.traces_with(
            SERVICE, "prefill", at_least_us=slowest_tenth_us, limit=len(prefills)
        )

    assert eventually(search, slow.__eq__) == slow
