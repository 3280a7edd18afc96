"""Putting the parts together, as a configuration says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from latspan import semconv
from latspan._runtime import Runtime
from latspan._spans import NoSink, SpanSink
from latspan.clock import SystemClock
from latspan.recording import Recorder
from latspan.sdk._config import Config
from latspan.sdk._sinks import Sinks
from latspan.sdk._worker import Worker

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from latspan.export import IntervalExport
    from latspan.sdk._span_export import SpanExport

__all__ = ["Assembly", "assemble"]


@dataclass(frozen=True, slots=True)
class Assembly:
    """
    What is switched on, and what must be flushed and stopped again.

    Args:
        runtime: What live requests use.
        worker: Settles finished requests.
        spans: Sends the private provider's spans, if anything does.
        metrics: Sends histograms, if anything does.
    """

    runtime: Runtime
    worker: Worker
    spans: SpanExport | None
    metrics: IntervalExport | None


_global_provider: TracerProvider | None = None


def assemble(config: Config) -> Assembly:
    """Put together what ``config`` says; threads and exporters begin here."""
    clock = SystemClock()
    recorder = Recorder(clock, keep=config.keep_records)
    worker = Worker()
    private, spans = _private_spans(config)
    runtime = Runtime(
        clock=clock,
        recorder=recorder,
        sink=Sinks(private, config.tracer_provider),
        settle=worker.submit,
        drain=worker.drain,
        propagate=config.propagate,
        defaults=config.defaults,
        stall_ns=config.stall_ns,
    )
    return Assembly(runtime, worker, spans, _metrics(config, recorder, worker))


def _exports(config: Config, variable: str) -> bool:
    return config.export and os.environ.get(variable, "").strip().lower() != "none"


def _private_spans(config: Config) -> tuple[SpanSink, SpanExport | None]:
    global _global_provider
    if not _exports(config, "OTEL_TRACES_EXPORTER"):
        return NoSink(), None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from latspan.export import PrivateSink, otlp_span_exporter, resource_of
    from latspan.sdk._span_export import SpanExport

    spans = SpanExport(
        otlp_span_exporter(config.protocol_of("traces"), config.endpoint_of("traces"))
    )
    provider = TracerProvider(resource=resource_of(config.service_name), shutdown_on_exit=False)
    if _global_provider is not None:
        # A process's provider can be set once: what was configured before made it ours.
        _global_provider.add_span_processor(spans.processor)
    elif config.set_global:
        provider.add_span_processor(spans.processor)
        trace.set_tracer_provider(provider)
        _global_provider = provider
    return PrivateSink(provider, spans.processor), spans


def _metrics(config: Config, recorder: Recorder, worker: Worker) -> IntervalExport | None:
    if not _exports(config, "OTEL_METRICS_EXPORTER"):
        return None
    from latspan.export import (
        IntervalExport,
        OtlpMetrics,
        Reading,
        otlp_metric_exporter,
        readings_of,
        resource_of,
    )

    metrics = OtlpMetrics(
        recorder,
        otlp_metric_exporter(config.protocol_of("metrics"), config.endpoint_of("metrics")),
        resource=resource_of(config.service_name),
        about=lambda: [
            *readings_of(recorder),
            Reading(semconv.METRIC_QUEUE_SIZE, worker.waiting() + recorder.waiting()),
        ],
    )
    return IntervalExport(recorder, [metrics], interval_s=config.metrics_interval_s)
