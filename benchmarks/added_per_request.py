"""
Cost that latspan adds to each served request, and to each chunk of a streamed response.

Method: an ASGI application in memory, without a server and without a framework, sends the body of a
response in one message or as a stream of 400 chunks. Its ``send`` is a coroutine that does nothing.
Three variants take turns in one process: the application alone, the application behind
``LatspanMiddleware``, and the application behind OpenTelemetry's own ASGI middleware. The spans of
OpenTelemetry's middleware go to a provider with a batch processor and an in-memory exporter.
latspan exports to memory too.

*Per request* is the CPU time of the thread over 20 requests with a ``traceparent``. With its own
provider, latspan does the rest on its worker thread. *All threads* is the CPU time of the process,
until the exporter has every span and the histograms are filled.

*Per chunk* is the CPU time of the thread from the first chunk of a stream to the last, without the
start and the end of the request.

Caveats: unless ``exclude_spans`` is set, OpenTelemetry's middleware creates a span for each message
that it sends, including chunks: both cases are measured. The application opens no stage; each one
would cost another ``with``. A server and a framework take 100 µs or more per request and 20 µs or
more per chunk, which the figures do not include.

Reproduce: ``make bench ARGS=added_per_request``
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, Final

from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from _bench import Row, Scale, Target, added, figure, interleaved, settled_heap
from _latspan_on import On, application_provider, own_provider
from latspan._live.process.runtime import install_runtime
from latspan_instrumentation.asgi import LatspanMiddleware

_RUN: Final = 20
_CHUNKS: Final = 400
_PARENT: Final = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

Message = MutableMapping[str, Any]
App = Callable[[Any, Any, Any], Awaitable[None]]


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    theirs = _Official()
    with asyncio.Runner() as runner:
        with own_provider() as own:
            alone, ours = _by_run(runner, _answer), _by_run(runner, _behind(_answer), own)
            repeats = scale.of(300)
            bare, control, traced, official = interleaved(
                [
                    alone,
                    _by_run(runner, _answer),
                    ours,
                    _by_run(runner, theirs.around(_answer), theirs),
                ],
                repeats,
            )
            yield _row("control: nothing added, per request", bare, control)
            yield _row("per request, own provider", bare, traced, Target(most=100))
            yield _row("per request, OpenTelemetry's ASGI middleware", bare, official)
            bare, traced, official = interleaved(
                [
                    _by_run(runner, _answer, clock=time.process_time_ns),
                    _by_run(runner, _behind(_answer), own, clock=time.process_time_ns),
                    _by_run(runner, theirs.around(_answer), theirs, clock=time.process_time_ns),
                ],
                repeats,
            )
            yield _row("per request, all threads, own provider", bare, traced)
            yield _row("per request, all threads, OpenTelemetry's", bare, official)
            repeats = scale.of(200)
            quiet = theirs.around(_stream, exclude_spans=["receive", "send"])
            bare, control, traced, official, loud = interleaved(
                [
                    _by_chunk(runner, _stream),
                    _by_chunk(runner, _stream),
                    _by_chunk(runner, _behind(_stream), own),
                    _by_chunk(runner, quiet, theirs),
                    _by_chunk(runner, theirs.around(_stream), theirs),
                ],
                repeats,
            )
            yield _row("control: nothing added, per chunk", bare, control)
            yield _row("per chunk, own provider", bare, traced, Target(most=1))
            yield _row("per chunk, OpenTelemetry's without spans of messages", bare, official)
            yield _row("per chunk, OpenTelemetry's", bare, loud)
        with application_provider() as application:
            bare, traced = interleaved(
                [
                    _by_run(runner, _answer),
                    _by_run(runner, _behind(_answer), application),
                ],
                scale.of(300),
            )
            yield _row("per request, application's provider", bare, traced)
    theirs.shutdown()


def _row(what: str, bare: list[float], traced: list[float], target: Target | None = None) -> Row:
    return Row(
        what=what,
        latspan=added(bare, traced),
        rival=figure(bare),
        rival_name="the application alone",
        target=target,
    )


class _Official:
    """OpenTelemetry's own middleware, with a provider that exports to memory."""

    runtime: Final = None

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._processor = BatchSpanProcessor(self._exporter)
        self._provider = TracerProvider(shutdown_on_exit=False)
        self._provider.add_span_processor(self._processor)

    def around(self, app: App, **options: Any) -> App:
        """Return ``app`` behind the middleware."""
        middleware: Any = OpenTelemetryMiddleware
        return middleware(app, tracer_provider=self._provider, **options)

    def settle(self) -> None:
        """Wait until every span is exported."""
        self._processor.force_flush()

    def forget(self) -> None:
        """Discard the exported spans."""
        self._exporter.clear()

    def shutdown(self) -> None:
        """End the thread of the batch processor."""
        self._provider.shutdown()


def _scope() -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"model.test"), (b"traceparent", _PARENT)],
        "client": ("127.0.0.1", 1),
        "server": ("model.test", 80),
    }


def _behind(app: App) -> App:
    return LatspanMiddleware(app)


async def _answer(_: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello", "more_body": False})


async def _stream(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    part = {"type": "http.response.body", "body": b"data: hello\n\n", "more_body": True}
    await send(part)
    before = time.thread_time_ns()
    for _ in range(_CHUNKS):
        await send(part)
    scope["took"].append((time.thread_time_ns() - before) / _CHUNKS / 1000)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: Message) -> None:
    pass


async def _requests(app: App, count: int) -> None:
    for _ in range(count):
        await app(_scope(), _receive, _send)


def _by_run(
    runner: asyncio.Runner,
    app: App,
    on: On | _Official | None = None,
    *,
    clock: Callable[[], int] = time.thread_time_ns,
) -> Callable[[], float]:
    """
    Return a measurement of a run of requests.

    Args:
        runner: Runner of the event loop.
        app: Application.
        on: Library that is switched on; ``None`` for the application alone.
        clock: Returns CPU time in nanoseconds. With the clock of the process, the measurement ends
            when everything is exported.
    """
    settled_heap()

    def measured() -> float:
        install_runtime(None if on is None else on.runtime)
        runner.run(_requests(app, 1))
        before = clock()
        runner.run(_requests(app, _RUN))
        if on is not None and clock is time.process_time_ns:
            on.settle()
        after = clock()
        install_runtime(None)
        if on is not None:
            on.settle()
            on.forget()
        return (after - before) / _RUN / 1000

    return measured


def _by_chunk(
    runner: asyncio.Runner, app: App, on: On | _Official | None = None
) -> Callable[[], float]:
    def measured() -> float:
        install_runtime(None if on is None else on.runtime)
        took: list[float] = []
        runner.run(app({**_scope(), "took": took}, _receive, _send))  # type: ignore[arg-type]
        install_runtime(None)
        if on is not None:
            on.settle()
            on.forget()
        return took[0]

    return measured
