"""An application's spans end later where nobody can tell, and its flush waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    DEFAULT_ON,
    ParentBased,
    Sampler,
    TraceIdRatioBased,
)

from latspan._live.operations import ModelCall, end_left_operations
from latspan._live.otel.export import application_sink
from latspan._live.process.runtime import Runtime, drain_before_flush, override_runtime
from latspan._live.process.worker import Worker
from latspan._model.recording import Recorder
from latspan._model.segments import Outcome
from latspan.testing import ManualClock

AN_HOUR_MS = 3_600_000


class Subclass(BatchSpanProcessor):
    """May tell anybody when a span ends."""


class Moody(ParentBased):
    """May look at the thread that it is asked on."""


def batch(exporter: InMemorySpanExporter) -> BatchSpanProcessor:
    """Return what sends nothing by itself."""
    return BatchSpanProcessor(exporter, schedule_delay_millis=AN_HOUR_MS)


def provider_of(*processors: SpanProcessor, sampler: Sampler = DEFAULT_ON) -> TracerProvider:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.mark.parametrize("sampler", [DEFAULT_ON, ALWAYS_ON, TraceIdRatioBased(0.5)])
def test_where_spans_are_gathered_they_may_end_later(
    exporter: InMemorySpanExporter, sampler: Sampler
) -> None:
    """One that hands each on at once is noticed when it is added."""
    provider = provider_of(batch(exporter), batch(exporter), sampler=sampler)
    sink = application_sink(provider.get_tracer("test"), drain_before_flush)

    assert not sink.inline
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    assert sink.inline
    provider.shutdown()


def test_where_somebody_may_see_when_they_end_with_their_request(
    exporter: InMemorySpanExporter,
) -> None:
    """A processor of the application's own, one for each span, none, a sampler of its own."""
    providers = [
        provider_of(Subclass(exporter)),
        provider_of(SimpleSpanProcessor(exporter)),
        provider_of(batch(exporter), SpanProcessor()),
        provider_of(),
        provider_of(batch(exporter), sampler=Moody(ALWAYS_ON)),
    ]

    assert [
        application_sink(each.get_tracer("test"), drain_before_flush).inline for each in providers
    ] == [True] * 5
    for provider in providers:
        provider.shutdown()


class Busy:
    """A provider whose spans latspan's worker has not come to yet."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self.exporter = exporter
        self.processor = batch(exporter)
        self.provider = provider_of(self.processor)
        self.sink = application_sink(self.provider.get_tracer("test"), drain_before_flush)
        self.worker = Worker()
        clock = ManualClock()
        self.runtime = Runtime(
            clock=clock,
            recorder=Recorder(clock),
            sink=lambda: self.sink,
            enqueue=self.worker.submit,
            drain=self.worker.drain,
            strict=True,
        )
        self._free = threading.Event()
        self.worker.submit(lambda: None if self._free.wait(30) else pytest.fail("never freed"))

    def end_a_call(self) -> None:
        """End one; its span waits for the worker."""
        call = ModelCall(self.runtime, Context(), name="chat", attributes={}, series={})
        call.end(Outcome.COMPLETED)

    def free(self) -> None:
        """Let the worker go on."""
        self._free.set()

    @property
    def exported(self) -> list[str]:
        """The names of the spans that have left."""
        spans: tuple[ReadableSpan, ...] = self.exporter.get_finished_spans()
        return [span.name for span in spans]


@pytest.fixture
def busy(exporter: InMemorySpanExporter) -> Generator[Busy]:
    busy = Busy(exporter)
    with override_runtime(busy.runtime):
        yield busy
    busy.free()
    assert busy.worker.stop(30)
    busy.provider.shutdown()


def _flush_the_provider(busy: Busy) -> object:
    return busy.provider.force_flush()


def _flush_the_processor(busy: Busy) -> object:
    return busy.processor.force_flush(timeout_millis=30_000)


def _shut_the_provider_down(busy: Busy) -> object:
    busy.provider.shutdown()
    return True


def _shut_the_processor_down(busy: Busy) -> object:
    busy.processor.shutdown()
    return True


@pytest.mark.parametrize(
    "leave",
    [
        _flush_the_provider,
        _flush_the_processor,
        _shut_the_provider_down,
        _shut_the_processor_down,
    ],
)
def test_a_flush_of_the_applications_loses_none(
    busy: Busy, leave: Callable[[Busy], object]
) -> None:
    """It waits for the spans of all calls that have ended before."""
    said: list[object] = []
    busy.end_a_call()
    leaving = threading.Thread(target=lambda: said.append(leave(busy)))
    leaving.start()
    assert busy.exported == []

    busy.free()
    leaving.join(30)

    assert busy.exported == ["chat"]
    assert said == [True]


def test_when_latspan_is_off_nothing_is_waited_for(exporter: InMemorySpanExporter) -> None:
    """The application's flush is what it was."""
    provider = provider_of(batch(exporter))
    assert not application_sink(provider.get_tracer("test"), drain_before_flush).inline
    provider.get_tracer("test").start_span("theirs").end()

    assert provider.force_flush()

    assert [span.name for span in exporter.get_finished_spans()] == ["theirs"]
    provider.shutdown()
    assert not provider.force_flush()


class OfTheApplication(SpanProcessor):
    """Keeps the names of the spans that have ended."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the name of an ended span."""
        self.ended.append(span.name)


@pytest.mark.parametrize("sampler", [DEFAULT_ON, Moody(ALWAYS_ON)], ids=["known", "its own"])
@pytest.mark.parametrize("flush", ["force_flush", "shutdown"])
@pytest.mark.parametrize("simple", [True, False], ids=["simple", "its own"])
def test_a_provider_that_is_flushed_has_the_calls_whose_stream_was_left(
    exporter: InMemorySpanExporter, flush: str, sampler: Sampler, *, simple: bool
) -> None:
    """Such a call may go on as long as its stream is held; a flush counts it as ended."""
    own = OfTheApplication()
    provider = provider_of(SimpleSpanProcessor(exporter) if simple else own, sampler=sampler)
    sink = application_sink(provider.get_tracer("test"), drain_before_flush)
    clock = ManualClock()

    def drain(_timeout_s: float | None) -> bool:
        end_left_operations()
        return True

    runtime = Runtime(
        clock=clock, recorder=Recorder(clock), sink=lambda: sink, drain=drain, strict=True
    )
    with override_runtime(runtime):
        call = ModelCall(runtime, Context(), name="chat", attributes={}, series={})
        call.leave(Outcome.CLOSED_EARLY, done_ns=clock.monotonic_ns())
        getattr(provider, flush)()
    names = [span.name for span in exporter.get_finished_spans()] if simple else own.ended
    assert names == ["chat"]
