"""
Batch export of spans that respects the timeouts of flush and shutdown.

**Threads.** Application threads and finalisers only add ended spans to the queue, and wake the
export thread once a full batch waits and no pause is in effect. The export thread alone sends.
``flushing`` and ``closing`` submit a job to it and return a function that waits for the job, so
that a caller can begin several exports before it waits for the first.

**Result of a batch.** *Accepted*: the batch is forgotten, the pause ends, and the batch size grows
by a quarter, up to its limit. *Too large or not encodable*, with more than one span: the batch is
put back, and its first half is sent at once. *Not accepted for now*: the batch is put back and a
pause begins. *Refused*: the batch is dropped and counted as ``refused``. The result is recorded
even if the exporter raises, so that every span is counted once.

**Shutdown.** The export thread closes the exporter after the last batch. If the timeout expires
first, the waiting thread closes it while a batch is being sent. The list ``_unclosed`` lets only
one of the two threads do so.

**Succession.** After a reconfiguration, spans of requests that began before it may still end. They
pass a gate (`_gate`): until it is closed, they are queued before the last batch is taken; after
that, ``take`` passes them to the successor.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from latspan import semconv
from latspan._base.clock import Clock, SystemClock
from latspan._base.fork import register_after_fork
from latspan._base.gate import Gate
from latspan._base.log import NOT_EXPORTED, logger
from latspan._base.slices import release
from latspan._live.otel.export import (
    BackOff,
    LastExport,
    SelfMetric,
    SpanAnswer,
    SpanBatches,
    span_batches,
)
from latspan._live.otel.export._export_errors import ExportErrors
from latspan._live.otel.export._sizes import size_of
from latspan._live.process.loading import DeferredExporter
from latspan._live.process.worker import Worker
from latspan._live.sdk._span_queue import SpanQueue

if TYPE_CHECKING:
    # The export thread imports the SDK.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from latspan._live.otel.export import OtlpSpans
    from latspan._live.sdk._span_queue import Item

_TOO_LARGE: Final = "a single one is too large for the receiver, or cannot be encoded"

_ACCEPTED_BY_ALL: Final = 65_536
"""Size in bytes up to which no receiver refuses a single span because of its size."""

_SHUTDOWN_TIMEOUT_S: Final = 30.0
"""Timeout if an application shuts its provider down without giving one; the SDK's default."""


