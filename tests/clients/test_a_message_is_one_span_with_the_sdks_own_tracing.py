"""Anthropic's SDK traces itself: where somebody records that, its span is the call's one span."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script
from tests.clients.conftest import Driver, Leave, with_anthropic

MS = 1_000_000
SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


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
    return span, transport.served_requests()[0].raw


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
@pytest.mark.parametrize("streamed", [True, False])
def test_what_the_sdk_omits_on_purpose_is_not_added(
    driver: Driver, seen: Captured, *, streamed: bool
) -> None:
    """Stop sequences are content for it, and its first chunk is the first delta."""
    body = {"temperature": 0.5, "top_p": 0.9, "top_k": 3}

    async def ask(client: Any) -> None:
        answer = await driver.create(
            client, stream=streamed, stop_sequences=["END"], extra_body=body
        )
        if streamed:
            async with driver.entered(answer) as inside:
                await driver.read(inside, _leave)

    span, _ = _traced(driver, SCRIPT, ask)

    attributes = span.attributes or {}
    assert attributes["latspan.outcome"] == ("closed_early" if streamed else "completed")
    assert attributes["gen_ai.response.id"]
    omitted = (
        "gen_ai.request.stop_sequences",
        "gen_ai.request.temperature",
        "gen_ai.request.top_k",
        "gen_ai.request.top_p",
        "gen_ai.response.finish_reasons",
        "gen_ai.response.time_to_first_chunk",
    )
    assert [name for name in omitted if name in attributes] == []


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


async def _reads_the_bytes(driver: Driver, stream: Any) -> None:
    if driver.asynchronous:
        async for _ in stream.response.aiter_bytes():
            pass
    else:
        for _ in stream.response.iter_bytes():
            pass


async def _closes_the_response(driver: Driver, stream: Any) -> None:
    if driver.asynchronous:
        await stream.response.aclose()
    else:
        stream.response.close()


async def _breaks_and_closes(driver: Driver, stream: Any) -> None:
    await driver.read(stream, _leave)
    await driver.close(stream)


async def _reads_one_and_drops(driver: Driver, stream: Any) -> None:
    if driver.asynchronous:
        await anext(stream)
    else:
        next(stream)


@with_anthropic
@pytest.mark.parametrize(
    ("way", "outcome"),
    [
        (_reads_the_bytes, "completed"),
        (_closes_the_response, "closed_early"),
        (_breaks_and_closes, "closed_early"),
        (_reads_one_and_drops, "closed_early"),
    ],
)
def test_its_span_ends_when_it_would_without_latspan(
    driver: Driver, seen: Captured, way: Any, outcome: str
) -> None:
    """However the caller is done with the stream, and not when latspan has heard of it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def program(client: Any) -> None:
        if not hasattr(client, "_tracer"):
            pytest.skip("this version of the SDK traces nothing of itself")
        asking = client.with_options(open_telemetry={"tracer_provider": provider})
        stream = await driver.create(asking, stream=True)
        assert exporter.get_finished_spans() == ()
        await way(driver, stream)
        del stream
        gc.collect()
        # The event loop closes the generators of a dropped stream in tasks of its own.
        for _ in range(10):
            await asyncio.sleep(0) if driver.asynchronous else None
        (span,) = exporter.get_finished_spans()
        assert (span.attributes or {})["latspan.outcome"] == outcome

    driver.run(driver.transport(SCRIPT), program)
    (record,) = seen.records
    assert record.outcome == outcome


@with_anthropic
@pytest.mark.parametrize("said", ["option", "variable"])
def test_a_client_that_propagates_nothing_sends_no_trace_context(
    driver: Driver, seen: Captured, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With none of its requests; latspan records them all the same."""
    if said == "variable":
        monkeypatch.setenv("ANTHROPIC_OPEN_TELEMETRY_PROPAGATION", "false")
    transport = driver.transport([SCRIPT, SCRIPT])

    async def program(client: Any) -> None:
        if not hasattr(client, "open_telemetry"):
            pytest.skip("this version of the SDK propagates nothing itself")
        if said == "option":
            client = client.with_options(open_telemetry={"propagation": False})
        await driver.create(client)
        with suppress(driver.errors.NotFoundError):
            answer = client.post("/v1/other", body={}, cast_to=object)
            if driver.asynchronous:
                await answer

    driver.run(transport, program)
    assert len(seen.records) == 2
    assert ["traceparent" in served.request_headers for served in transport.served_requests()] == [
        False
    ] * 2


async def test_a_call_that_is_cancelled_before_it_starts_warns_of_nothing(
    seen: Captured,
) -> None:
    """The SDK's coroutine inside both of ours is closed with them."""
    anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed")
    async with anthropic.AsyncAnthropic(api_key="none", base_url="https://model.test") as client:
        task = asyncio.ensure_future(client.messages.create(model="m", messages=[], max_tokens=9))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        gc.collect()
    assert seen.records == ()


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
def test_an_unrecorded_span_of_the_sdk_sends_no_context_of_latspan(
    driver: Driver, seen: Captured
) -> None:
    """The SDK would send the context of whatever span is current; ours is not, for it."""
    own = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    transport = driver.transport(SCRIPT)

    async def program(client: Any) -> None:
        await driver.create(client, extra_headers={"traceparent": own})
        await driver.create(client)

    driver.run(transport, program)
    first, second = transport.served_requests()
    assert first.request_headers["traceparent"] == own
    _, record = seen.records
    assert f"{record.span_id:016x}" in second.request_headers["traceparent"]
