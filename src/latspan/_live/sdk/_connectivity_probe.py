"""Connectivity probe: sends one span and one metric the way an application would."""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan import semconv
from latspan._base.shown import address as shown_address
from latspan._base.shown import foreign
from latspan._live.otel.export import (
    MetricsExporter,
    http_session,
    otlp_metric_exporter,
    otlp_span_exporter,
    resource_of,
)
from latspan._live.sdk._config import Config, is_exported, otlp_target
from latspan._live.sdk._endpoints import Protocol, Signal

if TYPE_CHECKING:
    from latspan._live.otel.export._http_session import HttpSession

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ELSEWHERE: Final = "that is a login page or a proxy: use the receiver's own address"
_TOO_BUSY: Final = "the receiver is temporarily unavailable; programs wait and retry"
_HINTS: Final = {
    "301": _ELSEWHERE,
    "302": _ELSEWHERE,
    "303": _ELSEWHERE,
    "307": _ELSEWHERE,
    "308": _ELSEWHERE,
    "400": "the receiver cannot parse the message: read its log",
    "401": "set the credentials in OTEL_EXPORTER_OTLP_HEADERS",
    "403": "set the credentials in OTEL_EXPORTER_OTLP_HEADERS",
    "404": "use the address without a path: /v1/traces and /v1/metrics are added",
    "405": "that is not an OTLP receiver: receivers listen on 4318 (HTTP) and 4317 (gRPC)",
    "413": "the receiver, or a proxy before it, refuses messages of this size: raise its limit",
    "429": _TOO_BUSY,
    "503": _TOO_BUSY,
    "Too Many Requests": _TOO_BUSY,
    "Service Unavailable": _TOO_BUSY,
    "WRONG_VERSION_NUMBER": "the server there does not use TLS: use http:// instead of https://",
    "415": "the receiver needs another LATSPAN_PROTOCOL: http/protobuf or grpc",
}
"""Hints by a word that the exporter's error message contains."""

_SENDER: Final = "latspan-doctor-"
"""First part of the names of the threads that send."""

_NOTHING_LISTENS: Final = "start a collector there, or set LATSPAN_ENDPOINT to the address of one"
_NO_EXPORT: Final = f"{_NOTHING_LISTENS}, or LATSPAN_EXPORT_ENABLED=false to export nothing"
_CORRECT_NAME: Final = "correct the name in LATSPAN_ENDPOINT"
_NO_ADDRESS: Final = "an address is http://HOST:PORT; write @ and : of a password as %40 and %3A"
_NO_RECEIVER: Final = (
    "this may not be an OTLP receiver: receivers listen on 4318 (HTTP) and 4317 (gRPC)"
)
_OTHER_PROTOCOL: Final = "read the receiver's log; check that it accepts LATSPAN_PROTOCOL there"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """
    Result of sending one span or one metric.

    Args:
        signal: ``traces`` or ``metrics``.
        endpoint: Address of the receiver, without credentials.
        protocol: OTLP protocol.
        arrived: Whether the receiver accepted it; ``None`` if nothing is to be sent.
        response: Response of the receiver, or the reason that there was none.
        hint: How to fix the problem.
    """

    signal: Signal
    endpoint: str
    protocol: Protocol
    arrived: bool | None
    response: str
    hint: str | None = None


def probe_exports(config: Config, timeout_s: float) -> Iterator[ProbeResult]:
    """
    Send a span and a metric to the endpoints in ``config``, and yield the result of each.

    Args:
        config: Validated configuration.
        timeout_s: Maximum wait for each result, in seconds.
    """
    with _captured_log() as log:
        yield _probe(config, "traces", _send_span, timeout_s, log)
        yield _probe(config, "metrics", _send_metric, timeout_s, log)


_Send = Callable[[Config, Protocol, str | None], bool]


def _probe(
    config: Config, signal: Signal, send: _Send, timeout_s: float, log: _CapturedLog
) -> ProbeResult:
    target = otlp_target(config, signal)
    protocol, address = target.protocol, target.address

    def result(arrived: bool | None, response: str, hint: str | None = None) -> ProbeResult:
        return ProbeResult(signal, shown_address(address), protocol, arrived, response, hint)

    off = _switched_off_by(config, signal)
    if off is not None:
        return result(None, f"not sent: {off}")
    unreachable = _unreachable(address, timeout_s)
    if unreachable is not None:
        return result(False, *unreachable)
    thread = f"{_SENDER}{signal}"
    arrived = _within(timeout_s, lambda: send(config, protocol, target.endpoint), thread)
    if arrived:
        return result(True, "arrived")
    messages = log.messages[thread]
    if messages:
        # An exporter that keeps retrying has no result yet, but has logged the responses it
        # received.
        response = foreign(messages[-1])
        hint = _known_hint(response) or _OTHER_PROTOCOL
        if hint == _HINTS["404"] and urlsplit(address).path == f"/v1/{signal}":
            # The user's address has no path: latspan has added this one.
            hint = _NO_RECEIVER
        return result(False, response, hint)
    if arrived is None:
        return result(False, f"no response within {timeout_s:g} s", _OTHER_PROTOCOL)
    return result(False, "the exporter failed and reported no reason", _OTHER_PROTOCOL)


