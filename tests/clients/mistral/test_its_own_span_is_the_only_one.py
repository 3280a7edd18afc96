"""The Mistral SDK can trace itself: if the application records that, its span is the only one."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan.testing import Captured
from tests.clients.mistral.conftest import MistralDriver, llm_spans
from tests.clients.mistral.replies import DONE, MESSAGES, USAGE, chunk, completion

telemetry: Any = pytest.importorskip(
    "mistralai.extra.observability.telemetry",
    reason="this version of the SDK opens a span that is not current in its request",
)

CHAT = {"model": "m", "messages": MESSAGES}
STREAMED = [chunk("Here"), chunk(".", reason="stop", usage=USAGE), DONE]


@pytest.fixture
def exported() -> InMemorySpanExporter:
    """What the SDK's spans are exported to."""
    return InMemorySpanExporter()


@pytest.fixture
def provider(exported: InMemorySpanExporter) -> TracerProvider:
    """A tracer provider of the application."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return provider


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("method", ["complete", "stream"])
def test_what_latspan_knows_is_on_its_span(
    mistral: MistralDriver,
    seen: Captured,
    exported: InMemorySpanExporter,
    provider: TracerProvider,
    method: str,
) -> None:
    sent: list[Any] = []

    async def program(client: Any) -> None:
        telemetry.configure_telemetry(client, provider=provider)
        result = await mistral.call(client.chat, method, **CHAT)
        if method == "stream":
            await mistral.read(result)

    reply: Any = STREAMED if method == "stream" else completion()
    transport = mistral.answering(reply)
    handler: Any = transport.handler

    def handle(request: Any) -> Any:
        sent.append(request)
        return handler(request)

    transport.handler = handle
    mistral.run(transport, program)

    (span,) = exported.get_finished_spans()
    attributes = _attributes(span)
    assert attributes["latspan.outcome"] == "completed"
    assert attributes["gen_ai.usage.output_tokens"] == 3
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert ("latspan.time_to_first_token" in attributes) is (method == "stream")
    assert llm_spans(seen) == []
    assert len(seen.records) == 1
    # The SDK sends the context of its own span.
    (context,) = [value for name, value in sent[0].headers.multi_items() if name == "traceparent"]
    own = span.get_span_context()
    assert own is not None
    identity = f"00-{own.trace_id:032x}-{own.span_id:016x}-"
    assert context.startswith(identity)


def test_a_stream_that_is_left_is_on_its_span(
    mistral: MistralDriver,
    seen: Captured,
    exported: InMemorySpanExporter,
    provider: TracerProvider,
) -> None:
    async def program(client: Any) -> None:
        telemetry.configure_telemetry(client, provider=provider)
        stream = await mistral.call(client.chat, "stream", **CHAT)
        if mistral.asynchronous:
            async with stream:
                await anext(stream)
        else:
            with stream:
                next(stream)

    mistral.run(mistral.answering(STREAMED), program)

    (span,) = exported.get_finished_spans()
    assert _attributes(span)["latspan.outcome"] == "closed_early"
    assert llm_spans(seen) == []


@pytest.mark.parametrize("through", ["variable", "setting"])
def test_the_global_provider_is_found_at_the_first_request(
    mistral: MistralDriver,
    seen: Captured,
    exported: InMemorySpanExporter,
    provider: TracerProvider,
    monkeypatch: pytest.MonkeyPatch,
    through: str,
) -> None:
    """The SDK reads the variable or the setting inside the first request."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    if through == "variable":
        monkeypatch.setenv("MISTRAL_SDK_TELEMETRY", "global")

    async def program(client: Any) -> None:
        if through == "setting":
            vars(client.sdk_configuration)["telemetry"] = "global"
        for _ in range(2):
            await mistral.call(client.chat, "complete", **CHAT)

    mistral.run(mistral.answering(completion(), completion()), program)

    spans = exported.get_finished_spans()
    assert [_attributes(span)["latspan.outcome"] for span in spans] == ["completed"] * 2
    assert llm_spans(seen) == []


def test_a_span_that_goes_to_mistral_only_does_not_count(
    mistral: MistralDriver, seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK's own provider exports to Mistral, so the application would see no span."""
    exported = InMemorySpanExporter()
    own = TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(SimpleSpanProcessor(exported))

    def make_provider(**options: Any) -> TracerProvider:
        del options
        return own

    monkeypatch.setattr(telemetry, "_create_telemetry_tracer_provider", make_provider)

    outer = own.get_tracer("application").start_span("outer")

    async def program(client: Any) -> None:
        telemetry.configure_telemetry(client)
        with trace.use_span(outer):
            await mistral.call(client.chat, "complete", **CHAT)

    mistral.run(mistral.answering(completion()), program)

    (span,) = exported.get_finished_spans()
    assert not any(name.startswith("latspan.") for name in _attributes(span))
    # As without latspan: latspan's span is not there, where this one is exported to.
    assert span.parent == outer.get_span_context()
    assert len(llm_spans(seen)) == 1
