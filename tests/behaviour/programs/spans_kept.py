"""Copies of an application's spans, in addition to latspan's export."""

from __future__ import annotations

import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan


class Kept:
    """Copies of the spans that end from now on; latspan's provider must be the global one."""

    def __init__(self) -> None:
        provider = trace.get_tracer_provider()
        assert isinstance(provider, TracerProvider)
        self._copy = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self._copy))

    def send_and_write(self, file: Path) -> None:
        """Flush latspan, and write the copies as one OTLP export request."""
        if not latspan.force_flush():
            sys.exit("latspan did not flush")
        file.write_bytes(encode_spans(self._copy.get_finished_spans()).SerializeToString())
