"""An OTLP receiver gets one complete trace per request, with any tracer provider."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Metric,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from latspan import __version__
from latspan.testing import ScriptedServer, ServedRequest
from support.otlp import attributes_of, percentile_of, rotel_before, tapping
from support.programs import run_program, traffic_plan
from support.receivers import receiving

pytest.importorskip("openai", reason="the openai client is not installed")

CALLS = 24
SERVED = 25
RETRIED = 19
"""Index of the call that is retried, counted from 0."""

SEGMENTS = {"send", "queue", "prefill", "decode", "stream_close", "prepare"}
"""Segments that must have spans, so that the comparison cannot pass without any."""

INTERLEAVED = {"consumer", "retry"}
CONVENTIONS = {
    "gen_ai.client.operation.duration",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.client.operation.time_per_output_chunk",
    "gen_ai.client.token.usage",
}
EXPORTED = {
    "segment": "latspan.segment.duration",
    "time_to_first_token": "latspan.time_to_first_token",
    "time_to_first_visible_token": "latspan.time_to_first_visible_token",
    "time_per_output_token": "latspan.time_per_output_token",
    "chunk_gap": "latspan.chunk_gap",
    "stall_duration": "latspan.stall.duration",
    "stall_ratio": "latspan.stall.ratio",
    "fluidity": "latspan.fluidity",
    "buffer_needed": "latspan.buffer_needed",
    "segment.at_least": "latspan.segment.duration.at_least",
    "time_to_first_token.at_least": "latspan.time_to_first_token.at_least",
    "time_to_first_visible_token.at_least": "latspan.time_to_first_visible_token.at_least",
    "time_per_output_token.at_least": "latspan.time_per_output_token.at_least",
    "chunk_gap.at_least": "latspan.chunk_gap.at_least",
    "stall_duration.at_least": "latspan.stall.duration.at_least",
    **{name: name for name in CONVENTIONS},
}
UNITS = {
    "gen_ai.client.token.usage": "{token}",
    "latspan.stall.ratio": "1",
    "latspan.fluidity": "1",
}
Document = dict[str, Any]


@pytest.fixture
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer(traffic_plan()) as server:
        yield server


def check_traces(document: Document, spans: list[Span], served: list[ServedRequest]) -> None:
    """Compare spans with the program's own records and with the model server's requests."""
    records = document["records"]
    by_id = {span.span_id.hex(): span for span in spans}
    assert len(by_id) == len(spans), "a span came twice"
    assert len({span.trace_id for span in spans}) == roots_of(spans)

    calls = [record for record in records if record["kind"] == "call"]
    assert len(calls) == CALLS
    assert Counter(record["kind"] for record in records) == {
        "call": CALLS,
        "request": 2,
        "stage": 2,
    }
    assert Counter(call["outcome"] for call in calls) == {
        "completed": CALLS - 2,
        "closed_early": 1,
        "error": 1,
    }
    children: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        children[span.parent_span_id.hex()].append(span)
    accounted = 0
    for record in records:
        span = by_id[record["span_id"]]
        below = children[record["span_id"]]
        accounted += 1 + check_record(record, span, below)
        check_inside(span, below)
    check_requests(records, by_id, children)
    assert {span.name for span in spans if is_segment(span)} >= SEGMENTS
    assert [span.parent_span_id.hex() for span in spans if span.name == "POST"] == [
        calls[RETRIED]["span_id"]
    ] * 2
    applications_own = [span for span in spans if span.name == "handle"]
    assert accounted + len(applications_own) == len(spans)
    assert sent_contexts(served) == expected_contexts(calls)


def roots_of(spans: list[Span]) -> int:
    return sum(not span.parent_span_id for span in spans)


def check_record(record: dict[str, Any], span: Span, below: list[Span]) -> int:
    """Check the span of a record with its segments and attempts, and return the number of these."""
    client = record["kind"] == "call"
    assert span.trace_id.hex() == record["trace_id"]
    assert span.name == record["name"]
    assert not client or span.name == "chat small"
    assert span.kind == (Span.SPAN_KIND_CLIENT if client else Span.SPAN_KIND_INTERNAL)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        record["start_epoch_ns"],
        record["start_epoch_ns"] + record["duration_ns"],
    )
    assert attributes_of(span.attributes)["latspan.outcome"] == record["outcome"]
    assert is_error(span) is record["failed"]
    segments = [child for child in below if is_segment(child)]
    assert {intervals_of(child) for child in segments} == expected_segments(record)
    assert len(segments) == len(expected_segments(record))
    attempts = [child for child in below if child.name == "POST"]
    if attempts:
        check_attempts(attempts)
    if client:
        assert len(segments) + len(attempts) == len(below)
    return len(segments) + len(attempts)


def is_error(span: Span) -> bool:
    return span.status.code == Status.STATUS_CODE_ERROR


def is_segment(span: Span) -> bool:
    """Return whether a span is a segment; stages have a segment name too, but also a kind."""
    said = attributes_of(span.attributes)
    return "latspan.segment" in said and "latspan.kind" not in said


def intervals_of(segment: Span) -> tuple[Any, ...]:
    said = attributes_of(segment.attributes)
    assert said["latspan.segment"] == segment.name
    assert segment.kind == Span.SPAN_KIND_INTERNAL
    return (
        segment.name,
        segment.start_time_unix_nano,
        segment.end_time_unix_nano,
        said["latspan.source"],
    )


def expected_segments(record: dict[str, Any]) -> set[tuple[Any, ...]]:
    """Return a record's segments that are single intervals, not empty, and with a known source."""
    segments = record["segments"]
    edges = [segment[1] for segment in segments] + [record["duration_ns"]]
    assert edges == [0, *(segment[2] for segment in segments)], "segments do not tile"
    how_often = Counter(segment[0] for segment in segments)
    # The steps of a request have spans of their own.
    own = {"event_loop"} if record["kind"] == "request" else set(how_often)
    start = record["start_epoch_ns"]
    return {
        (name, start + begin, start + end, source)
        for name, begin, end, source in segments
        if how_often[name] == 1
        and name not in INTERLEAVED
        and name in own
        and source != "unknown"
        and begin < end
        and record["kind"] != "stage"
    }


