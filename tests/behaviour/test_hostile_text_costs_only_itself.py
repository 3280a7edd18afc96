"""Hostile text in any field of a client, a server or a caller affects only this field."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import latspan
from latspan import read_snapshots
from latspan._live.operations import HttpExchange, ModelCall
from latspan._live.process.runtime import current_runtime
from latspan.integrations import Outcome, open_call
from latspan.integrations.formats import OPENAI_CHAT
from latspan_instrumentation.asgi import LatspanMiddleware as AsgiMiddleware
from latspan_instrumentation.wsgi import LatspanMiddleware as WsgiMiddleware
from support.receivers import Receiver, receiving

openai = pytest.importorskip("openai", reason="the openai client is not installed")
anthropic = pytest.importorskip("anthropic", reason="the anthropic client is not installed")
httpx2 = pytest.importorskip("httpx2", reason="httpx2 is not installed")

OWN: Final = 20
"""Number of the application's own spans, ended next to the hostile ones."""
MAX_LENGTHS: Final = {"name": 256, "text": 16_384}


class Colour(Enum):
    """An enum whose members are not strings."""

    RED = "red"


class Mute:
    """An object whose ``str`` raises."""

    def __str__(self) -> str:
        raise RuntimeError("not a word")


HOSTILE: Final = {
    "lone surrogate": "a\ud800",
    "number": 5,
    "huge number": 2**70,
    "enum": Colour.RED,
    "bytes": b"\xff",
    "no text": Mute(),
    "nothing like it": [["a"]],
    "zero byte": "a\x00b",
    "5 MB": "m" * 5_000_000,
    "5 MB, not ASCII": "é" * 5_000_000,
}
TEXTS: Final = ("lone surrogate", "zero byte", "5 MB", "5 MB, not ASCII")
"""Values that can be sent over a network."""


@pytest.fixture(params=["private", "application's"])
def exporting(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[[], tuple[Receiver, Path]]]:
    """Configure latspan, and return a function that returns all exports and the log directory."""
    with receiving() as receiver:
        provider: TracerProvider | None = None
        if request.param != "private":
            provider = TracerProvider(shutdown_on_exit=False)
            exporter = OTLPSpanExporter(f"{receiver.url}/v1/traces")
            provider.add_span_processor(BatchSpanProcessor(exporter))
        latspan.configure(
            endpoint=receiver.url,
            tracer_provider=provider,
            export_raw_histograms=True,
            histogram_log_dir=str(tmp_path / "logs"),
        )
        own = provider or TracerProvider(shutdown_on_exit=False)
        for _ in range(OWN):
            own.get_tracer("application").start_span("its own").end()

        def left() -> tuple[Receiver, Path]:
            with latspan.request("harmless"):
                pass
            flushed = latspan.force_flush(30)
            if provider is not None:
                flushed &= provider.force_flush()
                assert [span.name for span in receiver.all_spans].count("its own") == OWN
            assert flushed
            return receiver, tmp_path / "logs"

        try:
            yield left
        finally:
            latspan.shutdown()
            if provider is not None:
                provider.shutdown()


def check(receiver: Receiver, logs: Path, *, spans: int, requests: int) -> None:
    """Check that everything was exported, and that no text exceeds the documented limits."""
    ours = [span for span in receiver.all_spans if span.name != "its own"]
    roots = [span for span in ours if not span.parent_span_id]
    assert len(roots) == spans
    for span in roots:
        assert "latspan.outcome" in {attribute.key for attribute in span.attributes}
    for span in ours:
        assert 0 < len(span.name) <= MAX_LENGTHS["name"]
        for attribute in span.attributes:
            assert 0 < len(attribute.key) <= MAX_LENGTHS["name"]
            assert sum(map(len, texts_of(attribute.value))) <= MAX_LENGTHS["text"]
    for labels in labels_of(receiver):
        for label in labels:
            assert all(len(text) <= MAX_LENGTHS["name"] for text in texts_of(label.value))
    assert receiver.all_logs
    written = [snapshot for log in logs.iterdir() for snapshot in read_snapshots(log)]
    assert sum(snapshot.count(kind="request") for snapshot in written) == requests
    assert latspan.snapshot().count(kind="request") == requests


def texts_of(value: AnyValue) -> list[str]:
    return [value.string_value, *(each.string_value for each in value.array_value.values)]


