"""Makes the same calls without and with latspan, whose collector is not available."""

from __future__ import annotations

import json
import logging
import sys
import time

import openai
import traffic

import latspan

CALLS = 5


def answers(model_url: str) -> list[list[str]]:
    with openai.OpenAI(base_url=model_url, api_key="none", max_retries=0) as client:
        return [traffic.stream(client) for _ in range(CALLS)]


class Kept(logging.Handler):
    """Keeps logged messages."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.lines.append(record.getMessage())


def main(model_url: str, otlp_url: str, ending: str, timeout_s: str) -> None:
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    kept = Kept()
    logging.getLogger("latspan").addHandler(kept)
    plain = answers(model_url)
    latspan.auto_instrument()
    latspan.configure(endpoint=otlp_url)
    traced = answers(model_url)
    recorded = latspan.snapshot().count(kind="call")
    began = time.monotonic()
    said = None
    if ending == "shutdown":
        latspan.shutdown(float(timeout_s))
    else:
        said = latspan.force_flush(float(timeout_s))
    took_s = time.monotonic() - began
    latspan.shutdown(float(timeout_s))
    sys.stdout.write(
        json.dumps(
            {
                "plain": plain,
                "traced": traced,
                "recorded": recorded,
                "said": said,
                "took_s": took_s,
                "logged": kept.lines,
            }
        )
    )


main(*sys.argv[1:])
