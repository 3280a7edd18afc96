"""Another LLM instrumentation with latspan: one span per call, and latspan adds to it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import openai
import pytest
from openai.resources.chat.completions import AsyncCompletions, Completions
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import Captured, Script, spans_as_dict
from tests.clients.conftest import Driver, Leave
from tests.support.traces import OUTCOME

SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")

PATCHED = [
    *[(cls, "create") for cls in (Completions, AsyncCompletions)],
    *[(cls, "request") for cls in (openai.OpenAI, openai.AsyncOpenAI)],
]

OTHERS = {
    "official": "opentelemetry.instrumentation.genai.openai",
    "OpenLLMetry": "opentelemetry.instrumentation.openai",
    "OpenInference": "openinference.instrumentation.openai",
}


@pytest.fixture(params=[(name, order) for name in OTHERS for order in ("after", "before")], ids=str)
def theirs(request: pytest.FixtureRequest) -> Iterator[InMemorySpanExporter]:
    """What spans the other one makes, patched in after latspan's or before it."""
    name, order = request.param
    module: Any = pytest.importorskip(OTHERS[name], reason=f"{name} is not installed")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = module.OpenAIInstrumentor()
    latspan.uninstrument()
    untouched = {(cls, name): vars(cls).get(name) for cls, name in PATCHED}
    if order == "after":
        latspan.auto_instrument()
    with warnings.catch_warnings():
        # What OpenLLMetry's own models warn of when they are first imported.
        warnings.simplefilter("ignore", DeprecationWarning)
        instrumentor.instrument(
            tracer_provider=provider, meter_provider=MeterProvider(shutdown_on_exit=False)
        )
    latspan.auto_instrument()
    yield exporter
    instrumentor.uninstrument()
    latspan.uninstrument()
    # OpenLLMetry leaves its wrappers behind.
    for (cls, name), original in untouched.items():
        if original is not None:
            setattr(cls, name, original)
        elif name in vars(cls):
            delattr(cls, name)
    latspan.auto_instrument()


def _calls(seen: Captured) -> list[Any]:
    return [record for record in seen.records if record.kind is Kind.CALL]


def _their_llm_span(theirs: InMemorySpanExporter) -> Any:
    (span,) = theirs.get_finished_spans()
    return span


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_there_is_one_llm_span(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter, streamed: bool
) -> None:
    """Theirs, with latspan's outcome and segments on it."""

    async def program(client: Any) -> None:
        answer = await driver.create(client, stream=streamed)
        if streamed:
            await driver.read(answer)

    driver.run(driver.transport(SCRIPT), program)

    (record,) = _calls(seen)
    assert record.outcome is Outcome.COMPLETED
    span = _their_llm_span(theirs)
    # OpenInference ends its span before the SDK hands over an answer in one piece.
    assert span.attributes["latspan.outcome"] == "completed"
    assert [each.name for each in seen.spans if each.name.startswith("chat")] == []
    assert {each.parent.span_id for each in seen.spans if each.parent} == {span.context.span_id}
    if streamed:
        assert record.metrics["time_to_first_token"].value == 60_000_000


def test_a_break_is_closed_early_with_them_too(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """Whatever the other one calls it."""

    def leave(chunk: Any) -> None:
        raise Leave

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, leave)
        await driver.close(stream)

    driver.run(driver.transport(SCRIPT), program)

    (record,) = _calls(seen)
    assert record.outcome is Outcome.CLOSED_EARLY


def test_the_others_are_of_the_versions_that_were_meant() -> None:
    """One name, three packages: each is its own module."""
    found = [name for name, module in OTHERS.items() if find_spec(module)]
    assert found == list(OTHERS)


def test_a_call_with_their_instrumentation_as_a_whole_trace(
    driver: Driver, seen: Captured, theirs: InMemorySpanExporter
) -> None:
    """Their LLM span is the only one; latspan's segments lie inside it."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(SCRIPT), program)

    spans = [*seen.spans, *theirs.get_finished_spans()]
    (trace,) = spans_as_dict(spans, times=False, attributes=OUTCOME)
    assert trace["attributes"] == {"latspan.outcome": "completed"}
    assert [trace] == [
        {
            **trace,
            "children": [
                {"name": "server_wait", "kind": "INTERNAL", "attributes": {}},
                {"name": "decode", "kind": "INTERNAL", "attributes": {}},
            ],
        }
    ]
