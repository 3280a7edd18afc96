"""An application without its own OpenTelemetry: ``has_no_provider.py MODEL_URL flush|exit``."""

from __future__ import annotations

import sys

import traffic

import latspan


def main(model_url: str, ending: str) -> None:
    latspan.auto_instrument()
    latspan.configure(keep_records=None)
    for _ in traffic.steps(model_url):
        pass
    if ending == "flush":
        if not latspan.force_flush():
            sys.exit("latspan did not flush")
        traffic.print_document()
        traffic.leave_at_once()
    traffic.print_document()


main(*sys.argv[1:])