def check_attempts(attempts: list[Span]) -> None:
    """Check the two attempts of the retried call: a refusal, then a response."""
    said = [attributes_of(attempt.attributes) for attempt in attempts]
    assert [attempt.kind for attempt in attempts] == [Span.SPAN_KIND_CLIENT] * 2
    order = sorted(range(2), key=lambda at: attempts[at].start_time_unix_nano)
    assert [said[at].get("http.request.resend_count") for at in order] == [None, 1]
    assert [said[at]["http.response.status_code"] for at in order] == [429, 200]
    assert [is_error(attempts[at]) for at in order] == [True, False]


def check_inside(span: Span, below: list[Span]) -> None:
    for child in below:
        assert child.trace_id == span.trace_id
        assert span.start_time_unix_nano <= child.start_time_unix_nano
        assert child.start_time_unix_nano <= child.end_time_unix_nano
        assert child.end_time_unix_nano <= span.end_time_unix_nano


def check_requests(
    records: list[dict[str, Any]], by_id: dict[str, Span], children: dict[str, list[Span]]
) -> None:
    """Check that requests contain their stage and their two calls, and other calls are separate."""
    inside: set[str] = set()
    for record in records:
        if record["kind"] == "request":
            assert record["name"] == "checkout"
            held = [child for child in children[record["span_id"]] if not is_segment(child)]
            held.sort(key=lambda child: child.start_time_unix_nano)
            assert [child.name for child in held] == ["retrieve", "chat small", "chat small"]
            inside |= {child.span_id.hex() for child in held}
    for record in records:
        if record["span_id"] not in inside:
            parent = by_id[record["span_id"]].parent_span_id.hex()
            assert parent == "" or by_id[parent].name == "handle"


def sent_contexts(served: list[ServedRequest]) -> list[tuple[str, str, bool]]:
    """Return trace ID, span ID and sampled flag of each request that the server received."""
    contexts: list[tuple[str, str, bool]] = []
    for request in served:
        version, trace_id, span_id, flags = request.request_headers["traceparent"].split("-")
        assert version == "00"
        contexts.append((trace_id, span_id, bool(int(flags, 16) & 1)))
    return contexts


def expected_contexts(calls: list[dict[str, Any]]) -> list[tuple[str, str, bool]]:
    """Return the contexts of the calls in order; the retried call occurs twice."""
    contexts = [(call["trace_id"], call["span_id"], True) for call in calls]
    return [*contexts[: RETRIED + 1], *contexts[RETRIED:]]


def check_metrics(document: Document, metrics: list[Metric]) -> None:
    """Compare histograms with the snapshot of the program that exported them."""
    by_name = {metric.name: metric for metric in metrics}
    assert len(by_name) == len(metrics)
    # A gauge of latspan itself, with the current size of a queue.
    by_name.pop("latspan.queue.size")
    expected: Counter[str] = Counter()
    compared: set[str] = set()
    for distribution in document["distributions"]:
        name = EXPORTED.get(distribution["metric"])
        if name is None:
            continue
        found = [point for point in points_of(by_name[name]) if belongs(point, distribution)]
        count = sum(point.count for point in found)
        assert count == distribution["count"]
        expected[name] += count
        p95 = distribution["p95"]
        if p95 is not None and name.startswith("latspan."):
            assert percentile_of(found, 95) == pytest.approx(p95, rel=0.003)
            compared.add(distribution["segment"] or distribution["metric"])
    received = {name: sum(p.count for p in points_of(by_name[name])) for name in by_name}
    assert received == expected
    assert compared >= {"queue", "prefill", "decode", "send", "time_to_first_token", "chunk_gap"}
    assert compared >= {"stall_ratio", "fluidity", "buffer_needed"}
    assert expected.keys() >= {*CONVENTIONS, *EXPORTED.values()} - {"latspan.chunk_gap.at_least"}
    check_exemplars(document, by_name)


