"""What the application knows about a request arrives with its spans and in its metrics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace

import latspan
from support.otlp import attributes_of
from support.receivers import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Give an OTLP receiver that latspan exports to, with one attribute in series."""
    with receiving() as receiver:
        latspan.configure(endpoint=receiver.url, series_attributes=("prompt.version",))
        try:
            yield receiver
        finally:
            latspan.shutdown()


def test_a_request_arrives_with_everything_that_was_set_on_it(receiver: Receiver) -> None:
    """Attributes, an event, an exception and a status; series have the configured attribute."""
    with (
        latspan.attributes({"prompt.version": "7", "labels": ["a", "b"]}, tenant="acme"),
        latspan.request("answer") as request,
    ):
        request.set_attribute("documents", 12)
        request.add_event("retrieved", {"source": "index"})
        with latspan.stage("retrieve"):
            span = trace.get_current_span()
            span.set_attribute("hits", 3)
            span.record_exception(ValueError("no index"))
            span.set_status(trace.StatusCode.ERROR, "no index")
        trace_id = request.trace_id
    assert latspan.force_flush(30)

    spans = {span.name: span for span in receiver.all_spans}
    answer, retrieve = spans["answer"], spans["retrieve"]
    assert answer.trace_id.hex() == trace_id
    assert {
        "prompt.version": "7",
        "labels": ("a", "b"),
        "latspan.tenant": "acme",
        "documents": 12,
    }.items() <= attributes_of(answer.attributes).items()
    (event,) = answer.events
    assert (event.name, attributes_of(event.attributes)) == ("retrieved", {"source": "index"})
    assert answer.start_time_unix_nano <= event.time_unix_nano <= answer.end_time_unix_nano
    assert {"prompt.version": "7", "hits": 3}.items() <= attributes_of(retrieve.attributes).items()
    assert [event.name for event in retrieve.events] == ["exception"]
    assert retrieve.status.message == "no index"
    points = [
        attributes_of(point.attributes)
        for metric in receiver.all_metrics
        for point in metric.exponential_histogram.data_points
    ]
    assert points
    assert {(point["prompt.version"], point["latspan.tenant"]) for point in points} == {
        ("7", "acme")
    }
    assert latspan.snapshot().count(**{"prompt.version": "7"}) == 1
