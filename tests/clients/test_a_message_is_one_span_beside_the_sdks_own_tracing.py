"""Anthropic's SDK traces itself: where somebody records that, its span is the call's one span."""

from __future__ import annotations

import time
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan.segments import Kind, Outcome
from latspan.testing import Script
from latspan.testing._capture import Captured
from tests.clients.conftest import Driver, Leave, with_anthropic

MS = 1_000_000
SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, dialect="plain")


def _traced(driver: Driver, script: Script, ask: Any) -> tuple[ReadableSpan, bytes]:
    """Ask with a client whose own spans are recorded; return its span and what it sent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    transport = driver.transport(script)

    async def program(client: Any) -> None:
        if not hasattr(client, "_tracer"):
            pytest.skip("this version of the SDK traces nothing of itself")
        await ask(client.with_options(open_telemetry={"tracer_provider": provider}))

    driver.run(transport, program)
    (span,) = exporter.get_finished_spans()
    return span, transport.truth()[0].raw


@with_anthropic
@pytest.mark.parametrize("streamed", [True, False])
def test_what_latspan_knows_is_on_its_span(
    driver: Driver, seen: Captured, *, streamed: bool
) -> None:
    """The SDK ends it before its caller has the answer, and that is when it ended."""
    returned: list[int] = []

    async def ask(client: Any) -> None:
        answer = await driver.create(client, stream=streamed)
        if streamed:
            await driver.read(answer)
        returned.append(time.time_ns())

    span, _ = _traced(driver, SCRIPT, ask)

    attributes = span.attributes or {}
    assert attributes["latspan.outcome"] == "completed"
    assert ("latspan.time_to_first_token" in attributes) is streamed
    assert attributes["gen_ai.usage.output_tokens"] == 5
    assert span.end_time is not None
    assert span.end_time < returned[0]


@with_anthropic
def test_a_stream_that_is_left_is_on_its_span(driver: Driver, seen: Captured) -> None:
    """Whichever of the two hears of it first."""

    async def ask(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        async with driver.entered(stream) as inside:
            await driver.read(inside, _leave)

    span, _ = _traced(driver, SCRIPT, ask)
    assert (span.attributes or {})["latspan.outcome"] == "closed_early"
    assert "end" not in vars(span)


def _leave(chunk: Any) -> None:
    raise Leave


@with_anthropic
def test_the_segments_are_beneath_its_span(driver: Driver, seen: Captured) -> None:
    """And there is no second span that says the same of the same call."""

    async def ask(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    span, raw = _traced(driver, SCRIPT, ask)

    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert record.metrics["time_to_first_token"].value == 60 * MS
    assert span.context is not None
    assert {child.name for child in seen.spans} == {"server_wait", "decode"}
    assert {child.parent.span_id for child in seen.spans if child.parent} == {span.context.span_id}
    assert f"{span.context.span_id:016x}".encode() in raw


@with_anthropic
def test_where_nobody_records_it_nothing_of_ours_is_sent_past_us(
    driver: Driver, seen: Captured
) -> None:
    """The SDK would send the context of whatever span is current; ours is not, for it."""
    own = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    transport = driver.transport(SCRIPT)

    async def program(client: Any) -> None:
        await driver.create(client, extra_headers={"traceparent": own})
        await driver.create(client)

    driver.run(transport, program)
    first, second = transport.truth()
    assert first.request_headers["traceparent"] == own
    _, record = seen.records
    assert f"{record.span_id:016x}" in second.request_headers["traceparent"]
