"""The application's telemetry: processors, readers and providers of the SDK."""

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

__all__ = ["METRICS_INTERVAL_S", "Telemetry"]

METRICS_INTERVAL_S = 1.0
"""Short, so that a dead collector is tried often in a short run."""


class Telemetry:
    """
    What an application sets up before it switches an instrumentation on.

    Nothing exists before it is asked for, because some libraries bring their own.

    Args:
        mode: Where it goes.
        collector: The collector's address, for that mode.
    """

    def __init__(self, mode: Mode, collector: str) -> None:
        self.mode = mode
        self.collector = collector
        self.memory = InMemorySpanExporter()

    @cached_property
    def exporter(self) -> SpanExporter:
        """Where spans go."""
        if self.mode is Mode.COLLECTOR:
            return OTLPSpanExporter(f"{self.collector}/v1/traces")
        return self.memory

    @cached_property
    def processor(self) -> SpanProcessor:
        """What takes spans there."""
        if self.mode is Mode.AT_ONCE:
            return SimpleSpanProcessor(self.exporter)
        return BatchSpanProcessor(self.exporter)

    @cached_property
    def reader(self) -> MetricReader:
        """What takes metrics where they go."""
        if self.mode is Mode.COLLECTOR:
            exporter = OTLPMetricExporter(f"{self.collector}/v1/metrics")
            return PeriodicExportingMetricReader(exporter, METRICS_INTERVAL_S * 1000)
        # So that one situation's values are told from those of the one before.
        return InMemoryMetricReader({Histogram: AggregationTemporality.DELTA})

    @cached_property
    def tracer_provider(self) -> TracerProvider:
        """The application's, which is the global one from then on."""
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self.processor)
        trace.set_tracer_provider(provider)
        return provider

    @cached_property
    def meter_provider(self) -> MeterProvider:
        """The application's."""
        return MeterProvider([self.reader], shutdown_on_exit=False)
