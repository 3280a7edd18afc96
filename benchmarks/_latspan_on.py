"""
latspan, switched on as by ``configure()``, but with an exporter that keeps spans in memory.

latspan has no setting for this, because only benchmarks need it with latspan's own provider.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan._base.clock import SystemClock
from latspan._live.otel.export import OtlpSpans, PrivateSink
from latspan._live.otel.spans import NoSink, SpanSink
from latspan._live.process.runtime import Runtime
from latspan._live.process.worker import Worker
from latspan._live.sdk._span_export import SpanExport
from latspan._live.sdk._span_routing import SpanRouter
from latspan._model.recording import Recorder


@dataclass(frozen=True, slots=True)
class On:
    """latspan, switched on, with the exporter that receives its spans."""

    runtime: Runtime
    recorder: Recorder
    processor: SpanProcessor | SpanExport
    exporter: InMemorySpanExporter

    def settle(self) -> None:
        """Wait until everything that has ended is exported and counted."""
        self.runtime.drain(None)
        self.processor.force_flush()
        self.recorder.drain()

    def forget(self) -> None:
        """Discard the exported spans and the counted values."""
        self.exporter.clear()
        self.recorder.swap_interval()


@contextmanager
def own_provider() -> Generator[On]:
    """Set up latspan as ``configure()`` does without a provider, except for the span exporter."""
    exporter = InMemorySpanExporter()
    spans = SpanExport(lambda: OtlpSpans(exporter))
    sink = PrivateSink(TracerProvider(shutdown_on_exit=False), spans.take)
    worker = Worker(poll_s=0.1)
    runtime = _runtime_of(worker, lambda: sink)
    try:
        yield On(runtime, runtime.recorder, spans, exporter)
    finally:
        worker.stop(10)
        spans.shutdown()


@contextmanager
def application_provider() -> Generator[On]:
    """Set up latspan as ``configure()`` does with an application's provider."""
    exporter = InMemorySpanExporter()
    processor = BatchSpanProcessor(exporter)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    worker = Worker(poll_s=0.1)
    runtime = _runtime_of(worker, SpanRouter(NoSink, provider))
    try:
        yield On(runtime, runtime.recorder, processor, exporter)
    finally:
        worker.stop(10)
        provider.shutdown()


def _runtime_of(worker: Worker, sink: Callable[[], SpanSink]) -> Runtime:
    return Runtime(
        clock=SystemClock(),
        recorder=Recorder(SystemClock()),
        sink=sink,
        enqueue=worker.submit,
        drain=worker.drain,
    )
