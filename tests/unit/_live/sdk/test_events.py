"""Each event goes to the logger provider that the application has at that time."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry._logs import LogRecord, NoOpLoggerProvider, _internal, set_logger_provider
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from latspan._live.sdk._content import Events
from latspan.semconv import SCHEMA_URL

ATTRIBUTES = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [{"role": "user"}]}
CONTEXT = trace.set_span_in_context(
    NonRecordingSpan(SpanContext(7, 8, is_remote=False, trace_flags=TraceFlags(1))), Context()
)


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test set the global logger provider, which can otherwise be set only once."""
    once = _internal._LOGGER_PROVIDER_SET_ONCE  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(_internal, "_LOGGER_PROVIDER", None)
    monkeypatch.setattr(_internal, "_LOGGER_PROVIDER_SET_ONCE", type(once)())


def _emit(events: Events) -> None:
    events("an.event", 5, ATTRIBUTES, CONTEXT)


def _said(record: LogRecord) -> tuple[Any, ...]:
    attributes = dict(record.attributes or {})
    return record.event_name, record.timestamp, attributes, record.trace_id, record.span_id


@pytest.mark.parametrize("does_nothing", [False, True])
def test_events_use_latspans_export_until_the_application_has_a_provider(
    *, does_nothing: bool
) -> None:
    """The no-op provider does not count as the application's."""
    private: list[LogRecord] = []
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    events = Events(private.append)
    if does_nothing:
        set_logger_provider(NoOpLoggerProvider())

    _emit(events)
    assert [_said(record) for record in private] == [("an.event", 5, ATTRIBUTES, 7, 8)]

    if not does_nothing:
        set_logger_provider(provider)
        _emit(events)
        (taken,) = exporter.get_finished_logs()
        assert _said(taken.log_record)[:2] == ("an.event", 5)
        assert (taken.log_record.trace_id, taken.log_record.span_id) == (7, 8)
        scope = taken.instrumentation_scope
        assert scope is not None
        assert (scope.name, scope.schema_url) == ("latspan", SCHEMA_URL)
        assert len(private) == 1


def test_a_provider_without_processors_is_ignored() -> None:
    """Until it has a processor, it would drop the events."""
    private: list[LogRecord] = []
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    set_logger_provider(provider)
    events = Events(private.append)

    _emit(events)
    assert len(private) == 1

    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    _emit(events)
    assert len(exporter.get_finished_logs()) == 1
    assert len(private) == 1


def test_without_a_provider_and_an_export_events_are_dropped() -> None:
    _emit(Events(None))
