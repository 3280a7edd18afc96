"""OpenTelemetry's HTTP instrumentation with latspan: it creates the only span of each exchange."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script, spans_as_dict
from tests.clients.conftest import LIBRARY, MESSAGES, Driver, http
from tests.support.traces import OUTCOME

official: Any = pytest.importorskip(
    "opentelemetry.instrumentation.httpx",
    reason="the official instrumentation of httpx is not installed",
)

URL = "https://model.test/v1/chat/completions"
BODY = {"model": "m", "stream": True, "messages": MESSAGES}
SCRIPT = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)


@pytest.fixture
def theirs() -> Iterator[InMemorySpanExporter]:
    """What spans the official instrumentation makes."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    name = "HTTPXClientInstrumentor" if LIBRARY == "httpx" else "HTTPX2ClientInstrumentor"
    instrumentor = getattr(official, name)()
    instrumentor.instrument(tracer_provider=provider)
    yield exporter
    instrumentor.uninstrument()


def test_a_call_has_their_http_span_beneath_ours(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """And the server is told of theirs, once."""
    transport = driver.transport(SCRIPT)

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(transport, program)

    (ours,) = [span for span in seen.spans if span.name == "chat m"]
    (span,) = theirs.get_finished_spans()
    assert span.parent is not None
    assert ours.context is not None
    assert span.context is not None
    assert span.parent.span_id == ours.context.span_id
    (served,) = transport.served_requests()
    assert served.request_headers["traceparent"].split("-")[2] == f"{span.context.span_id:016x}"


def test_an_exchange_of_its_own_has_theirs_alone(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """What latspan measured of it is recorded all the same."""

    async def program(client: Any) -> None:
        sent = client._client.get("https://tool.test/search")
        if driver.asynchronous:
            await sent

    driver.run(driver.transport(Script.refused(404, after_ms=20)), program)

    assert [span.name for span in theirs.get_finished_spans()] == ["GET"]
    assert seen.spans == ()
    (record,) = seen.records
    assert (record.kind, record.outcome) == (Kind.HTTP, Outcome.ERROR)


def test_an_exchange_that_turns_out_to_be_a_call_has_a_span_of_ours(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """One LLM span of the whole call, in addition to their HTTP span."""

    async def program(client: Any) -> None:
        sent = client._client.post(URL, json=BODY)
        if driver.asynchronous:
            await sent

    driver.run(driver.transport(SCRIPT), program)

    assert [span.name for span in theirs.get_finished_spans()] == ["POST"]
    (ours,) = [span for span in seen.spans if span.parent is None]
    (record,) = seen.records
    assert ours.name == "chat m"
    assert ours.start_time is not None
    assert ours.end_time is not None
    assert ours.end_time - ours.start_time == record.duration_ns
    assert (ours.attributes or {})["latspan.outcome"] == "completed"


def test_the_http_library_is_the_one_that_the_sdk_sits_on() -> None:
    """Otherwise the tests above would prove nothing."""
    assert http.__name__ == LIBRARY


def test_a_call_with_their_instrumentation_as_a_whole_trace(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """Their HTTP span lies inside the call's, next to the segments."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(SCRIPT, connect_ns=5_000_000), program)

    spans = [*seen.spans, *theirs.get_finished_spans()]
    assert spans_as_dict(spans, times=False, attributes=OUTCOME) == [
        {
            "name": "chat m",
            "kind": "CLIENT",
            "attributes": {"latspan.outcome": "completed"},
            "children": [
                {"name": "connect", "kind": "INTERNAL", "attributes": {}},
                {"name": "prefill", "kind": "INTERNAL", "attributes": {}},
                {"name": "decode", "kind": "INTERNAL", "attributes": {}},
                {"name": "POST", "kind": "CLIENT", "attributes": {}},
            ],
        }
    ]