class SpanExport:
    """
    Exports ended spans in batches, on its own thread, as the ``OTEL_BSP_*`` variables configure.

    It replaces the SDK's ``BatchSpanProcessor``. That processor does not keep timeouts, reports
    success even if nothing was exported (open-telemetry/opentelemetry-python issues 4555 and 4568),
    loses a batch that is not accepted within some seconds, and immediately starts a thread with the
    parent's exporter in every forked child. Here, a batch that may be accepted later is put back
    into the queue, and the oldest spans are dropped once the queue is full. A forked child begins
    with an empty queue, and starts a thread and an exporter when it ends a span.

    A batch that is too large for a receiver, or that holds a span which cannot be encoded, is sent
    in smaller and smaller parts until the refused part is a single span. After that, the batch
    size grows by a quarter with each accepted batch.

    Events are exported the same way: all statements here about spans hold for events.

    Args:
        make_exporter: Creates the exporter. Called on the export thread for the first batch of each
            process, unless :attr:`exporter` was loaded before. The exporter is shut down together
            with this object.
        resource: Returns this process's resource. If given, every span is exported with it.
        on_start: Called in each process before the thread starts.
        batches: Batch limits; read from the environment if not given.
        clock: Clock for the pauses between two attempts.
        signal: Signal that is exported, for messages and metrics: ``spans`` or ``events``.
    """

    def __init__(
        self,
        make_exporter: Callable[[], OtlpSpans],
        *,
        resource: Callable[[], Resource] | None = None,
        on_start: Callable[[], None] | None = None,
        batches: SpanBatches | None = None,
        clock: Clock | None = None,
        signal: str = "spans",
    ) -> None:
        self._signal = signal
        self._batches = span_batches() if batches is None else batches
        self._clock = SystemClock() if clock is None else clock
        self.exporter: Final = DeferredExporter(signal, make_exporter)
        """The exporter; if it is loaded early, the first batch does not wait for the loading."""
        self._resource = resource
        self.successor: SpanExport | None = None
        """Receives the spans that end after this object was closed; ``None`` drops them."""
        self._gate = Gate()
        self._last = LastExport()
        self._begin()
        register_after_fork(self._begin)
        self._worker = Worker(
            f"latspan-{signal.removesuffix('s')}-export",
            on_start=on_start,
            when_idle=self._send_if_time,
            idle_s=self._batches.delay_s,
        )
        # Started here and not with the first span, because no thread can be started while the
        # interpreter shuts down.
        self._worker.start()

    def _begin(self) -> None:
        # Spans queued in a parent are exported by the parent.
        self._queue = SpanQueue(self._batches.queue, self._batches.queue_bytes, size_of)
        self._at_once = self._batches.size
        self._back_off = BackOff(self._clock)
        self._woken = False
        self._full = False
        self._refused_count = 0
        self._lost_at_flush = 0
        self._cut_short = False
        self._unclosed = [True]

    def start(self) -> None:
        """Start the thread, unless it is already running in this process."""
        self._worker.start()

    def on_end(self, span: ReadableSpan) -> None:
        """Queue one ended span of the global provider, if latspan created that."""
        if span.context is not None and span.context.trace_flags.sampled:
            self.take((span,))

    def take(self, spans: Sequence[Item]) -> None:
        """Queue ended spans that are sampled; safe on any thread and in a finaliser."""
        gate = self._gate
        try:
            if gate.enter():
                self._put(spans)
            elif self.successor is not None:
                self.successor.take(spans)
        finally:
            gate.leave()

    def _put(self, spans: Sequence[Item]) -> None:
        if not self._queue.put(spans):
            self._warn_once()
        if self._worker.thread is None:
            self._worker.start()
        if (
            self._queue.holds(self._batches.size, self._batches.size_bytes)
            and not self._woken
            # Waking the thread during a pause has no effect, and would repeat with each span.
            and self._back_off.is_over()
        ):
            self._woken = True
            self._worker.submit(self._send_if_time)

    def readings(self) -> list[SelfMetric]:
        """Return the number of spans that this process lost, by reason."""
        sent = {semconv.LATSPAN_SIGNAL: self._signal}
        return [
            SelfMetric(semconv.METRIC_DROPPED, count, {**sent, semconv.LATSPAN_REASON: reason})
            for reason, count in (
                ("queue_full", self._queue.lost),
                ("refused", self._refused_count),
            )
        ]

    def _warn_once(self) -> None:
        if not self._full:
            self._full = True
            if len(self._queue) < self._batches.queue:
                logger.warning(
                    "the queue holds %s of more than %d MB: the oldest are dropped",
                    self._signal,
                    self._batches.queue_bytes // 1_000_000,
                )
                return
            logger.warning(
                "the queue holds more than %d %s: the oldest are dropped",
                self._batches.queue,
                self._signal,
            )

    def flushing(self) -> Callable[[float], bool]:
        """
        Begin to export the spans that have ended so far.

        Returns:
            Function that waits, at most the given number of seconds, and returns whether all spans
            since the last flush were accepted.
        """
        if self._gate.is_closed or self._worker.thread is None:
            return lambda _: not self._queue
        done = threading.Event()
        sent: list[bool] = []

        def flush() -> None:
            all_sent = False
            try:
                # A caller waits for the flush: a pause is kept only if the receiver requested one.
                all_sent = self._back_off.is_over(only_requested=True) and self._send()
            finally:
                lost = self._queue.lost + self._refused_count
                sent.append(all_sent and lost == self._lost_at_flush)
                self._lost_at_flush = lost
                done.set()

        self._worker.submit(flush)
        return lambda timeout_s: done.wait(timeout_s) and sent[0]

    def closing(self, silence_s: float | None = None) -> Callable[[float], None]:
        """
        Begin to export the remaining spans and to shut down.

        Args:
            silence_s: Seconds after which a receiver that accepts nothing is given up.

        Returns:
            Function that waits at most the given number of seconds, then cuts the export short.
        """
        self._gate.close()
        if self._worker.thread is None:
            return lambda _: None
        self._worker.hurry()
        done = threading.Event()
        self._last.begin(silence_s)

        def close() -> None:
            try:
                self._send()
            finally:
                self._close_exporter()
                done.set()
                self._last.notify()

        def wait(timeout_s: float) -> None:
            if not self._last.wait(done.is_set, timeout_s):
                self._cut_short = True
                if self._queue.unsent:
                    ExportErrors.unanswered(self._signal)
                self._close_exporter()
            self._worker.stop(0)
            if left := self._queue.unsent:
                logger.warning(NOT_EXPORTED, left, self._signal)

        self._worker.submit(close)
        return wait

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export the spans that have ended so far; called by the global provider."""
        return self.flushing()(timeout_millis / 1000)

    def shutdown(self) -> None:
        """Export the remaining spans; called by the global provider."""
        self.closing()(_SHUTDOWN_TIMEOUT_S)

    def _send_if_time(self) -> None:
        self._woken = False
        if self._back_off.is_over():
            self._send()

    def _send(self) -> bool:
        """Export the spans that are queued now, and return whether all were accepted."""
        left = len(self._queue)
        while left > 0 and not self._cut_short:
            batch = self._queue.take(min(left, self._at_once), self._batches.size_bytes)
            if not batch:
                # The queue was measured after another thread had added a span and before it
                # dropped one.
                return True
            response = self._send_batch(batch)
            spans = list(batch)
            del batch
            count = len(spans)
            release(spans)
            if response.smaller and count > 1:
                continue
            left -= count
            if response.again:
                return False
        return left <= 0

    def _send_batch(self, batch: list[Item]) -> SpanAnswer:
        """Send a batch, record the result in the queue, and return it."""
        response = SpanAnswer(taken=False)
        try:
            exporter = self.exporter.load()
            if exporter is not None:
                with self._last.observing():
                    response = exporter.send(self._called_ours(batch))
            if response.smaller and len(batch) == 1 and size_of(batch[0]) > _ACCEPTED_BY_ALL:
                # It cannot be split further, and would block all batches after it.
                response = response._replace(again=False)
        finally:
            self._handle_answer(batch, response)
        return response

    def _handle_answer(self, batch: list[Item], response: SpanAnswer) -> None:
        if response.taken:
            self._queue.forget(batch)
            self._refused_count += min(response.refused, len(batch))
            self._back_off.accepted()
            self._at_once = min(self._at_once + max(1, self._at_once // 4), self._batches.size)
            # While another full batch waits, the queue counts as full, so that the warning is not
            # repeated.
            self._full = self._full and self._queue.holds(
                self._batches.size, self._batches.size_bytes
            )
        elif response.smaller and len(batch) > 1:
            self._at_once = len(batch) // 2
            if not self._queue.give_back(batch):
                self._warn_once()
        elif response.again:
            if not self._queue.give_back(batch):
                self._warn_once()
            self._back_off.refused(response.retry_after_s)
        else:
            self._queue.forget(batch)
            self._refused_count += len(batch)
            if response.smaller:
                # Until now, a part of it might have been accepted.
                ExportErrors.failed(self._signal, _TOO_LARGE, is_lost=True)

    def _called_ours(self, spans: list[Item]) -> list[Item]:
        """
        Return the spans with the resource of this process.

        In a forked child, the provider of the spans may have the resource of the parent process.
        """
        if self._resource is None:
            return spans
        from latspan._live.otel.export._resource import with_resource

        resource = self._resource()
        return [with_resource(span, resource) for span in spans]

    def _close_exporter(self) -> None:
        exporter = self.exporter.made()
        if exporter is None:
            return
        try:
            self._unclosed.pop()
        except IndexError:
            return
        exporter.shutdown()
