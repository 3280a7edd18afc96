"""Each request's spans go to the provider that the application has at that time."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.trace import NoOpTracerProvider

from latspan._sdk._span_routing import Sinks
from latspan._spans import ApiSink, NoSink


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let a test set the process's provider, which otherwise is set once and for all."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())  # pyright: ignore[reportPrivateUsage]
    return trace


def provider() -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SpanProcessor())
    return made


def test_latspans_own_until_the_application_has_one(process: Any) -> None:
    """From then on the application's, and always the same sink of it."""
    private = NoSink()
    sinks = Sinks(private)

    assert sinks() is private
    process.set_tracer_provider(provider())
    api = sinks()
    assert isinstance(api, ApiSink)
    assert api.inline
    assert sinks() is api


def test_whose_provider_is_used_is_known_at_any_time(process: Any) -> None:
    """For what has to say the same as its spans."""
    sinks = Sinks(NoSink())

    assert sinks.provider() is None
    process.set_tracer_provider(provider())
    assert sinks.provider() is process.get_tracer_provider()


def test_a_provider_that_was_there_before(process: Any) -> None:
    """It is used from the start."""
    process.set_tracer_provider(provider())

    assert isinstance(Sinks(NoSink())(), ApiSink)


def test_a_provider_that_does_nothing_is_none(process: Any) -> None:
    """The API's own stands for nobody."""
    process.set_tracer_provider(NoOpTracerProvider())
    private = NoSink()

    assert Sinks(private)() is private


def test_a_provider_without_processors_is_none_until_it_has_one(process: Any) -> None:
    """What is handed to it goes nowhere."""
    bare, private = TracerProvider(shutdown_on_exit=False), NoSink()
    process.set_tracer_provider(bare)
    sinks = Sinks(private)

    assert sinks() is private
    bare.add_span_processor(SpanProcessor())
    assert isinstance(sinks(), ApiSink)


def test_a_provider_that_only_the_environment_names_is_none(
    process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenTelemetry makes it when it is asked for the first time, without a processor."""
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "sdk_tracer_provider")
    private = NoSink()

    assert Sinks(private)() is private
    assert isinstance(process.get_tracer_provider(), TracerProvider)


def test_a_provider_that_was_handed_over_wins(process: Any) -> None:
    """Whatever the process's own is, now or later."""
    chosen = Sinks(NoSink(), provider())
    api = chosen()
    process.set_tracer_provider(provider())

    assert isinstance(api, ApiSink)
    assert chosen() is api


def test_what_an_applications_provider_puts_out_of_use_is_said(
    process: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """When it is used, and once."""
    sinks = Sinks(NoSink(), instead="the setting changes nothing")
    sinks()
    assert caplog.messages == []

    process.set_tracer_provider(provider())
    sinks()
    sinks()

    assert caplog.messages == ["the setting changes nothing"]
