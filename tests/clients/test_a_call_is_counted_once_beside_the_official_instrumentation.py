"""The conventions' metrics count a call once, whoever else instruments the SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import latspan
from latspan.segments import Kind
from latspan.testing import Script
from latspan.testing._capture import Captured
from tests.clients.conftest import Driver

official: Any = pytest.importorskip(
    "opentelemetry.instrumentation.genai.openai",
    reason="the official instrumentation of the openai client is not installed",
)

SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, dialect="plain")


@pytest.fixture(params=["outside", "inside"])
def reader(request: pytest.FixtureRequest) -> Iterator[InMemoryMetricReader]:
    """What the official instrumentation counts, patched over latspan's or under it."""
    counted = InMemoryMetricReader()
    provider = MeterProvider([counted], shutdown_on_exit=False)
    instrumentor = official.OpenAIInstrumentor()
    if request.param == "inside":
        latspan.uninstrument()
    instrumentor.instrument(meter_provider=provider)
    latspan.auto_instrument()
    yield counted
    # Last on, first off, so that each puts back what it found.
    if request.param == "inside":
        latspan.uninstrument()
    instrumentor.uninstrument()
    latspan.auto_instrument()
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


def test_latspan_counts_again_once_the_official_one_is_off(driver: Driver, seen: Captured) -> None:
    """Its package may stay imported."""

    async def program(client: Any) -> None:
        await driver.create(client)

    driver.run(driver.transport(SCRIPT), program)

    (record,) = [record for record in seen.records if record.kind is Kind.CALL]
    assert record.convention["operation"] == "chat"
