"""Telemetry of the application: processors, readers and providers of the SDK."""

from __future__ import annotations

from functools import cached_property

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanProcessor,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rivals._subjects import Mode

METRICS_INTERVAL_S = 1.0
"""Interval in seconds; short, so that a short run tries a dead collector often."""


class Telemetry:
    """
    Telemetry that an application sets up before it switches an instrumentation on.

    Each object is created when it is first used, because some libraries create their own.

    Args:
        mode: Destination of the telemetry.
        collector: Address of the collector, for ``Mode.COLLECTOR``.
    """

    def __init__(self, mode: Mode, collector: str) -> None:
        self.mode = mode
        self.collector = collector
        self.memory = InMemorySpanExporter()

    @cached_property
    def exporter(self) -> SpanExporter:
        """Exporter of spans: to the collector or to memory."""
        if self.mode is Mode.COLLECTOR:
            return OTLPSpanExporter(f"{self.collector}/v1/traces")
        return self.memory

    @cached_property
    def processor(self) -> SpanProcessor:
        """Processor that passes spans to the exporter, in batches or one by one."""
        if self.mode is Mode.AT_ONCE:
            return SimpleSpanProcessor(self.exporter)
        return BatchSpanProcessor(self.exporter)

    @cached_property
    def reader(self) -> MetricReader:
        """Reader that collects metrics, and exports them if there is a collector."""
        if self.mode is Mode.COLLECTOR:
            exporter = OTLPMetricExporter(f"{self.collector}/v1/metrics")
            return PeriodicExportingMetricReader(exporter, METRICS_INTERVAL_S * 1000)
        # Delta, so that values of one situation do not include those of the previous one.
        return InMemoryMetricReader({Histogram: AggregationTemporality.DELTA})

    @cached_property
    def tracer_provider(self) -> TracerProvider:
        """Tracer provider of the application; its first use makes it the global one."""
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.processor)
        trace.set_tracer_provider(provider)
        return provider

    @cached_property
    def meter_provider(self) -> MeterProvider:
        """Meter provider of the application."""
        return MeterProvider([self.reader], shutdown_on_exit=False)
