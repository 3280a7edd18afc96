"""An application, a Collector, Jaeger and Tempo: what is read back is what there was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from support.backends import Backends, eventually
from support.otlp import attributes_of
from support.readback import Seen, spans_of
from tests.backends.conftest import SERVICE, TIMES, Run

REQUESTS = 22
"""Roots that the program has each time: 20 calls of their own, and 2 requests."""

Read = Callable[[str], TracesData]


@pytest.fixture(params=["jaeger", "tempo"])
def read(request: pytest.FixtureRequest, backends: Backends) -> Read:
    """How one of them is asked for a trace."""
    if request.param == "jaeger":
        return backends.trace
    request.getfixturevalue("tempo_program")
    return backends.tempo.trace


def test_every_span_of_every_trace(run: Run, read: Read) -> None:
    """Name, parent, kind, both times in nanoseconds, attributes, status, events and scope."""
    sent = spans_of(run.spans)
    assert len(sent) == TIMES * REQUESTS

    for trace_id, expected in sent.items():

        def look(trace_id: str = trace_id) -> dict[str, Seen]:
            return spans_of(read(trace_id)).get(trace_id, {})

        def enough(found: dict[str, Seen], count: int = len(expected)) -> bool:
            return len(found) >= count

        assert eventually(look, enough) == expected


def test_who_sent_it(run: Run, read: Read) -> None:
    """The resource is on what they have, as it was."""
    said = attributes_of(run.spans.resource_spans[0].resource.attributes)
    assert said["service.name"] == SERVICE
    trace_id = run.document["records"][0]["trace_id"]

    found = eventually(lambda: read(trace_id), lambda it: bool(it.resource_spans))

    assert [attributes_of(held.resource.attributes) for held in found.resource_spans] == [said]


def test_jaeger_finds_requests_by_a_segment_that_was_long(run: Run) -> None:
    """As the guide says, by the segment's name and a minimum duration."""
    prefills = {
        trace_id: max(span.duration_ns for span in spans.values() if span.name == "prefill")
        for trace_id, spans in spans_of(run.spans).items()
        if any(span.name == "prefill" for span in spans.values())
    }
    slowest_tenth_us = sorted(prefills.values())[-len(prefills) // 10] // 1_000
    slow = {each for each, ns in prefills.items() if ns >= slowest_tenth_us * 1_000}
    assert len(prefills) / 20 < len(slow) < len(prefills) / 5

    def search() -> set[str]:
        return run.backends.traces_with(
            SERVICE, "prefill", at_least_us=slowest_tenth_us, limit=len(prefills)
        )

    assert eventually(search, slow.__eq__) == slow