def _switched_off_by(config: Config, signal: Signal) -> str | None:
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED is true"
    if not config.export_enabled:
        return "LATSPAN_EXPORT_ENABLED is false"
    return None if is_exported(config, signal) else f"OTEL_{signal.upper()}_EXPORTER is none"


def _unreachable(address: str, timeout_s: float) -> tuple[str, str] | None:
    """Return why no connection can be opened, and a hint; ``None`` if one can."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 4317)
    except ValueError:
        return "invalid address", _NO_ADDRESS
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname or ""):
        return None
    where = (parts.hostname or "localhost", port)
    try:
        socket.create_connection(where, timeout=timeout_s).close()
    except (socket.gaierror, UnicodeError):
        return (
            f"cannot resolve the host '{shown_address(where[0])}'",
            _CORRECT_NAME,
        )
    except ConnectionRefusedError:
        return f"refused: nothing listens on port {where[1]}", _NOTHING_LISTENS
    except TimeoutError:
        return f"no connection within {timeout_s:g} s", "check for a firewall in between"
    except OSError as error:
        return f"no connection: {error.strerror or foreign(str(error))}", _NOTHING_LISTENS
    return None


class _CapturedLog(logging.Handler):
    """Collects messages by the name of the thread that logs them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: defaultdict[str, list[str]] = defaultdict(list)

    def emit(self, record: logging.LogRecord) -> None:
        """Collect the message of a record."""
        self.messages[str(record.threadName)].append(record.getMessage())


@contextmanager
def _captured_log() -> Generator[_CapturedLog]:
    """
    Collect what the exporters log inside the block, instead of logging it.

    If an exporter is still retrying at the end of the block, the log stays captured until the
    process ends: its lines would appear in the middle of the report.
    """
    logger, handler = logging.getLogger("opentelemetry"), _CapturedLog()
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        if not any(thread.name.startswith(_SENDER) for thread in threading.enumerate()):
            logger.removeHandler(handler)
            logger.propagate = propagates


def _within(timeout_s: float, send: Callable[[], bool], name: str) -> bool | None:
    """
    Return the result of ``send``; ``None`` if it takes too long, without waiting further.

    Args:
        timeout_s: Maximum wait, in seconds.
        send: Sends something.
        name: Name of the thread that it runs on.
    """
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(send()), name=name, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if thread.is_alive():
        return None
    return bool(results and results[0])


def _known_hint(response: str) -> str | None:
    return next(
        (hint for mark, hint in _HINTS.items() if re.search(rf"\b{mark}\b", response)), None
    )


def explained(reason: str, *, has_endpoint: bool) -> tuple[str, str | None]:
    """
    Return the reason of a failed export in the words of the probe, and a hint if one is known.

    Args:
        reason: Text that an exporter logged.
        has_endpoint: Whether the user has set the address of a receiver.
    """
    host = re.search(r"Failed to resolve '([^']*)'", reason)
    if host is not None:
        return f"cannot resolve the host '{shown_address(host[1])}'", _CORRECT_NAME
    port = re.search(r"\bport=(\d+)", reason)
    if port is not None and "Connection refused" in reason:
        hint = _NOTHING_LISTENS if has_endpoint else _NO_EXPORT
        return f"refused: nothing listens on port {port[1]}", hint
    hint = _known_hint(reason)
    # The remedy depends on the address, which the probe knows.
    return reason, None if hint == _HINTS["404"] else hint


def _send_span(config: Config, protocol: Protocol, endpoint: str | None) -> bool:
    exporter = otlp_span_exporter(protocol, endpoint, _session(protocol, "TRACES"))
    return exporter.export([_span(config)]) is SpanExportResult.SUCCESS


def _span(config: Config) -> ReadableSpan:
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=resource_of(config.service_name), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("latspan").start_span(semconv.DOCTOR).end()
    return kept.get_finished_spans()[0]


def _send_metric(config: Config, protocol: Protocol, endpoint: str | None) -> bool:
    reader = InMemoryMetricReader()
    provider = MeterProvider(
        [reader], resource=resource_of(config.service_name), shutdown_on_exit=False
    )
    provider.get_meter("latspan").create_counter(semconv.DOCTOR, "1").add(1)
    data = reader.get_metrics_data()
    if data is None:
        return False
    session = _session(protocol, "METRICS")
    return _takes(otlp_metric_exporter(protocol, endpoint, session), data)


def _session(protocol: Protocol, signal: Literal["TRACES", "METRICS"]) -> HttpSession | None:
    """Return the session an application uses; it does not treat a redirect as success."""
    return None if protocol == "grpc" else http_session(signal)


def _takes(exporter: MetricsExporter, data: MetricsData) -> bool:
    return exporter.export(data) is MetricExportResult.SUCCESS
