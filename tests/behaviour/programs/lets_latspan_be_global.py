"""An application that creates its own spans with latspan's provider."""

from __future__ import annotations

import sys

import traffic
from opentelemetry import trace

import latspan


def main(model_url: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None, set_global_provider=True)
    tracer = trace.get_tracer("shop")
    steps = traffic.steps(model_url)
    for _ in range(traffic.STEPS):
        with tracer.start_as_current_span("handle"):
            next(steps)
    if not latspan.force_flush():
        sys.exit("latspan did not flush")
    traffic.print_document()
    traffic.leave_at_once()


main(*sys.argv[1:])
