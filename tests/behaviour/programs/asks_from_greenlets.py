"""Four greenlets stream chats at once in a patched process; a fifth one is killed meanwhile."""

# ruff: noqa: E402 - modules imported before gevent patches would remain unpatched

from importlib import import_module
from typing import Any

# gevent is installed only in the environment for the coexistence tests.
gevent: Any = import_module("gevent")
import_module("gevent.monkey").patch_all()
Event: Any = import_module("gevent.event").Event

import json
import sys

import openai
import requests

import latspan
from latspan.testing import capture
from latspan_instrumentation.httpx import HTTPX2Instrumentor, HTTPXInstrumentor
from latspan_instrumentation.openai import OpenAIInstrumentor
from latspan_instrumentation.requests import RequestsInstrumentor, URLLib3Instrumentor

INSTRUMENTORS = (
    OpenAIInstrumentor,
    HTTPXInstrumentor,
    HTTPX2Instrumentor,
    RequestsInstrumentor,
    URLLib3Instrumentor,
)


def ask(url: str, name: str, heard: Any) -> None:
    """Stream a chat with the SDK."""
    messages: Any = [{"role": "user", "content": "hello"}]
    with (
        openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
        latspan.request(name),
    ):
        for _ in client.chat.completions.create(model=name, messages=messages, stream=True):
            heard.set()


def post(url: str, name: str, heard: Any) -> None:
    """Stream a chat with requests."""
    body: Any = {"model": name, "stream": True, "messages": []}
    there = f"{url}/chat/completions"
    with (
        latspan.request(name),
        requests.post(there, json=body, stream=True, timeout=30) as response,
    ):
        for _ in response.iter_lines():
            heard.set()


def main(client: str, url: str) -> None:
    """Print the recorded calls, each with the name of its request."""
    for instrumentor in INSTRUMENTORS:
        instrumentor().instrument()
    use = {"openai": ask, "requests": post}[client]
    with capture() as seen:
        greenlets = [gevent.spawn(use, url, f"m{number}", Event()) for number in range(4)]
        heard = Event()
        killed = gevent.spawn(use, url, "killed", heard)
        heard.wait()
        killed.kill()
        gevent.joinall(greenlets)
    spans = {span.context.span_id: span for span in seen.spans if span.context is not None}
    calls: list[tuple[str, str, str]] = []
    for record in seen.records:
        assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
        parent = spans[record.span_id].parent
        if parent is not None:
            calls.append((record.name, record.outcome, spans[parent.span_id].name))
    errors = [repr(each.exception) for each in greenlets if each.exception is not None]
    json.dump({"errors": errors, "calls": sorted(calls)}, sys.stdout)


main(*sys.argv[1:])
