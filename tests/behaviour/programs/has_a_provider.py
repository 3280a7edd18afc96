"""
An application with its own tracer provider: ``has_a_provider.py MODEL_URL OTLP_URL WHEN``.

``WHEN`` is ``first`` (set before latspan is configured), ``later`` (set after its first call) or
``handed_over`` (passed to latspan and never made the global provider).
"""

from __future__ import annotations

import sys

import traffic
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import latspan

AN_HOUR_MS = 3_600_000


def main(model_url: str, otlp_url: str, when: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    # Neither a delay nor a full batch starts an export.
    provider.add_span_processor(
        BatchSpanProcessor(
            OTLPSpanExporter(f"{otlp_url}/v1/traces"),
            schedule_delay_millis=AN_HOUR_MS,
            max_queue_size=100_000,
            max_export_batch_size=100_000,
        )
    )
    steps = traffic.steps(model_url)
    if when == "first":
        trace.set_tracer_provider(provider)
    latspan.auto_instrument()
    latspan.configure(
        endpoint=otlp_url,
        keep_records=None,
        tracer_provider=provider if when == "handed_over" else None,
    )
    if when == "later":
        next(steps)
        trace.set_tracer_provider(provider)
    for _ in steps:
        pass
    if not provider.force_flush():
        sys.exit("the application's provider did not flush")
    traffic.print_document()
    # Exports histograms, and the spans from before the provider was set. Spans that reach the
    # application's provider only now would not be exported.
    if not latspan.force_flush():
        sys.exit("latspan did not flush")
    traffic.leave_at_once()


main(*sys.argv[1:])
