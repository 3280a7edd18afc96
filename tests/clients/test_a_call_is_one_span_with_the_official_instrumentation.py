"""A call has one span and is counted once, whoever else instruments the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script
from tests.clients.conftest import Driver

official: Any = pytest.importorskip(
    "opentelemetry.instrumentation.genai.openai",
    reason="the official instrumentation of the openai client is not installed",
)

SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """What spans the official instrumentation makes."""
    return InMemorySpanExporter()


@pytest.fixture(params=["after", "before"])
def reader(
    request: pytest.FixtureRequest, exporter: InMemorySpanExporter
) -> Iterator[InMemoryMetricReader]:
    """What the official instrumentation counts, patched in after latspan's or before it."""
    counted = InMemoryMetricReader()
    provider = MeterProvider([counted], shutdown_on_exit=False)
    instrumentor = official.OpenAIInstrumentor()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    if request.param == "before":
        latspan.uninstrument()
    instrumentor.instrument(meter_provider=provider, tracer_provider=tracers)
    latspan.auto_instrument()
    yield counted
    instrumentor.uninstrument()
    provider.shutdown()


def _durations(reader: InMemoryMetricReader) -> int:
    data = reader.get_metrics_data()
    assert data is not None
    points: list[Any] = [
        point
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "gen_ai.client.operation.duration"
        for point in metric.data.data_points
    ]
    return sum(point.count for point in points)


def test_the_official_one_counts_and_latspan_does_not(
    driver: Driver, seen: Captured, reader: InMemoryMetricReader
) -> None:
    """Whichever of the two was there first; latspan's own record of the call stays."""

    async def program(client: Any) -> None:
        await driver.create(client)

    driver.run(driver.transport(SCRIPT), program)

    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    assert (_durations(reader), record.convention) == (1, {})


def test_there_is_one_span_and_latspan_adds_to_it(
    driver: Driver, seen: Captured, reader: InMemoryMetricReader, exporter: InMemorySpanExporter
) -> None:
    """Its maker's word stands where both have one; the segments are its children."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(SCRIPT), program)

    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 4
    (span,) = exporter.get_finished_spans()
    attributes = span.attributes or {}
    assert attributes["latspan.outcome"] == "completed"
    assert attributes["latspan.time_to_first_token"] == 0.06
    assert attributes["gen_ai.operation.name"] == "chat"
    assert span.context is not None
    assert {child.name for child in seen.spans} == {"server_wait", "decode"}
    assert {child.parent.span_id for child in seen.spans if child.parent} == {span.context.span_id}


def test_taking_one_off_leaves_the_other_on(driver: Driver, seen: Captured) -> None:
    """Whichever was there first, and whichever goes first."""
    instrumentor = official.OpenAIInstrumentor()
    latspan.uninstrument()
    originals = [vars(cls)["create"] for cls in _resources()]
    for first in (False, True):
        instrumentor.instrument()
        latspan.auto_instrument()
        if first:
            latspan.uninstrument()
            instrumentor.uninstrument()
        else:
            instrumentor.uninstrument()
            latspan.uninstrument()
        assert all(
            vars(cls)["create"] is was for cls, was in zip(_resources(), originals, strict=True)
        )
    latspan.auto_instrument()


def _resources() -> list[type]:
    completions = pytest.importorskip("openai.resources.chat.completions")
    return [completions.Completions, completions.AsyncCompletions]


def test_latspan_counts_again_once_the_official_one_is_off(driver: Driver, seen: Captured) -> None:
    """Its package may stay imported."""

    async def program(client: Any) -> None:
        await driver.create(client)

    driver.run(driver.transport(SCRIPT), program)

    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    assert record.convention["operation"] == "chat"
