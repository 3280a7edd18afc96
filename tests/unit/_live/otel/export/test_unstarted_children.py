"""Children that never start look as the SDK's own, and whoever listens for a start hears one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import (
    ReadableSpan,
    Span,
    SpanLimits,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
    Tracer,
    TracerProvider,
)
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanKind
from opentelemetry.trace.span import TraceState

from latspan._live.otel.export import application_sink
from latspan._live.otel.spans import ApiSink, ChildSpan, EndChildren, start_and_end
from latspan._live.process.runtime import drain_before_flush

CHILDREN = (
    ChildSpan("queue", 10, 20, {"latspan.segment": "queue", "latspan.source": "estimated"}),
    ChildSpan("GET", 20, 30, {"http.request.resend_count": 1}, SpanKind.CLIENT, failed=True),
)


class Counting(IdGenerator):
    """Gives identities one after another, so that two providers give the same."""

    def __init__(self) -> None:
        self._last = 0

    def generate_span_id(self) -> int:
        """Return the next."""
        self._last += 1
        return self._last

    def generate_trace_id(self) -> int:
        """Return the next."""
        return self.generate_span_id()


WITHOUT_THE_HOOK = """
from opentelemetry.sdk import trace
for cls in (trace.SpanProcessor, trace.SynchronousMultiSpanProcessor):
    if "_on_ending" in vars(cls):
        del cls._on_ending
from latspan._live.otel.spans import ApiSink
from latspan._live.otel.export import application_sink
from latspan._live.process.runtime import drain_before_flush
tracer = trace.TracerProvider(shutdown_on_exit=False).get_tracer("t")
print(type(application_sink(tracer, drain_before_flush)) is not ApiSink)
"""


class Choosy(Sampler):
    """Keeps everything but queues, and says so."""

    def should_sample(
        self,
        parent_context: Context | None,  # noqa: ARG002
        trace_id: int,  # noqa: ARG002
        name: str,
        kind: SpanKind | None = None,  # noqa: ARG002
        attributes: Any = None,
        links: Any = None,  # noqa: ARG002
        trace_state: TraceState | None = None,  # noqa: ARG002
    ) -> SamplingResult:
        """Drop queues."""
        if name == "queue":
            return SamplingResult(Decision.DROP)
        state = TraceState([("chosen", name.lower())])
        return SamplingResult(
            Decision.RECORD_AND_SAMPLE, {**(attributes or {}), "sampler": ["choosy"]}, state
        )

    def get_description(self) -> str:
        """Return its name."""
        return "choosy"


class Listening(SpanProcessor):
    """Adds an attribute when a span starts."""

    def on_start(
        self,
        span: Span,
        parent_context: Context | None = None,  # noqa: ARG002
    ) -> None:
        """Mark it."""
        span.set_attribute("heard", span.name)


def provider_of(**more: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    provider = TracerProvider(id_generator=Counting(), shutdown_on_exit=False, **more)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def fast(tracer: trace.Tracer) -> EndChildren:
    sink = application_sink(tracer, drain_before_flush)
    assert type(sink) is not ApiSink
    return sink.end_children


def ended(
    provider: TracerProvider, exporter: InMemorySpanExporter, *, started: bool = False
) -> Sequence[ReadableSpan]:
    """Return what is exported of two children."""
    tracer = provider.get_tracer("t", "1", schema_url="https://example.test")
    span = tracer.start_span("call")
    context = trace.set_span_in_context(span)
    if started:
        start_and_end(tracer, CHILDREN, context)
    else:
        fast(tracer)(CHILDREN, context)
    return exporter.get_finished_spans()


def fields(spans: Sequence[ReadableSpan]) -> list[dict[str, Any]]:
    return [
        {
            **json.loads(span.to_json()),
            "flags": span.context and int(span.context.trace_flags),
            "scope": span.instrumentation_scope,
            "dropped": span.dropped_attributes,
            "type": type(span),
        }
        for span in spans
    ]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="nothing special"),
        pytest.param({"sampler": Choosy()}, id="a sampler with a mind of its own"),
        pytest.param(
            {"sampler": ParentBased(ALWAYS_ON, local_parent_sampled=Choosy())},
            id="one behind a sampler of the SDK's",
        ),
        pytest.param({"sampler": TraceIdRatioBased(0.5)}, id="a share, this trace in it"),
        pytest.param({"sampler": ParentBased(ALWAYS_OFF)}, id="nothing is kept"),
        pytest.param({"span_limits": SpanLimits(max_span_attributes=1)}, id="few attributes"),
        pytest.param(
            {"span_limits": SpanLimits(max_span_attribute_length=3)}, id="short attributes"
        ),
    ],
)
def test_they_are_what_the_sdk_would_have_made(more: dict[str, Any]) -> None:
    """Field by field, whatever sampler and limits say."""
    directly = ended(*provider_of(**more))

    assert fields(directly) == fields(ended(*provider_of(**more), started=True))


@pytest.mark.parametrize("flags", [0b01, 0b11])
def test_they_have_the_random_flag_of_their_root(flags: int) -> None:
    """Whether it is random is known there alone."""
    provider, exporter = provider_of()
    remote = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(flags))
    context = trace.set_span_in_context(trace.NonRecordingSpan(remote))

    fast(provider.get_tracer("t"))(CHILDREN, context)
    assert {span["flags"] for span in fields(exporter.get_finished_spans())} == {flags}


def test_a_processor_with_on_start_receives_their_starts() -> None:
    """And what it adds is there, from the call on after which it was added."""
    provider, exporter = provider_of()
    assert not any("heard" in (span.attributes or {}) for span in ended(provider, exporter))
    exporter.clear()
    tracer = provider.get_tracer("t")
    context = trace.set_span_in_context(tracer.start_span("call"))
    end_children = fast(tracer)
    end_children(CHILDREN, context)
    provider.add_span_processor(Listening())
    end_children(CHILDREN, context)

    heard = [(span.attributes or {}).get("heard") for span in exporter.get_finished_spans()]
    assert heard == [None, None, "queue", "GET"]


def test_a_processor_patched_with_on_start_receives_their_starts() -> None:
    """What counts is what it does, not what its class says."""
    provider, exporter = provider_of()
    listening = SpanProcessor()
    listening.on_start = Listening().on_start
    provider.add_span_processor(listening)

    assert [(span.attributes or {}).get("heard") for span in ended(provider, exporter)] == [
        "queue",
        "GET",
    ]


def test_processors_that_are_called_in_another_way_are_called_in_that_way() -> None:
    """Only the SDK's usual one is known to pass on nothing else."""

    class Renaming(SynchronousMultiSpanProcessor):
        def on_start(
            self,
            span: Span,
            parent_context: Context | None = None,  # noqa: ARG002
        ) -> None:
            span.update_name(f"renamed {span.name}")

    provider, exporter = provider_of(active_span_processor=Renaming())

    assert [span.name for span in ended(provider, exporter)] == ["renamed queue", "renamed GET"]


