"""What a span says of a conversation is what OpenTelemetry's own instrumentation says of it."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from operator import itemgetter
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan.testing import Captured, Script
from tests.clients.conftest import Driver, asked_for

pytestmark = pytest.mark.any_client

official: Any = pytest.importorskip(
    "opentelemetry.instrumentation.genai.openai",
    reason="the official instrumentation of the openai client is not installed",
)

SCRIPT = Script.chat(tokens=3, tool_call_tokens=1, prefill_ms=1, gap_ms=1, flavor="plain")
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")
CONVERSATION: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Where is it?"}], "name": "ada"},
    {
        "role": "assistant",
        "content": "I look it up.",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "look_up", "arguments": '{"q": ["it", 1]}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "here"},
]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks up",
            "parameters": {"type": "object", "properties": {"q": {"type": "array"}}},
        },
    }
]


@contextmanager
def _official(monkeypatch: pytest.MonkeyPatch) -> Generator[InMemorySpanExporter]:
    """Have the official instrumentation in latspan's place inside the block."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    exporter = InMemorySpanExporter()
    spans = TracerProvider(shutdown_on_exit=False)
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    metrics = MeterProvider(shutdown_on_exit=False)
    instrumentor = official.OpenAIInstrumentor()
    latspan.uninstrument()
    instrumentor.instrument(tracer_provider=spans, meter_provider=metrics)
    yield exporter
    instrumentor.uninstrument()
    latspan.auto_instrument()
    metrics.shutdown()


def _said(span: ReadableSpan) -> dict[str, Any]:
    """Return content without what is null; nobody defines the order of a message's parts."""
    attributes = span.attributes or {}
    said = {name: json.loads(str(attributes[name]), object_hook=_known) for name in CONTENT}
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        for message in said[name]:
            message["parts"].sort(key=itemgetter("type"))
    return said


def _known(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize("stream", [False, True])
def test_both_capture_the_same_content(
    driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    """Message by message, streamed or not."""

    async def program(client: Any) -> None:
        answer = client.chat.completions.create(
            model="m", messages=CONVERSATION, tools=TOOLS, stream=stream
        )
        answer = await answer if driver.asynchronous else answer
        if stream:
            await driver.read(answer)

    with asked_for(captures_content=True):
        driver.run(driver.transport(SCRIPT), program)
    with _official(monkeypatch) as exporter:
        driver.run(driver.transport(SCRIPT), program)

    (theirs,) = exporter.get_finished_spans()
    (ours,) = [span for span in seen.spans if span.name == "chat m"]
    assert _said(ours) == _said(theirs)
