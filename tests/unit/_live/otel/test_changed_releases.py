"""What latspan does if a release of OpenTelemetry has renamed what it reads: never an error."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry._logs import NoOpLoggerProvider, get_logger_provider
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan._live.otel import context_keys
from latspan._live.otel.providers import has_log_processors, has_span_processors, is_unset
from latspan._live.otel.tracers import Processors, is_known, limits_of, scope_of

HTTP_KEY = "_SUPPRESS_HTTP_INSTRUMENTATION_KEY"


def _nothing() -> None:
    pass


def _provider(*, processors: int = 1) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    for _ in range(processors):
        provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return provider


def _tracer(provider: TracerProvider) -> Tracer:
    tracer = provider.get_tracer("app")
    assert isinstance(tracer, Tracer)
    return tracer


def test_a_provider_without_processors_drops_everything() -> None:
    assert has_span_processors(_provider())
    assert not has_span_processors(_provider(processors=0))


def test_a_provider_of_an_unknown_type_counts_as_having_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert has_span_processors(object())
    provider: Any = _provider(processors=0)
    monkeypatch.delattr(provider._active_span_processor, "_span_processors")
    assert has_span_processors(provider)
    monkeypatch.delattr(provider, "_active_span_processor")
    assert has_span_processors(provider)


def test_a_logger_provider_is_judged_in_the_same_way() -> None:
    assert not has_log_processors(get_logger_provider())
    assert not has_log_processors(NoOpLoggerProvider())
    provider = LoggerProvider(shutdown_on_exit=False)
    assert not has_log_processors(provider)
    exporter: Any = object()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    assert has_log_processors(provider)
    assert has_log_processors(object())


def test_the_providers_of_the_api_are_placeholders() -> None:
    assert is_unset(trace.ProxyTracerProvider())
    assert is_unset(trace.NoOpTracerProvider())
    assert not is_unset(_provider())


def test_a_tracer_with_other_attributes_is_not_used_directly() -> None:
    class Other(Tracer):
        pass

    tracer = _tracer(_provider())
    assert is_known(tracer)
    assert limits_of(tracer).max_span_attributes is not None
    assert scope_of(tracer).name == "app"
    delattr(tracer, "_span_limits")
    assert not is_known(tracer)
    assert not is_known(Other.__new__(Other))
    assert not is_known(trace.NoOpTracer())


def test_unknown_processors_start_and_end_spans_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider: Any = _provider()
    processors = Processors(_tracer(provider), _nothing)
    assert processors.need_only_ends()
    monkeypatch.delattr(provider._active_span_processor, "_span_processors")
    assert not processors.need_only_ends()
    assert not processors.gather()


def test_a_multi_processor_of_another_type_is_not_looked_into() -> None:
    class Other(SynchronousMultiSpanProcessor):
        pass

    provider = TracerProvider(active_span_processor=Other(), shutdown_on_exit=False)
    assert not Processors(_tracer(provider), _nothing).need_only_ends()
    assert has_span_processors(provider)


@pytest.fixture
def without_http_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.delattr(context, HTTP_KEY)
        importlib.reload(context_keys)
        yield
    importlib.reload(context_keys)


def test_the_keys_of_a_context_suppress_all_or_http() -> None:
    http = Context({getattr(context, HTTP_KEY): True})
    assert context_keys.is_http_suppressed(http)
    assert not context_keys.is_suppressed(http)
    for key in (vars(context)["_SUPPRESS_INSTRUMENTATION_KEY"], "suppress_instrumentation"):
        assert context_keys.is_suppressed(Context({key: True}))
        assert context_keys.is_http_suppressed(Context({key: True}))
    assert not context_keys.is_http_suppressed(Context())


@pytest.mark.usefixtures("without_http_key")
def test_a_release_without_a_key_keeps_the_others() -> None:
    assert context_keys.is_http_suppressed(Context({"suppress_instrumentation": True}))
    assert not context_keys.is_http_suppressed(Context({"suppress-http": True}))
