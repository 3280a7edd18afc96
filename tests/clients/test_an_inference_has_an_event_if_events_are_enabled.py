"""An inference has one event, as OpenTelemetry's variables ask for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from operator import itemgetter
from typing import Any, cast

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

import latspan
from latspan.testing import Captured, Script
from tests.clients.conftest import MESSAGES, Driver, asked_for

pytestmark = pytest.mark.any_client

SCRIPT = Script.chat(tokens=3, tool_call_tokens=1, prefill_ms=1, gap_ms=1, flavor="plain")
CONTENT = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.definitions")
TOOLS: Any = [{"type": "function", "function": {"name": "look_up", "parameters": {}}}]
DETAILS = "gen_ai.client.inference.operation.details"


class Emitted:
    """What was emitted: each event's name, attributes and trace."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any], int]] = []

    def __call__(
        self, name: str, epoch_ns: int, attributes: Mapping[str, Any], context: Context, /
    ) -> None:
        """Keep it."""
        assert epoch_ns > 0
        trace_id = trace.get_current_span(context).get_span_context().trace_id
        self.events.append((name, dict(attributes), trace_id))


def _with_events(emitted: Emitted, **settings: Any) -> AbstractContextManager[None]:
    return asked_for(emit=emitted, **settings)


def _ask(driver: Driver, *, stream: bool = False, script: Script = SCRIPT) -> None:
    async def program(client: Any) -> None:
        answer = await driver.create(client, stream=stream, tools=TOOLS)
        if stream:
            await driver.read(answer)

    driver.run(driver.transport(script), program)


def _known(value: Any) -> Any:
    """Return content without what is null."""
    return json.loads(
        json.dumps(value),
        object_hook=lambda pairs: {name: each for name, each in pairs.items() if each is not None},
    )


@pytest.mark.parametrize("stream", [False, True])
def test_it_has_the_attributes_of_the_span_and_the_content_as_data(
    driver: Driver, seen: Captured, *, stream: bool
) -> None:
    """In the span's trace; of latspan's own attributes it has none."""
    emitted = Emitted()
    with _with_events(emitted, captures_in_events=True):
        _ask(driver, stream=stream)

    ((name, attributes, trace_id),) = emitted.events
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    said = {
        key: value
        for key, value in (span.attributes or {}).items()
        if not key.startswith("latspan.")
    }
    assert name == DETAILS
    assert {key: value for key, value in attributes.items() if key not in CONTENT} == said
    assert span.context is not None
    assert trace_id == span.context.trace_id
    assert attributes["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    ]
    (answer,) = attributes["gen_ai.output.messages"]
    assert {part["type"] for part in answer["parts"]} == {"text", "tool_call"}
    assert [tool["name"] for tool in attributes["gen_ai.tool.definitions"]] == ["look_up"]


@pytest.mark.parametrize(
    ("settings", "on_span", "in_event"),
    [
        ({}, False, False),
        ({"captures_content": True}, True, False),
        ({"captures_in_events": True}, False, True),
        ({"captures_content": True, "captures_in_events": True}, True, True),
    ],
)
def test_content_is_where_it_was_asked_for(
    driver: Driver, seen: Captured, settings: Any, *, on_span: bool, in_event: bool
) -> None:
    """On spans, in events, in both or in neither."""
    emitted = Emitted()
    with _with_events(emitted, **settings):
        _ask(driver)

    ((_, attributes, _),) = emitted.events
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert [name in (span.attributes or {}) for name in CONTENT] == [on_span] * 3
    assert [name in attributes for name in CONTENT] == [in_event] * 3


def test_a_call_that_failed_has_one_with_its_error(driver: Driver, seen: Captured) -> None:
    """And what was asked."""
    emitted = Emitted()
    with (
        _with_events(emitted, captures_in_events=True),
        pytest.raises(Exception, match="too many requests"),
    ):
        _ask(driver, script=Script.refused(429))

    ((_, attributes, _),) = emitted.events
    assert attributes["error.type"] == "429"
    assert "gen_ai.input.messages" in attributes
    assert "gen_ai.output.messages" not in attributes


def test_embeddings_have_none(driver: Driver, seen: Captured) -> None:
    """They generate nothing."""
    emitted = Emitted()

    async def program(client: Any) -> None:
        answer = client.embeddings.create(model="m", input="hello")
        assert await answer if driver.asynchronous else answer

    with _with_events(emitted, captures_in_events=True):
        driver.run(driver.transport(SCRIPT), program)

    assert emitted.events == []


def test_content_that_cannot_be_encoded_is_mended(driver: Driver, seen: Captured) -> None:
    """One lone surrogate would cost every event of its message."""
    emitted = Emitted()
    tool = {"name": "look_up", "parameters": {"most": 2**70, "odd\ud800": [None, "\ud800"]}}
    tools: Any = [{"type": "function", "function": tool}]

    async def program(client: Any) -> None:
        # A client that cannot send it either has its event all the same.
        with suppress(UnicodeEncodeError):
            answer = client.chat.completions.create(model="m", messages=MESSAGES, tools=tools)
            assert await answer if driver.asynchronous else answer

    with _with_events(emitted, captures_in_events=True):
        driver.run(driver.transport(SCRIPT), program)

    ((_, attributes, _),) = emitted.events
    (definition,) = attributes["gen_ai.tool.definitions"]
    assert definition["parameters"] == {"most": str(2**70), "odd?": [None, "?"]}


def _of_the_official(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, *, beside: bool
) -> list[LogRecord]:
    official: Any = pytest.importorskip(
        "opentelemetry.instrumentation.genai.openai",
        reason="the official instrumentation of the openai client is not installed",
    )
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY")
    exporter = InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    metrics = MeterProvider(shutdown_on_exit=False)
    spans = TracerProvider(shutdown_on_exit=False)
    instrumentor = official.OpenAIInstrumentor()
    if not beside:
        latspan.uninstrument()
    try:
        instrumentor.instrument(tracer_provider=spans, meter_provider=metrics, logger_provider=logs)
        _ask(driver)
    finally:
        instrumentor.uninstrument()
        latspan.auto_instrument()
        metrics.shutdown()
    return [each.log_record for each in exporter.get_finished_logs()]


def test_it_has_what_the_official_instrumentation_puts_there(
    driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attribute by attribute, under the same event name."""
    emitted = Emitted()
    with _with_events(emitted, captures_in_events=True):
        _ask(driver)
    (theirs,) = _of_the_official(driver, monkeypatch, beside=False)

    ((name, ours, _),) = emitted.events
    assert name == theirs.event_name
    expected = {key: _known(_plain(value)) for key, value in (theirs.attributes or {}).items()}
    told = {key: _known(_plain(ours.get(key))) for key in expected}
    for messages in (expected, told):
        for message in messages["gen_ai.output.messages"]:
            message["parts"].sort(key=itemgetter("type"))
    assert told == expected


def _plain(value: Any) -> Any:
    """Return what an exporter has of a list or a mapping as a ``list`` or a ``dict``."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in cast("Sequence[Any]", value)]
    return value


def test_beside_the_official_instrumentation_there_is_one(
    driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is not latspan's."""
    emitted = Emitted()
    with _with_events(emitted, captures_in_events=True):
        theirs = _of_the_official(driver, monkeypatch, beside=True)

    assert len(theirs) == 1
    assert emitted.events == []
