"""Spans of the private provider carry the trace flags that the SDK's own would."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from latspan._live.otel.export import PrivateSink
from latspan._live.otel.spans import ChildSpan, FinishedSpan

NOTHING_AROUND = Context()


class Counting(IdGenerator):
    """Gives identities that are anything but random."""

    def generate_span_id(self) -> int:
        """Return the same every time."""
        return 1

    def generate_trace_id(self) -> int:
        """Return the same every time."""
        return 1


TOLD = {"first": "abcdef", "second": 2, "third": ("abcdef", "ab"), "fourth": True}


@pytest.mark.parametrize(
    ("variables", "kept", "dropped"),
    [
        ({}, TOLD, 0),
        (
            {"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "3"},
            {"first": "abc", "second": 2, "third": ("abc", "ab"), "fourth": True},
            0,
        ),
        (
            {
                "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4",
                "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "2",
                "OTEL_ATTRIBUTE_COUNT_LIMIT": "1",
            },
            {"third": ("abcd", "ab"), "fourth": True},
            2,
        ),
        ({"OTEL_ATTRIBUTE_COUNT_LIMIT": "0"}, {}, 4),
    ],
)
def test_attributes_are_limited_as_the_variables_configure(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variables: dict[str, str],
    kept: dict[str, object],
    dropped: int,
) -> None:
    """On the span and on its children, as a span of the SDK's own is, and without a warning."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = InMemorySpanExporter()
    span = PrivateSink(provider, exporter.export).open(
        "x", kind=SpanKind.CLIENT, start_epoch_ns=0, attributes={}, parent_context=NOTHING_AROUND
    )
    span.end(FinishedSpan(1, TOLD, children=(ChildSpan("y", 0, 1, TOLD),)))

    assert not caplog.records
    sdks = provider.get_tracer("test").start_span("z", attributes=TOLD)
    assert isinstance(sdks, ReadableSpan)
    for each in (*exporter.get_finished_spans(), sdks):
        assert (dict(each.attributes or {}), each.dropped_attributes) == (kept, dropped)


def flags_of_span(provider: TracerProvider, parent_context: Context = NOTHING_AROUND) -> int:
    sink = PrivateSink(provider, InMemorySpanExporter().export)
    span = sink.open(
        "x", kind=SpanKind.CLIENT, start_epoch_ns=0, attributes={}, parent_context=parent_context
    )
    return int(span.span_context.trace_flags)


def test_a_random_trace_id_has_the_random_flag() -> None:
    """Sampled, and random."""
    assert flags_of_span(TracerProvider(shutdown_on_exit=False)) == 0b11


def test_an_identity_of_the_applications_own_making_is_not() -> None:
    """Nobody knows whether it is."""
    provider = TracerProvider(id_generator=Counting(), shutdown_on_exit=False)

    assert flags_of_span(provider) == 0b01


@pytest.mark.parametrize("flags", [0b00, 0b01, 0b10, 0b11])
def test_the_flags_of_the_root_are_propagated(flags: int) -> None:
    """Flags of a remote parent are handed on; its sampling decision rules."""
    remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(flags))
    parent_context = trace.set_span_in_context(NonRecordingSpan(remote), NOTHING_AROUND)

    assert flags_of_span(TracerProvider(shutdown_on_exit=False), parent_context) == flags