def points_of(metric: Metric) -> list[Any]:
    """Return a metric's data points; its name determines their type and unit."""
    data = metric.histogram if metric.name in CONVENTIONS else metric.exponential_histogram
    assert metric.unit == UNITS.get(metric.name, "s")
    assert data.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    return list(data.data_points)


def check_exemplars(document: Document, metrics: dict[str, Metric]) -> None:
    """Check that each exemplar refers to a record and that the slowest value is among them."""
    records = {(each["trace_id"], each["span_id"]): each for each in document["records"]}
    for metric in metrics.values():
        for point in points_of(metric):
            said = attributes_of(point.attributes)
            for exemplar in point.exemplars:
                record = records[exemplar.trace_id.hex(), exemplar.span_id.hex()]
                assert record["kind"] == said.get("latspan.kind", "call")
            values = [exemplar.as_double or exemplar.as_int for exemplar in point.exemplars]
            # A maximum beyond its bucket by a rounding is exported as the bucket's end.
            assert not values or max(values) == pytest.approx(point.max, rel=1e-3)


def belongs(point: Any, distribution: dict[str, Any]) -> bool:
    said = attributes_of(point.attributes)
    # The conventions' metrics cover calls only and have none of latspan's attributes.
    return (said.get("latspan.kind", "call"), said.get("latspan.segment")) == (
        distribution["kind"],
        distribution["segment"],
    )


@pytest.mark.parametrize("ending", ["flush", "exit"])
async def test_an_application_without_a_provider(model: ScriptedServer, ending: str) -> None:
    """``latspan.force_flush`` exports everything, and so does a normal exit."""
    async with tapping() as tap:
        printed = await asyncio.to_thread(
            run_program, "has_no_provider", model.base_url, ending, LATSPAN_ENDPOINT=tap.url
        )
        await tap.everything()

    document = json.loads(printed)
    check_traces(document, tap.spans, model.served_requests(requests=SERVED))
    check_metrics(document, tap.metrics)


@pytest.mark.parametrize("when", ["first", "later", "handed_over"])
async def test_an_application_with_its_own_provider(model: ScriptedServer, when: str) -> None:
    """Its provider's ``force_flush`` exports every span of the ended requests."""
    async with tapping() as tap:
        printed = await asyncio.to_thread(
            run_program, "has_a_provider", model.base_url, tap.url, when
        )
        await tap.everything()

    document = json.loads(printed)
    check_traces(document, tap.spans, model.served_requests(requests=SERVED))
    check_metrics(document, tap.metrics)


async def test_an_application_with_latspans_provider_as_the_global_one(
    model: ScriptedServer,
) -> None:
    """Its own spans are exported too, and are the roots."""
    async with tapping() as tap:
        printed = await asyncio.to_thread(
            run_program, "lets_latspan_be_global", model.base_url, LATSPAN_ENDPOINT=tap.url
        )
        await tap.everything()

    document = json.loads(printed)
    check_traces(document, tap.spans, model.served_requests(requests=SERVED))
    check_metrics(document, tap.metrics)
    assert {span.name for span in tap.spans if not span.parent_span_id} == {"handle"}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_a_collector_in_between(model: ScriptedServer, protocol: str, tmp_path: Path) -> None:
    """A hop over gRPC or HTTP changes nothing; oteltap cannot decode this collector's output."""
    with (
        receiving() as receiver,
        rotel_before(receiver.url, tmp_path / "rotel.log") as (grpc, http, process),
    ):
        printed = run_program(
            "has_no_provider",
            model.base_url,
            "flush",
            LATSPAN_ENDPOINT=grpc if protocol == "grpc" else http,
            LATSPAN_PROTOCOL=protocol,
        )
        process.terminate()
        process.wait(30)

    document = json.loads(printed)
    check_traces(document, receiver.all_spans, model.served_requests(requests=SERVED))
    check_metrics(document, receiver.all_metrics)


def test_exports_have_the_resource_and_scope_of_the_service(model: ScriptedServer) -> None:
    """Spans and metrics alike."""
    with receiving() as receiver:
        run_program(
            "has_no_provider",
            model.base_url,
            "flush",
            LATSPAN_ENDPOINT=receiver.url,
            LATSPAN_SERVICE_NAME="shop",
        )

    resources = [
        *((held.resource, held.scope_spans) for held in receiver.resource_spans),
        *((held.resource, held.scope_metrics) for held in receiver.resource_metrics),
    ]
    assert len(resources) == 2
    for resource, scopes in resources:
        assert attributes_of(resource.attributes)["service.name"] == "shop"
        assert [(scope.scope.name, scope.scope.version) for scope in scopes] == [
            ("latspan", __version__)
        ]
        assert scopes[0].schema_url == "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
