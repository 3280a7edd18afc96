"""Configure once, flush, shut down."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Unpack

from latspan import _runtime
from latspan._request import abandon_open_calls
from latspan._runtime import Runtime
from latspan._spans import NoSink, SpanSink
from latspan.clock import SystemClock
from latspan.recording import NoopRecorder, Recorder, Snapshot
from latspan.sdk._config import Config, ConfigFields
from latspan.sdk._sinks import Sinks
from latspan.sdk._worker import Worker

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from latspan.export import MetricsExport
    from latspan.sdk._span_export import SpanExport

__all__ = ["configure", "force_flush", "shutdown", "snapshot"]

_logger = logging.getLogger("latspan")

_FLUSH_TIMEOUT_S: Final = 10.0
_SHUTDOWN_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Live:
    """What must be flushed and stopped again."""

    worker: Worker
    spans: SpanExport | None
    metrics: MetricsExport | None


_live: _Live | None = None
_global_provider: TracerProvider | None = None
_lock = threading.Lock()


def configure(**settings: Unpack[ConfigFields]) -> None:
    """
    Switch latspan on: ``latspan.configure(endpoint="http://localhost:4318")``.

    Spans go through the application's own tracer provider where it has one, now or later, and
    otherwise through a private one over OTLP. Histograms leave as OTLP metrics on a thread of
    latspan's own. Calling it again replaces what was configured before.

    Args:
        settings: Fields of :class:`latspan.sdk.Config`. What is not given comes from
            ``LATSPAN_*`` variables, then from defaults; ``OTEL_*`` variables mean what they mean.

    Raises:
        ConfigError: A value cannot work; the message has a ``hint:``.
        UnknownNameError: There is no such setting.
    """
    global _live
    config = Config.of(settings)
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        _logger.info("OTEL_SDK_DISABLED is true: latspan stays off")
        return
    shutdown()
    with _lock:
        recorder = Recorder(SystemClock(), keep=config.keep_records)
        worker = Worker()
        private, spans = _private_spans(config)
        metrics = _metrics(config, recorder)
        _live = _Live(worker, spans, metrics)
        _runtime.install(
            Runtime(
                clock=SystemClock(),
                recorder=recorder,
                sink=Sinks(private, config.tracer_provider),
                settle=worker.submit,
                drain=worker.drain,
                propagate=config.propagate,
                defaults=config.defaults,
                stall_ns=config.stall_ns,
            )
        )


def snapshot() -> Snapshot:
    """
    Return the histograms of everything since :func:`configure`, as they are now.

    An empty snapshot when latspan is not configured.
    """
    runtime = _runtime.current()
    if runtime is None:
        return NoopRecorder().snapshot()
    runtime.drain()
    return runtime.recorder.snapshot()


def force_flush(timeout_s: float = _FLUSH_TIMEOUT_S) -> bool:
    """
    Export everything that has ended so far.

    Args:
        timeout_s: How long to wait at most, in seconds.

    Returns:
        Whether all of it left in time; ``True`` when latspan is not configured.
    """
    live = _live
    if live is None:
        return True
    deadline = time.monotonic() + timeout_s
    flushed = live.worker.drain(timeout_s)
    # Side by side: spans and metrics may go to different places, of which one is slow.
    spans_sent = None if live.spans is None else live.spans.flushing()
    if live.metrics is not None:
        flushed &= live.metrics.force_flush(_left_s(deadline))
    if spans_sent is not None:
        flushed &= spans_sent(_left_s(deadline))
    return flushed


def shutdown(timeout_s: float = _SHUTDOWN_TIMEOUT_S) -> None:
    """
    Switch latspan off: end open calls as ``abandoned``, export what is left, stop its threads.

    Done by itself when the process exits. Calling it twice is once.

    Args:
        timeout_s: How long to wait at most for the last export, in seconds.
    """
    global _live
    with _lock:
        live, _live = _live, None
        if live is None:
            return
        abandon_open_calls()
        _runtime.install(None)
        deadline = time.monotonic() + timeout_s
        live.worker.stop(timeout_s)
        wait_for_spans = None if live.spans is None else live.spans.closing()
        if live.metrics is not None:
            live.metrics.shutdown(_left_s(deadline))
        if wait_for_spans is not None:
            wait_for_spans(_left_s(deadline))


atexit.register(shutdown)


def _left_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0)


def _exports(config: Config, variable: str) -> bool:
    return config.export and os.environ.get(variable, "").strip().lower() != "none"


def _private_spans(config: Config) -> tuple[SpanSink, SpanExport | None]:
    global _global_provider
    if not _exports(config, "OTEL_TRACES_EXPORTER"):
        return NoSink(), None
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    from latspan.export import PrivateSink, otlp_span_exporter, resource_of
    from latspan.sdk._span_export import SpanExport

    spans = SpanExport(
        otlp_span_exporter(config.protocol_of("traces"), config.endpoint_of("traces"))
    )
    provider = TracerProvider(resource=resource_of(config.service_name), shutdown_on_exit=False)
    if _global_provider is not None:
        # A process's provider can be set once: what was configured before made it ours.
        _global_provider.add_span_processor(spans.processor)
    elif config.set_global:
        provider.add_span_processor(spans.processor)
        trace.set_tracer_provider(provider)
        _global_provider = provider
    return PrivateSink(provider, spans.processor), spans


def _metrics(config: Config, recorder: Recorder) -> MetricsExport | None:
    if not _exports(config, "OTEL_METRICS_EXPORTER"):
        return None
    from latspan.export import MetricsExport, otlp_metric_exporter, resource_of

    return MetricsExport(
        recorder,
        otlp_metric_exporter(config.protocol_of("metrics"), config.endpoint_of("metrics")),
        resource=resource_of(config.service_name),
        interval_s=config.metrics_interval_s,
    )
