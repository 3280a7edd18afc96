"""The spans of each request go to the provider that the application has at that time."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NoOpTracerProvider

from latspan._live.otel.spans import ApiSink, NoSink
from latspan._live.sdk._span_routing import SpanRouter


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a test set the global provider, which can otherwise be set only once."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())  # pyright: ignore[reportPrivateUsage]
    return trace


def provider() -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SpanProcessor())
    return made


def test_spans_use_latspans_sink_until_the_application_has_a_provider(process: Any) -> None:
    """From then on they use one sink for the application's provider."""
    private = NoSink()
    router = SpanRouter(lambda: private)

    assert router() is private
    process.set_tracer_provider(provider())
    api = router()
    assert isinstance(api, ApiSink)
    assert api.inline
    assert router() is api


def test_the_current_provider_can_be_read(process: Any) -> None:
    """For code that must use the same provider as the spans."""
    router = SpanRouter(NoSink)

    assert router.provider() is None
    process.set_tracer_provider(provider())
    assert router.provider() is process.get_tracer_provider()


def test_a_provider_set_earlier_is_used(process: Any) -> None:
    process.set_tracer_provider(provider())

    assert isinstance(SpanRouter(NoSink)(), ApiSink)


def test_a_no_op_provider_is_ignored(process: Any) -> None:
    """The API's default is not the application's provider."""
    process.set_tracer_provider(NoOpTracerProvider())
    private = NoSink()

    assert SpanRouter(lambda: private)() is private


def test_a_provider_without_processors_is_ignored_until_it_has_one(process: Any) -> None:
    """Until then it would drop the spans."""
    bare, private = TracerProvider(shutdown_on_exit=False), NoSink()
    process.set_tracer_provider(bare)
    router = SpanRouter(lambda: private)

    assert router() is private
    bare.add_span_processor(SpanProcessor())
    assert isinstance(router(), ApiSink)


def test_a_provider_named_only_in_the_environment_is_ignored(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry creates it on first use, without a processor."""
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "sdk_tracer_provider")
    private = NoSink()

    assert SpanRouter(lambda: private)() is private
    assert isinstance(process.get_tracer_provider(), TracerProvider)


def test_a_provider_passed_as_an_argument_has_priority(process: Any) -> None:
    """Whatever the global provider is, now or later."""
    chosen = SpanRouter(NoSink, provider())
    api = chosen()
    process.set_tracer_provider(provider())

    assert isinstance(api, ApiSink)
    assert chosen() is api


def test_settings_without_effect_are_logged(process: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Once, when the application's provider is first used."""
    router = SpanRouter(NoSink, warning="the setting changes nothing")
    router()
    assert caplog.messages == []

    process.set_tracer_provider(provider())
    router()
    router()

    assert caplog.messages == ["the setting changes nothing"]
