"""Spans on their way out, flushed and shut down in the time given."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from latspan import semconv
from latspan._fork import begin_again_in_child
from latspan.export import Deliveries, Reading, SpanBatches, span_batches
from latspan.sdk._per_process import PerProcess
from latspan.sdk._worker import Worker

__all__ = ["SpanExport"]

_logger: Final = logging.getLogger(__name__)

_SHUTDOWN_TIMEOUT_S: Final = 30.0
"""Of an application that shuts its provider down, which says no time; the SDK's own."""


class SpanExport(SpanProcessor):
    """
    Sends ended spans in batches, on a thread of its own, as the ``OTEL_BSP_*`` variables say.

    It stands where the SDK has ``BatchSpanProcessor``. That one keeps no timeout and says that all
    is well where nothing left (open-telemetry/opentelemetry-python issues 4555 and 4568), and it
    starts a thread, over its parent's exporter, in every forked child at once. Here a child
    begins empty, and starts thread and exporter when it ends a span.

    Args:
        make_exporter: Makes where spans go, called at once, and in each child that ends a span;
            shut down together with this.
        resource: Returns what this process is called. Given, every span leaves with it.
        on_start: Called in each process before the thread starts.
        batches: How spans are sent; what the environment says unless given.
    """

    def __init__(
        self,
        make_exporter: Callable[[], SpanExporter],
        *,
        resource: Callable[[], Resource] | None = None,
        on_start: Callable[[], None] | None = None,
        batches: SpanBatches | None = None,
    ) -> None:
        self._batches = span_batches() if batches is None else batches
        self._exporter = PerProcess[SpanExporter](lambda _: make_exporter())
        self._resource = resource
        self._logged: set[type[Exception]] = set()
        self._deliveries = Deliveries("spans")
        self._closed = False
        self._begin()
        begin_again_in_child(self._begin)
        self._worker = Worker(
            "latspan-span-export",
            on_start=on_start,
            when_idle=self._send,
            idle_s=self._batches.delay_s,
        )
        # At once: when the interpreter goes down no thread can be started any more.
        self._worker.start()

    def _begin(self) -> None:
        # What waits in a parent is the parent's to send.
        self._waiting: deque[ReadableSpan] = deque(maxlen=self._batches.queue)
        self._woken = False
        self._full = False
        self._pushed_out = self._not_taken = 0
        self._failed = False
        self._cut_short = False
        self._unclosed = [True]

    def start(self) -> None:
        """Start the thread, unless it runs in this process."""
        self._worker.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Take one ended span; on whichever thread, in a finaliser too."""
        if self._closed or span.context is None or not span.context.trace_flags.sampled:
            return
        if len(self._waiting) == self._batches.queue:
            # Two threads at once may count one: a lock is nothing to take in a finaliser.
            self._pushed_out += 1
            self._warn_once()
        self._waiting.append(span)
        if not self._worker.started:
            self._worker.start()
        if len(self._waiting) >= self._batches.size and not self._woken:
            self._woken = True
            self._worker.submit(self._send)

    def readings(self) -> list[Reading]:
        """Return how many spans were lost in this process, and why."""
        spans = {semconv.LATSPAN_SIGNAL: "spans"}
        return [
            Reading(semconv.METRIC_DROPPED, count, {**spans, semconv.LATSPAN_REASON: reason})
            for reason, count in (("queue_full", self._pushed_out), ("not_taken", self._not_taken))
        ]

    def _warn_once(self) -> None:
        if not self._full:
            self._full = True
            _logger.warning("more than %d spans wait: the oldest are dropped", self._batches.queue)

    def flushing(self) -> Callable[[float], bool]:
        """
        Begin to send what has ended so far.

        Returns:
            What waits for it, at most the given seconds, and says whether all spans since the
            last flush were taken.
        """
        if self._closed or not self._worker.started:
            return lambda _: not self._waiting
        done = threading.Event()
        sent: list[bool] = []

        def flush() -> None:
            self._send()
            failed, self._failed = self._failed, False
            sent.append(not failed)
            done.set()

        self._worker.submit(flush)
        return lambda timeout_s: done.wait(timeout_s) and sent[0]

    def closing(self) -> Callable[[float], None]:
        """
        Begin to send what is left and to shut down.

        Returns:
            What waits for it, at most the given seconds, and then cuts it short.
        """
        self._closed = True
        if not self._worker.started:
            return lambda _: None
        done = threading.Event()

        def close() -> None:
            self._send()
            self._close_exporter()
            done.set()

        def wait(timeout_s: float) -> None:
            if not done.wait(timeout_s):
                self._cut_short = True
                self._close_exporter()
            self._worker.stop(0)

        self._worker.submit(close)
        return wait

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what has ended so far, for the application whose provider this is in."""
        return self.flushing()(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Send what is left, for the application whose provider this is in."""
        self.closing()(_SHUTDOWN_TIMEOUT_S)

    def _send(self) -> None:
        """Send what waits now; what others add meanwhile is for the next time."""
        self._woken = self._full = False
        left = len(self._waiting)
        while left > 0 and not self._cut_short:
            batch = [self._waiting.popleft() for _ in range(min(left, self._batches.size))]
            left -= len(batch)
            if not self._took(batch):
                self._failed = True
                self._not_taken += len(batch)

    def _took(self, batch: list[ReadableSpan]) -> bool:
        try:
            with self._deliveries.one():
                result = self._exporter().export([self._called_ours(span) for span in batch])
        except Exception as error:
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _logger.warning("spans could not be exported: %s", error, exc_info=True)
            return False
        if result is not SpanExportResult.SUCCESS:
            return False
        self._deliveries.arrived()
        return True

    def _called_ours(self, span: ReadableSpan) -> ReadableSpan:
        """Return the span as this process's, whose provider may have been made by its parent."""
        if self._resource is None or span.resource is (resource := self._resource()):
            return span
        return ReadableSpan(
            span.name,
            context=span.context,
            parent=span.parent,
            resource=resource,
            attributes=span.attributes,
            events=span.events,
            links=span.links,
            kind=span.kind,
            instrumentation_scope=span.instrumentation_scope,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
        )

    def _close_exporter(self) -> None:
        exporter = self._exporter.made()
        if exporter is None:
            return
        try:
            self._unclosed.pop()
        except IndexError:
            return
        try:
            exporter.shutdown()
        except Exception:
            _logger.warning("the exporter of spans could not be shut down", exc_info=True)
