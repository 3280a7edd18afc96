"""An application with latspan's provider, configured twice: ``configures_twice.py GLOBAL``."""

from __future__ import annotations

import sys

from opentelemetry import trace

import latspan


def main(second_time: str) -> None:
    tracer = trace.get_tracer("shop")
    for name, set_global_provider in (("first", True), ("second", second_time == "global")):
        latspan.configure(set_global_provider=set_global_provider)
        with tracer.start_as_current_span(f"the application's {name}"), latspan.request(name):
            pass


main(*sys.argv[1:])
