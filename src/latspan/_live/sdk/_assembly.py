"""
The assembled pipeline: what ``configure()`` has set up, from its first thread to its last export.

``begin`` starts the threads and ``flush`` exports what has ended so far. ``stop`` ends the threads
that fill the queues first: the loader of exporters, then the worker that ends requests, then the
timers. Only then are the queues of spans, events and metrics closed, side by side, so nothing that
a request leaves arrives too late.

If another pipeline has replaced this one, calls and requests of this one may still be ending on
other threads. Once the worker has ended, their records go to the other pipeline, and once a queue
is closed, so do their spans and events.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from latspan._base.internal_errors import handle_internal_errors
from latspan._live.process.event_loop import EventLoops
from latspan._live.process.loading import Loader
from latspan._live.process.per_process import PerProcess
from latspan._live.process.runtime import Runtime
from latspan._live.process.worker import Worker
from latspan._live.sdk._record_export import RecordOutputs
from latspan._live.sdk._start_line import StartLine

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import TracerProvider as ApiProvider

    from latspan._live.otel.export import PeriodicExport
    from latspan._live.sampling import SamplingSink
    from latspan._live.scraping import Monitor
    from latspan._live.sdk._span_export import SpanExport


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembly:
    """
    The assembled pipeline. ``begin`` and ``stop`` are each called once.

    Args:
        runtime: Objects and settings that live requests use.
        worker: Processes finished requests.
        drain: Ends the calls whose streams are no longer read, and waits for the worker; also
            :attr:`Runtime.drain`.
        spans: Exports the private provider's spans, if they are exported.
        events: Exports events, if they are enabled and the application has no logger provider.
        application: Returns the application's tracer provider, if it has one.
        sampling: Decides which traces are exported, if not all are.
        intervals: Exports this process's histograms, if they are exported.
        loader: Creates the exporters on its own thread.
        monitor: Monitor that samples servers and host, if that is configured.
        loops: Timers on the event loops of the application.
        provider: The private provider, if it is to become the global one.
        start_line: Logs the start of this configuration.
    """

    runtime: Runtime
    worker: Worker
    drain: Callable[[float | None], bool]
    application: Callable[[], ApiProvider | None]
    spans: SpanExport | None
    events: SpanExport | None
    sampling: SamplingSink | None
    intervals: PerProcess[PeriodicExport] | None
    loader: Loader
    outputs: RecordOutputs
    monitor: Monitor | None
    loops: EventLoops
    provider: TracerProvider | None
    start_line: StartLine

    def begin(self) -> None:
        """Start the threads that do not wait for a request, and set the global provider."""
        self.loader.start()
        if self.intervals is not None:
            self.intervals()
        if self.monitor is not None:
            # Start now, so that there is a sample before the first request.
            self.monitor.start()
        if self.spans is not None and (self.provider is not None or _HAS_PROVIDER in sys.modules):
            from latspan._live.sdk._global_provider import route_to

            route_to(self.spans, self.provider)

    def flush(self, timeout_s: float, *, flush_provider: bool = False) -> bool:
        """
        Export everything that has ended so far.

        Args:
            timeout_s: Maximum wait, in seconds.
            flush_provider: Whether to flush the application's provider too.

        Returns:
            Whether everything was exported in time.
        """
        deadline = time.monotonic() + timeout_s
        flushed = self.drain(timeout_s)
        # In parallel: spans and metrics may have different destinations, and one may be slow.
        sent = [export.flushing() for export in self._queues()]
        if flush_provider:
            sent.append(_flushing(self.application(), timeout_s))
        intervals = None if self.intervals is None else self.intervals.made()
        if intervals is not None:
            flushed &= intervals.force_flush(_left_s(deadline))
        for is_sent in sent:
            flushed &= is_sent(_left_s(deadline))
        return flushed

    def stop(
        self,
        timeout_s: float,
        silence_s: float | None = None,
        *,
        flush_provider: bool = False,
        successor: Assembly | None = None,
    ) -> None:
        """
        Export the remaining data and end every thread.

        Args:
            timeout_s: Maximum wait for the last export, in seconds.
            silence_s: Seconds after which a receiver that accepts nothing is given up. If given, a
                receiver that has accepted nothing yet, or whose last attempt failed, gets one
                attempt.
            flush_provider: Whether to flush the application's provider too, in at most
                ``silence_s`` seconds.
            successor: Pipeline that has replaced this one; it receives what comes too late for
                this one.
        """
        deadline = time.monotonic() + timeout_s
        # First, so that the time for loading does not count as the silence of a receiver.
        self.loader.stop(timeout_s)
        self.worker.stop(_left_s(deadline))
        # Before the last interval is taken and the files are closed.
        self.runtime.retire(None if successor is None else successor.runtime)
        self.outputs.stop()
        if self.monitor is not None:
            self.monitor.stop()
        self.loops.stop()
        if self.sampling is not None:
            self.sampling.traces.release()
        if successor is not None:
            if self.spans is not None:
                self.spans.successor = successor.spans
            if self.events is not None:
                self.events.successor = successor.events
        closed: list[Callable[[float], object]] = [
            export.closing(silence_s) for export in self._queues()
        ]
        if flush_provider:
            limit_s = _left_s(deadline) if silence_s is None else silence_s
            closed.append(_flushing(self.application(), limit_s))
        intervals = None if self.intervals is None else self.intervals.made()
        if intervals is not None:
            intervals.shutdown(_left_s(deadline), silence_s)
        for is_closed in closed:
            is_closed(_left_s(deadline))

    def _queues(self) -> list[SpanExport]:
        return [export for export in (self.spans, self.events) if export is not None]


_HAS_PROVIDER: Final = "latspan._live.sdk._global_provider"
"""Module that is loaded if latspan may have set the global provider; it loads the SDK."""


def _flushing(provider: object, limit_s: float) -> Callable[[float], bool]:
    """
    Begin to flush a provider.

    Args:
        provider: Any provider; it is flushed if it is one of the SDK.
        limit_s: Maximum duration, in seconds.

    Returns:
        Function that waits, at most the given number of seconds, and returns whether the flush has
        ended.
    """
    flush = getattr(provider, "force_flush", None)
    if flush is None:
        return lambda _: True
    deadline = time.monotonic() + limit_s
    # On its own thread, because the SDK's processors do not keep the timeout of a flush.
    thread = threading.Thread(target=_run, args=(flush,), name="latspan-flush", daemon=True)
    thread.start()

    def wait(timeout_s: float) -> bool:
        thread.join(min(timeout_s, _left_s(deadline)))
        return not thread.is_alive()

    return wait


def _run(flush: Callable[[], object]) -> None:
    with handle_internal_errors("the flush of the application's tracer provider"):
        flush()


def _left_s(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0)
