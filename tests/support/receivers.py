"""OTLP receivers on loopback that accept, refuse or never answer, as a test configures them."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from support.tls import CERTIFICATE, server_context

Protocol = Literal["http/protobuf", "grpc"]
Export = ExportTraceServiceRequest | ExportMetricsServiceRequest | ExportLogsServiceRequest

_MAX_S: Final = 60.0
_GRPC_THREADS: Final = 32
"""Each request without an answer occupies a thread."""

_NOTHING_TO_SAY: Final = b""
"""A response of either service without fields."""

_SERVICES: Final[dict[str, type[Export]]] = {
    "opentelemetry.proto.collector.trace.v1.TraceService": ExportTraceServiceRequest,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": ExportMetricsServiceRequest,
    "opentelemetry.proto.collector.logs.v1.LogsService": ExportLogsServiceRequest,
}
_PATHS: Final[dict[str, type[Export]]] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}
_GRPC_STATUS: Final = {
    HTTPStatus.BAD_REQUEST: "INVALID_ARGUMENT",
    HTTPStatus.SERVICE_UNAVAILABLE: "UNAVAILABLE",
}


@dataclass(slots=True)
class Receiver:
    """
    The complete export requests, with resource and scope, which ``oteltap`` omits.

    Args:
        url: URL of the receiver, without a path.
    """

    url: str
    traces: list[ExportTraceServiceRequest] = field(default_factory=list[ExportTraceServiceRequest])
    metrics: list[ExportMetricsServiceRequest] = field(
        default_factory=list[ExportMetricsServiceRequest]
    )
    logs: list[ExportLogsServiceRequest] = field(default_factory=list[ExportLogsServiceRequest])

    def take(self, sent: Export) -> None:
        """Store an export request."""
        if isinstance(sent, ExportTraceServiceRequest):
            self.traces.append(sent)
        elif isinstance(sent, ExportMetricsServiceRequest):
            self.metrics.append(sent)
        else:
            self.logs.append(sent)

    @property
    def resource_spans(self) -> list[ResourceSpans]:
        """All spans so far, by resource and request."""
        return [held for sent in self.traces for held in sent.resource_spans]

    @property
    def resource_metrics(self) -> list[ResourceMetrics]:
        """All metrics so far, by resource and request."""
        return [held for sent in self.metrics for held in sent.resource_metrics]

    @property
    def all_spans(self) -> list[Span]:
        """All spans so far."""
        scopes = [scope for held in self.resource_spans for scope in held.scope_spans]
        return [span for scope in scopes for span in scope.spans]

    @property
    def all_metrics(self) -> list[Metric]:
        """All metrics so far."""
        scopes = [scope for held in self.resource_metrics for scope in held.scope_metrics]
        return [metric for scope in scopes for metric in scope.metrics]

    @property
    def all_logs(self) -> list[LogRecord]:
        """All log records so far."""
        held = [held for sent in self.logs for held in sent.resource_logs]
        scopes = [scope for each in held for scope in each.scope_logs]
        return [record for scope in scopes for record in scope.log_records]


@dataclass(frozen=True, slots=True)
class Refusal:
    """
    How a request is refused.

    Args:
        status: HTTP status, or over gRPC the corresponding status; ``None`` never answers.
        retry_after: Returns the value of the ``Retry-After`` header when the answer is sent; HTTP
            only.
    """

    status: HTTPStatus | None
    retry_after: Callable[[], str] | None = None


@dataclass(slots=True)
class Refusing:
    """
    A receiver, and the requests that it has refused.

    Args:
        url: URL of the receiver, without a path.
        refusal: Current refusal; ``None`` accepts.
        taken: The accepted requests.
        asked: For each batch of spans: arrival in Unix seconds, whether it was accepted, and its
            number of spans.
        asked_metrics: For each request with metrics: the first two of these values.
        headers: Headers of each batch, with names in lower case; over gRPC without its own headers.
        answer: Encoded response to an accepted request.
        answers: Set unless requests that are accepted wait for their answer.
        waits: Set once a request has waited for its answer.
    """

    url: str
    refusal: Refusal | None
    taken: Receiver
    asked: list[tuple[float, bool, int]] = field(default_factory=list[tuple[float, bool, int]])
    asked_metrics: list[tuple[float, bool]] = field(default_factory=list[tuple[float, bool]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    over: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""
    answers: threading.Event = field(default_factory=threading.Event)
    waits: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    @property
    def refused(self) -> int:
        """Number of batches of spans refused so far."""
        return sum(not taken for _, taken, _ in self.asked)

    def receive(self, sent: Export) -> Refusal | None:
        """Accept the request, or return its refusal when it is time to send it."""
        refusal = self.refusal
        if isinstance(sent, ExportTraceServiceRequest):
            scopes = [scope for held in sent.resource_spans for scope in held.scope_spans]
            count = sum(len(scope.spans) for scope in scopes)
            self.asked.append((time.time(), refusal is None, count))
        elif isinstance(sent, ExportMetricsServiceRequest):
            self.asked_metrics.append((time.time(), refusal is None))
        if refusal is None:
            if not self.answers.is_set():
                self.waits.set()
                self.answers.wait(_MAX_S)
            self.taken.take(sent)
        elif refusal.status is None:
            self.over.wait(_MAX_S)
        return refusal


@contextmanager
def refusing(
    protocol: Protocol,
    refusal: Refusal | None,
    *,
    tls: bool = False,
    mutual: bool = False,
    compressed: bool = True,
    longest: int | None = None,
) -> Generator[Refusing]:
    """
    Run a receiver inside the block.

    Args:
        protocol: Its protocol.
        refusal: Its initial refusal.
        tls: Whether it uses TLS, with the certificate of :mod:`support.tls`.
        mutual: Whether a client must present that certificate too.
        compressed: Whether it accepts compressed requests.
        longest: Maximum length of a message in bytes; by default unlimited over HTTP, and 4 MiB
            over gRPC, which is the limit of its libraries.
    """
    held = Refusing("", refusal, Receiver(""))
    serve = _over_grpc if protocol == "grpc" else _over_http
    with serve(held, tls, mutual, compressed, longest) as port:
        held.url = held.taken.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield held
        finally:
            held.over.set()
            held.answers.set()


@contextmanager
def _over_http(
    held: Refusing, tls: bool, mutual: bool, compressed: bool, longest: int | None
) -> Generator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            held.headers.append({name.lower(): value for name, value in self.headers.items()})
            if longest is not None and len(body) > longest:
                self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                return
            if self.headers["content-encoding"] == "gzip":
                if not compressed:
                    self.send_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
                    return
                body = gzip.decompress(body)
            refusal = held.receive(_PATHS[self.path].FromString(body))
            if refusal is not None and refusal.status is None:
                self.close_connection = True
                return
            self.send_response(200 if refusal is None or not refusal.status else refusal.status)
            if refusal is not None and refusal.retry_after is not None:
                self.send_header("retry-after", refusal.retry_after())
            answer = held.answer if refusal is None else b""
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Ignore clients that do not use TLS or have disconnected."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            server.socket = server_context(mutual=mutual).wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def receiving() -> Generator[Receiver]:
    """Run a receiver over HTTP that accepts everything inside the block."""
    with refusing("http/protobuf", None) as receiver:
        yield receiver.taken


@contextmanager
def _over_grpc(
    held: Refusing, tls: bool, mutual: bool, compressed: bool, longest: int | None
) -> Generator[int]:
    # grpc is slow to import, and most receivers use HTTP.
    import grpc

    def receive(sent: Export, context: grpc.ServicerContext) -> bytes:
        held.headers.append({name: str(value) for name, value in context.invocation_metadata()})
        refusal = held.receive(sent)
        if refusal is not None and refusal.status is not None:
            context.abort(grpc.StatusCode[_GRPC_STATUS[refusal.status]], "not now")
        return held.answer

    # One bit per algorithm; the lowest bit is for no compression.
    understood = [] if compressed else [("grpc.compression_enabled_algorithms_bitset", 1)]
    limited = [] if longest is None else [("grpc.max_receive_message_length", longest)]
    server = grpc.server(ThreadPoolExecutor(_GRPC_THREADS), options=[*understood, *limited])
    for service, kind in _SERVICES.items():
        export = grpc.unary_unary_rpc_method_handler(receive, kind.FromString, bytes)
        server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {"Export": export})]
        )
    if tls:
        pem = CERTIFICATE.read_bytes()
        shows = grpc.ssl_server_credentials(
            [(pem, pem)], pem if mutual else None, require_client_auth=mutual
        )
        port = server.add_secure_port("127.0.0.1:0", shows)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        held.over.set()
        server.stop(None).wait()
