"""
An application that keeps what its spans were: ``keeps_a_copy.py MODEL_URL FILE TIMES``.

Beside latspan's own export they go into ``FILE``, one export request in OTLP's own form.
"""

from __future__ import annotations

import sys
from pathlib import Path

import traffic
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan


def main(model_url: str, file: str, times: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None, set_global=True)
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    copy = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(copy))
    for _ in range(int(times)):
        for _ in traffic.steps(model_url):
            pass
    if not latspan.force_flush():
        sys.exit("latspan did not flush")
    Path(file).write_bytes(encode_spans(copy.get_finished_spans()).SerializeToString())
    traffic.print_document()
    traffic.leave_at_once()


main(*sys.argv[1:])