def test_an_sdk_that_counts_its_spans_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts those that start."""
    monkeypatch.setenv("OTEL_PYTHON_SDK_INTERNAL_METRICS_ENABLED", "true")
    reader = InMemoryMetricReader()
    provider, exporter = provider_of(meter_provider=MeterProvider([reader]))
    ended(provider, exporter)

    counted = json.loads(reader.get_metrics_data().to_json())  # pyright: ignore[reportOptionalMemberAccess]
    metrics = counted["resource_metrics"][0]["scope_metrics"][0]["metrics"]
    (started,) = [each for each in metrics if each["name"] == "otel.sdk.span.started"]
    assert sum(point["value"] for point in started["data"]["data_points"]) == 1 + len(CHILDREN)


def test_a_tracer_of_somebody_elses_is_left_to_the_api() -> None:
    """It may do anything when a span starts."""

    class Theirs(Tracer):
        pass

    provider, _ = provider_of()
    theirs = provider.get_tracer("t")
    theirs.__class__ = Theirs

    assert type(application_sink(theirs, drain_before_flush)) is ApiSink
    assert type(application_sink(trace.NoOpTracer(), drain_before_flush)) is ApiSink


def test_an_sdk_without_the_later_hook_has_the_fast_way_too() -> None:
    """1.39 has no ``_on_ending``, and nothing is to break at that."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_HOOK],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == ("True\n", "")
