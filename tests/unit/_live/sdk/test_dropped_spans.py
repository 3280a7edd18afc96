"""Spans that the application starts without a tracer provider are dropped, and one line says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import latspan
from latspan._base import log as _log
from support.receivers import receiving

WARNING = (
    "OpenTelemetry spans of the application are dropped, because no tracer provider is set;"
    " hint: latspan.configure(set_global_provider=True) exports them with latspan's spans"
)


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process without a global provider, whose spans latspan exports."""
    monkeypatch.setattr(_log, "_given", set[str]())
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", type(trace._TRACER_PROVIDER_SET_ONCE)())  # pyright: ignore[reportPrivateUsage]
    with receiving() as receiver:
        latspan.configure(endpoint=receiver.url)
        yield
        latspan.shutdown()


def work() -> None:
    with latspan.request("work"):
        pass


def test_a_span_around_a_request_is_noticed_once(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the tracer's name is, and however many spans follow."""
    tracer = trace.get_tracer("shop")
    for _ in range(2):
        with tracer.start_as_current_span("handler"):
            work()

    assert caplog.messages == [WARNING]


def test_a_span_of_the_application_is_not_changed() -> None:
    """Only the context is read: the tracer and its spans are OpenTelemetry's own."""
    tracer = trace.get_tracer("shop")
    with tracer.start_as_current_span("handler") as span:
        work()

        assert span is trace.INVALID_SPAN
        assert trace.get_current_span() is span
    assert type(tracer) is trace.ProxyTracer


def test_without_spans_of_the_application_there_is_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A tracer alone, which many libraries have, drops nothing; latspan's own spans are no drop."""
    trace.get_tracer("shop")
    with latspan.request("outer"):
        work()

    assert caplog.messages == []


def test_a_span_inside_a_request_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    """Inside a span that records, OpenTelemetry makes a copy current that does not."""
    with latspan.request("outer"):
        copy = NonRecordingSpan(trace.get_current_span().get_span_context())
        with trace.use_span(copy):
            work()

    assert caplog.messages == [WARNING]


def test_a_received_span_context_is_no_dropped_span(caplog: pytest.LogCaptureFixture) -> None:
    """A server attaches the span of its client, which another process records."""
    received = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1)))
    token = context.attach(trace.set_span_in_context(received))
    try:
        work()
    finally:
        context.detach(token)

    assert caplog.messages == []


def test_with_a_provider_nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """A provider of the application records its spans."""
    trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    with trace.get_tracer("shop").start_as_current_span("handler"):
        work()

    assert caplog.messages == []


def test_without_export_nothing_is_missed(caplog: pytest.LogCaptureFixture) -> None:
    """The provider of latspan would not export them either."""
    latspan.configure(export_enabled=False)
    with trace.get_tracer("shop").start_as_current_span("handler"):
        work()

    assert caplog.messages == []