def labels_of(receiver: Receiver) -> Iterator[list[KeyValue]]:
    for metric in receiver.all_metrics:
        for point in metric.exponential_histogram.data_points:
            yield list(point.attributes)
        for bounded in metric.histogram.data_points:
            yield list(bounded.attributes)


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_from_a_caller_lose_no_telemetry(
    exporting: Callable[[], tuple[Receiver, Path]], what: str
) -> None:
    """Names of requests, stages, functions and models, and the attributes of requests."""
    odd: Any = HOSTILE[what]
    with latspan.request(odd):
        with latspan.stage(odd):
            latspan.annotate(model=odd, provider=odd, operation=odd)
        handoff = latspan.handoff(waits=odd)
        with latspan.attach(handoff.headers()), latspan.stage("elsewhere"):
            pass
    with latspan.attributes(inference_path=odd, route=odd, traffic_class=odd, tenant=odd):
        with latspan.request("about it"):
            pass
        latspan.handoff().headers()
    with suppress(TypeError):
        # A value that is not text is not a valid span name either; in any case, no other span is
        # lost.
        latspan.traced(name=odd)(int)()

    check(*exporting(), spans=4, requests=3)


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_from_a_client_library_lose_no_telemetry(
    exporting: Callable[[], tuple[Receiver, Path]], what: str
) -> None:
    """The model's name, request parameters, headers and a response, with values of any type."""
    odd: Any = HOSTILE[what]
    call = open_call(
        operation="chat",
        provider=odd,
        model=odd,
        api_format=OPENAI_CHAT,
        server=(odd, odd),
        attributes={"gen_ai.request.stop_sequences": [odd, "b"], "gen_ai.request.seed": odd},
    )
    assert isinstance(call, ModelCall)
    call.headers = {"server-timing": odd, "openai-processing-ms": odd}
    call.keep_response(
        {
            "id": odd,
            "model": odd,
            "choices": [{"finish_reason": odd}],
            "usage": {"prompt_tokens": odd, "completion_tokens": odd},
            "timings": {"prompt_ms": 1.0, str(odd) if what != "no text" else "x": 1.0},
        }
    )
    attempt = call.open_attempt("POST")
    attempt.error_type = odd
    call.open_attempt("POST")
    call.method = odd
    call.end(Outcome.ERROR, error_type=odd)
    runtime = current_runtime()
    assert runtime is not None
    exchange = HttpExchange(
        runtime,
        Context(),
        method=odd,
        path=odd,
        server=(odd, odd),
        attributes={"url.full": odd, odd_name(odd): 1},
    )
    exchange.end(Outcome.COMPLETED)

    receiver, logs = exporting()
    check(receiver, logs, spans=3, requests=1)
    assert latspan.snapshot().count(kind="call") == 1


def odd_name(odd: Any) -> Any:
    return odd if isinstance(odd, (str, bytes, int)) else "x"


@contextmanager
def answering(body: bytes, headers: dict[str, str]) -> Generator[str]:
    """Run a model server that sends the same response to every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("what", TEXTS)
def test_hostile_text_from_a_server_loses_no_telemetry(
    exporting: Callable[[], tuple[Receiver, Path]], what: str
) -> None:
    """In any field that a span or a series uses, through both real clients."""
    odd = HOSTILE[what]
    answer: dict[str, Any] = {
        "id": odd,
        "object": "chat.completion",
        "model": odd,
        "created": 1,
        "choices": [
            {
                "index": 0,
                "finish_reason": odd,
                "message": {"role": "assistant", "content": odd},
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2**70, "total_tokens": 3},
        "timings": {"prompt_ms": 1.0, "predicted_ms": 1.0, "a\ud800": 1.0},
        "stop_reason": odd,
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": odd}],
        "error": None,
    }
    latspan.auto_instrument()
    try:
        with answering(
            json.dumps(answer).encode(), {"server-timing": "queue;dur=1, \xff;dur=2"}
        ) as url:
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                asked: Any = {"messages": [{"role": "user", "content": "hi"}]}
                client.chat.completions.create(model="m", **asked)
                with suppress(UnicodeError):
                    # The client cannot send such a name, and raises an error.
                    client.chat.completions.create(model=odd, **asked)
            with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as claude:
                claude.messages.create(model="m", max_tokens=1, **asked)
    finally:
        latspan.uninstrument()

    receiver, logs = exporting()
    check(receiver, logs, spans=4, requests=1)
    assert latspan.snapshot().count(kind="call") == 3


@pytest.mark.parametrize("what", TEXTS)
def test_hostile_text_from_a_client_loses_no_telemetry(
    exporting: Callable[[], tuple[Receiver, Path]], what: str
) -> None:
    """Method, path, host, route and headers, over ASGI and over WSGI."""
    odd: Any = HOSTILE[what]

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        scope["route"] = type("Route", (), {"path": odd})()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hi"})

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        pass

    scope = {
        "type": "http",
        "method": odd,
        "path": odd,
        "scheme": odd,
        "server": (odd, 80),
        "headers": [(b"traceparent", b"\xff"), (b"tracestate", b"a=\xff"), (b"host", b"\xff")],
    }
    with suppress(StopIteration):
        AsgiMiddleware(asgi)(scope, receive, send).__await__().send(None)

    def wsgi(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"hi"]

    environ = {
        "REQUEST_METHOD": odd,
        "PATH_INFO": odd,
        "SERVER_NAME": odd,
        "SERVER_PORT": odd,
        "wsgi.url_scheme": odd,
        "HTTP_TRACESTATE": odd,
    }
    body: Any = WsgiMiddleware(wsgi)(environ, lambda *_: print)
    assert list(body) == [b"hi"]
    body.close()

    check(*exporting(), spans=3, requests=3)
