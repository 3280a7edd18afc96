"""The same calls without latspan and with it, while nobody takes what it sends."""

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


def main(model_url: str, otlp_url: str, ending: str, timeout_s: str) -> None:
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    plain = answers(model_url)
    latspan.auto_instrument()
    latspan.configure(endpoint=otlp_url)
    traced = answers(model_url)
    recorded = latspan.snapshot().count(of="call")
    began = time.monotonic()
    said = None
    if ending == "shutdown":
        latspan.shutdown(float(timeout_s))
    else:
        said = latspan.force_flush(float(timeout_s))
    took_s = time.monotonic() - began
    sys.stdout.write(
        json.dumps(
            {
                "plain": plain,
                "traced": traced,
                "recorded": recorded,
                "said": said,
                "took_s": took_s,
            }
        )
    )
    sys.stdout.flush()
    if ending == "force_flush":
        latspan.shutdown(float(timeout_s))


main(*sys.argv[1:])
