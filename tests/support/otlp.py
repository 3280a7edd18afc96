"""Third-party OTLP receivers on loopback, and functions that read exported telemetry."""

from __future__ import annotations

import asyncio
import math
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from typing import Final

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogramDataPoint,
    Metric,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

_LAST: Final = "the last one"
_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.005
_LISTENING: Final = range(20_000, 32_768)

Attributes = dict[str, str | bool | int | float | tuple[str, ...]]


def free_port() -> int:
    """Return a free port on loopback, for a program that cannot choose its own."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """
    Return several distinct free ports; separate calls could return the same port twice.

    Linux gives ports of 32768 and more to outgoing connections. Such a port could be taken by a
    connection of another suite before the program that it is meant for listens on it.
    """
    found: list[int] = []
    with ExitStack() as probes:
        # Tests set the seed of the module's own generator, so suites would try the same ports.
        for port in SystemRandom().sample(_LISTENING, len(_LISTENING)):
            probe = probes.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise AssertionError(f"{count} ports from {_LISTENING} are not free")


@dataclass(slots=True)
class Tap:
    """
    The telemetry that ``oteltap`` has received.

    Args:
        url: URL of the receiver, without a path.
    """

    url: str
    spans: list[Span] = field(default_factory=list[Span])
    metrics: list[Metric] = field(default_factory=list[Metric])
    _last: asyncio.Future[tuple[Span, Metric]] | None = None

    def listen(self, receiver: OtelTapHttpProtobufReceiver) -> None:
        """Start to receive; ``oteltap`` discards telemetry that no task waits for."""
        self._last = asyncio.gather(
            receiver.await_trace(self._hear_span), receiver.await_metric(self._hear_metric)
        )

    async def everything(self) -> None:
        """
        Wait until everything sent so far is in :attr:`spans` and :attr:`metrics`.

        ``oteltap`` delivers in order of arrival, so a marker that is sent now arrives last.
        """
        assert self._last is not None
        await asyncio.to_thread(self._send_last)
        await asyncio.wait_for(self._last, _DEADLINE_S)

    def _hear_span(self, span: Span) -> bool:
        if span.name != _LAST:
            self.spans.append(span)
        return span.name == _LAST

    def _hear_metric(self, metric: Metric) -> bool:
        if metric.name != _LAST:
            self.metrics.append(metric)
        return metric.name == _LAST

    def _send_last(self) -> None:
        traces = ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[Span(name=_LAST)])])]
        )
        metrics = ExportMetricsServiceRequest(
            resource_metrics=[
                ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[Metric(name=_LAST)])])
            ]
        )
        _post(f"{self.url}/v1/traces", traces.SerializeToString())
        _post(f"{self.url}/v1/metrics", metrics.SerializeToString())


@asynccontextmanager
async def tapping() -> AsyncGenerator[Tap]:
    """Run ``oteltap`` inside the block."""
    port = free_port()
    async with OtelTapHttpProtobufReceiver(
        OtelTapHttpProtobufReceiverSettings(http_port=port)
    ) as receiver:
        tap = Tap(f"http://127.0.0.1:{port}")
        tap.listen(receiver)
        yield tap


def _post(url: str, body: bytes) -> None:
    request = urllib.request.Request(  # noqa: S310 - loopback
        url, body, {"content-type": "application/x-protobuf"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=_DEADLINE_S) as response:
        response.read()


def _rotel_agent() -> Path:
    """Return the path of rotel's program; skip the test if it cannot run."""
    package = find_spec("rotel")
    if package is None or package.origin is None:
        pytest.skip("rotel is not installed")
    agent = Path(package.origin).with_name("rotel-agent")
    tried = subprocess.run([agent, "--version"], capture_output=True, text=True)
    if tried.returncode != 0:
        # It needs the shared library of Python, which not every build of Python has.
        pytest.skip(f"rotel does not start: {tried.stderr.strip().partition(': ')[2]}")
    return agent


@contextmanager
def rotel_before(
    receiver_url: str, log: Path
) -> Generator[tuple[str, str, subprocess.Popen[bytes]]]:
    """
    Run rotel inside the block: OTLP in over gRPC and HTTP, OTLP over HTTP out.

    A test that needs it is skipped where it cannot run.

    Yields:
        Its port for gRPC, its port for HTTP, and its process, which exports everything it holds
        when it is terminated.
    """
    grpc, http = free_port(), free_port()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [
                _rotel_agent(),
                "start",
                f"--otlp-grpc-endpoint=127.0.0.1:{grpc}",
                f"--otlp-http-endpoint=127.0.0.1:{http}",
                "--exporter=otlp",
                f"--otlp-exporter-endpoint={receiver_url}",
                "--otlp-exporter-protocol=http",
                f"--pid-file={log.with_suffix('.pid')}",
                f"--log-file={log.with_suffix('.agent.log')}",
            ],
            stdout=output,
            stderr=output,
        ) as process,
    ):
        try:
            for port in (grpc, http):
                await_listener(port)
            yield f"http://127.0.0.1:{grpc}", f"http://127.0.0.1:{http}", process
        finally:
            process.kill()


def await_listener(port: int, host: str = "127.0.0.1") -> None:
    """Wait until a program listens on ``port``, by default of the loopback interface."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection((host, port)):
            return
        assert time.monotonic() < deadline, f"nobody listens on port {port}"
        # Without a pause, this thread takes a processor that the program needs to start.
        time.sleep(_POLL_S)


def attributes_of(attributes: Iterable[KeyValue]) -> Attributes:
    """Return OTLP attributes as plain values."""
    plain: Attributes = {}
    for attribute in attributes:
        value = attribute.value
        kind = value.WhichOneof("value")
        if kind == "array_value":
            plain[attribute.key] = tuple(item.string_value for item in value.array_value.values)
        elif kind is not None:
            plain[attribute.key] = getattr(value, kind)
    return plain


def percentile_of(points: Iterable[ExponentialHistogramDataPoint], percentile: float) -> float:
    """
    Return a percentile of all points together, in seconds, as a backend computes it.

    The rank is rounded up, and the value is the geometric middle of its bucket. All points must
    have the same scale.
    """
    counts: Counter[int] = Counter()
    scales: set[int] = set()
    zeros = 0
    for point in points:
        zeros += point.zero_count
        scales.add(point.scale)
        for number, count in enumerate(point.positive.bucket_counts):
            counts[point.positive.offset + number] += count
    (scale,) = scales
    rank = math.ceil(percentile * (zeros + sum(counts.values())) / 100) - zeros
    if rank <= 0:
        return 0.0
    for index in sorted(counts):
        rank -= counts[index]
        if rank <= 0:
            return 2 ** ((index + 0.5) * 2**-scale)
    raise AssertionError("no values")
