"""
Delay of an asyncio loop's wake-ups while telemetry is exported on other threads.

Method: a loop in the main thread repeatedly sleeps for 1 ms and records how much longer the sleep
took: the lag. Four cases take turns in one process, in a different order in each round:

- the control, in which nothing else runs;
- latspan exports 2,048 spans and 5,000 series;
- OpenTelemetry's ``BatchSpanProcessor`` and ``PeriodicExportingMetricReader`` export as many;
- a thread computes and releases the interpreter's lock every 0.5 ms, which shows about the lowest
  lag that this machine allows.

Both exports use OTLP over HTTP to a receiver in another process, which reads each message and
accepts it. The spans end eight at a time, because a thread that ended all of them at once would
delay the loop itself. latspan's series have 128 new values each, after 1,000 older ones (see
``_series.py``), and three quarters of the series are exported as exponential histograms.
OpenTelemetry's series have about 50 values each and are exported as exponential histograms with at
most 160 buckets.

The loop is idle or has 200 streams: tasks that repeatedly wait for 50 ms and then parse a chunk of
a model's stream.

Each case has a p50 and a p99 of the lag during a whole export. A row is the difference between one
of them and that of the control in the same round: first the minimum, then the median, then the
range of the middle half. The row also shows the lag of the control.

Caveats: other work on the machine delays the loop too. The control shows how much, and a difference
may be below zero. With fewer than three free cores, the receiver and the exporting thread sometimes
occupy the loop's core, whether or not they hold the interpreter's lock.

Reproduce: ``make bench ARGS=event_loop_lag``
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from statistics import quantiles
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Histogram as Instrument
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from _bench import Row, Scale, Target, figure, settled_heap, without_numpy
from _series import METRICS, VALUES, fill, lognormal_ns, new_recorder
from latspan._live.otel.export import (
    OtlpMetrics,
    PeriodicExport,
    http_session,
    otlp_metric_exporter,
    otlp_spans,
)
from latspan._live.sdk._span_export import SpanExport

_SETS: Final = 625
_SPANS: Final = 2_048
_NEW_VALUES: Final = 128
_SDK_VALUES: Final = 50
_STREAMS: Final = 200
_CHUNK_EVERY_S: Final = 0.05
_TICK_S: Final = 0.001
_NEVER_MS: Final = 1e9
_CONTROL_S: Final = 2.0
_FLUSH_S: Final = 60.0
_SLICE_S: Final = 0.0005
_ENDED_AT_ONCE: Final = 8
_PAUSE_S: Final = 0.0001
_WHO: Final = ("latspan exports", "OpenTelemetry exports", "a thread computes in slices")
_TARGET: Final = Target(most=1)
_POOL: Final = lognormal_ns(100 * VALUES)
_RESOURCE: Final = Resource({"service.name": "benchmark"})
_CHUNK: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}],
    }
)

Export = Callable[[], object]
"""Function that exports once, and returns when the export is complete."""

_RECEIVER: Final = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        left = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 1 << 16)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    with _receiver() as url, without_numpy(), _latspan(url) as ours, _opentelemetry(url) as theirs:
        for load, streams in (("idle", 0), (f"with {_STREAMS} streams", _STREAMS)):
            exports = [_nothing, ours, theirs, _computing]
            rounds = _rounds(exports, streams, max(3, scale.of(15)))
            for name, cut in (("p50", 49), ("p99", 98)):
                control, *added = (
                    [_quantile(lags, cut) for lags in of_one]
                    for of_one in zip(*rounds, strict=True)
                )
                for who, values in zip(_WHO, added, strict=True):
                    yield Row(
                        what=f"added lag of a loop {load}, {name}, while {who}",
                        latspan=figure([a - b for a, b in zip(values, control, strict=True)]),
                        rival=figure(control),
                        rival_name="the lag without an export",
                        target=_TARGET if who.startswith("latspan") else None,
                        unit="ms",
                    )


def _quantile(lags_ms: Sequence[float], cut: int) -> float:
    return quantiles(lags_ms, n=100, method="inclusive")[cut]


def _rounds(
    preparing: Sequence[Callable[[], Export]], streams: int, repeats: int
) -> list[list[list[float]]]:
    """Return the lags in milliseconds: a list per round, with a list per export."""
    order = list(range(len(preparing)))
    orders = random.Random(1)  # noqa: S311 - the same orders each run
    rounds: list[list[list[float]]] = []
    for _ in range(repeats):
        lags: list[list[float]] = [[] for _ in preparing]
        orders.shuffle(order)
        for which in order:
            export = preparing[which]()
            settled_heap()
            lags[which] = asyncio.run(_lags_ms(export, streams))
        rounds.append(lags)
    return rounds


async def _lags_ms(export: Export, streams: int) -> list[float]:
    """Return the lag of each wake-up from the start of the export to its end, in milliseconds."""
    reading = [asyncio.create_task(_read_stream(number)) for number in range(streams)]
    await asyncio.sleep(0.2)
    thread = threading.Thread(target=export)
    thread.start()
    lags: list[float] = []
    while thread.is_alive():
        before = time.perf_counter()
        await asyncio.sleep(_TICK_S)
        lags.append((time.perf_counter() - before - _TICK_S) * 1000)
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return lags


async def _read_stream(number: int) -> None:
    await asyncio.sleep(number * _CHUNK_EVERY_S / _STREAMS)
    text: list[str] = []
    while True:
        await asyncio.sleep(_CHUNK_EVERY_S)
        text.append(json.loads(_CHUNK)["choices"][0]["delta"]["content"])


def _nothing() -> Export:
    return lambda: time.sleep(_CONTROL_S)


def _computing() -> Export:
    def compute() -> None:
        end = time.perf_counter() + _CONTROL_S
        while (now := time.perf_counter()) < end:
            while time.perf_counter() < now + _SLICE_S:
                pass
            time.sleep(0)

    return compute


@contextmanager
def _receiver() -> Generator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _RECEIVER], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            port = "" if process.stdout is None else process.stdout.readline().strip()
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@contextmanager
def _latspan(url: str) -> Generator[Callable[[], Export]]:
    recorder = new_recorder()
    session = http_session("METRICS")
    exporter = otlp_metric_exporter("http/protobuf", f"{url}/v1/metrics", session)
    metrics = OtlpMetrics(recorder, exporter, resource=_RESOURCE, session=session)
    intervals = PeriodicExport(recorder, [metrics], interval_s=threading.TIMEOUT_MAX)
    spans = SpanExport(lambda: otlp_spans("http/protobuf", f"{url}/v1/traces"))
    ended = _spans()

    def prepare() -> Export:
        fill(recorder, _SETS, _POOL, values=_NEW_VALUES)
        return export

    def export() -> None:
        _end(ended, lambda span: spans.take([span]))
        is_sent = spans.flushing()
        if not intervals.force_flush(_FLUSH_S) or not is_sent(_FLUSH_S):
            raise SystemExit("latspan exported nothing")

    try:
        fill(recorder, _SETS, _POOL)
        prepare()()
        yield prepare
    finally:
        spans.shutdown()
        intervals.shutdown()


@contextmanager
def _opentelemetry(url: str) -> Generator[Callable[[], Export]]:
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(
            f"{url}/v1/metrics",
            preferred_aggregation={Instrument: ExponentialBucketHistogramAggregation()},
        ),
        export_interval_millis=_NEVER_MS,
    )
    provider = MeterProvider([reader], _RESOURCE, shutdown_on_exit=False)
    meter = provider.get_meter("benchmark")
    instruments = [meter.create_histogram(name, unit="s") for name in METRICS]
    spans = BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"))
    ended = _spans()
    values = iter(range(len(_POOL) * 1_000))

    def record(count: int) -> None:
        for which in range(_SETS):
            attributes = _attributes(which)
            for instrument in instruments:
                for _ in range(count):
                    instrument.record(_POOL[next(values) % len(_POOL)] / 1e9, attributes)

    def prepare() -> Export:
        record(1)
        return export

    def export() -> None:
        _end(ended, spans.on_end)
        sending = threading.Thread(target=spans.force_flush)
        sending.start()
        if not reader.force_flush(_FLUSH_S * 1000):
            raise SystemExit("OpenTelemetry exported nothing")
        sending.join()

    try:
        record(_SDK_VALUES)
        prepare()()
        yield prepare
    finally:
        spans.shutdown()
        provider.shutdown()


def _end(spans: Sequence[ReadableSpan], pass_on: Callable[[ReadableSpan], object]) -> None:
    """Pass spans on as they end in an application: a few at a time."""
    for start in range(0, len(spans), _ENDED_AT_ONCE):
        for span in spans[start : start + _ENDED_AT_ONCE]:
            pass_on(span)
        time.sleep(_PAUSE_S)


def _attributes(which: int) -> dict[str, Any]:
    return {
        "latspan.kind": "call",
        "latspan.side": "client",
        "latspan.outcome": "completed",
        "latspan.source": "measured",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": f"model-{which}",
    }


def _spans() -> list[ReadableSpan]:
    """Return ended spans of a typical size."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=_RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("benchmark")
    for number in range(_SPANS):
        attributes = {**_attributes(number % 9), "latspan.segment": "queue", "number": number}
        tracer.start_span("queue", attributes=attributes).end()
    return list(exporter.get_finished_spans())
