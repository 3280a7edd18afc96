"""
An application that is controlled by commands: ``is_driven.py MODEL_URL``.

It reads one command per line from standard input, and writes one document per line.

- ``call N`` sends N chats; it writes one document per response.
- ``flush S`` flushes latspan, with a timeout of S seconds.
- ``shutdown S`` shuts latspan down, with a timeout of S seconds.
- ``report`` writes the ended spans, the number of spans still in memory, and the logged messages.

The first document has responses from before latspan was configured.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from typing import Any

import openai
import traffic
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import latspan

PLAIN_CALLS = 3


class Ids(SpanProcessor):
    """Keeps the IDs of ended spans, but not the spans."""

    def __init__(self) -> None:
        self.ended: list[str] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Record the ID of a span."""
        assert span.context is not None
        self.ended.append(f"{span.context.span_id:016x}")


class Log(logging.Handler):
    """Keeps logged messages."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.said.append((record.name, record.levelname, record.getMessage()))


def say(**document: Any) -> None:
    sys.stdout.write(f"{json.dumps(document)}\n")
    sys.stdout.flush()


def call(client: openai.OpenAI) -> dict[str, Any]:
    began = time.monotonic()
    text = "".join(traffic.stream(client))
    return {"text": text, "took_s": time.monotonic() - began}


def main(model_url: str) -> None:
    log = Log()
    logging.getLogger().addHandler(log)
    logging.getLogger("latspan").setLevel(logging.INFO)
    with openai.OpenAI(base_url=model_url, api_key="none", max_retries=0) as client:
        plain = [call(client) for _ in range(PLAIN_CALLS)]
    latspan.auto_instrument()
    latspan.configure(set_global_provider=True)
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    ids = Ids()
    provider.add_span_processor(ids)
    say(plain=plain)
    with openai.OpenAI(base_url=model_url, api_key="none", max_retries=0) as client:
        for line in sys.stdin:
            command, _, number = line.strip().partition(" ")
            if command == "call":
                for _ in range(int(number)):
                    say(**call(client))
            elif command == "flush":
                say(flushed=latspan.force_flush(float(number)))
            elif command == "shutdown":
                latspan.shutdown(float(number))
                say()
            elif command == "report":
                latspan.snapshot()
                # Until then, an error and its traceback may reference a batch.
                gc.collect()
                held = sum(type(each) is ReadableSpan for each in gc.get_objects())
                say(ended=ids.ended, held=held, log=log.said)
            else:
                raise ValueError(line)


main(*sys.argv[1:])
