"""
Cost that latspan adds to each call, including all segment spans and histograms.

Method: the real OpenAI client 3 reads a short streamed response (role, three words, finish reason,
usage with llama.cpp's timings) without delays. Its transport is a subclass of
``httpx2.HTTPTransport`` over bytes in this process, and ``latspan_instrumentation.httpx`` patches
it. Each call opens a connection and produces ten spans: nine segments and the call itself. Groups
of ten calls with latspan take turns with groups of ten calls without it, in one process.

*Caller's thread* is the CPU time of that thread over ten calls. The rest of the work runs on
latspan's worker thread, ten times per second. This includes calls under an application's provider
if all its processors are the SDK's batch processors, as here. The yardstick takes turns with the
calls, and each of its measurements takes about as long as ten calls.

*All threads* is the CPU time of the process over 100 calls, until the worker is idle, the in-memory
exporter has every span and the histograms are filled. It does not include the export of the
histograms, which happens once per minute: see ``histogram_work``.

*A call's end alone* is the CPU time for the evidence, the timeline, the spans and the record of a
call, over the ends of 100 calls in a row. The worker thread does this work; under an application's
provider with other processors, the caller's thread does it. The figure does not include the client,
so it has little noise, and the client does not displace latspan's data from the caches.

*When off* is the cost of the patched methods before ``configure()``, compared with the methods
after ``uninstrument()``.

Caveats: nothing is encoded or sent. Encoding ten spans as OTLP takes another 0.3 ms, in the
background. The client takes about 1 ms for such a call, so a single difference is noise. Only the
minimum and the median of many differences are meaningful, and only if they are well above the
control row, which compares the client with itself. A call of 500 chunks costs more at its end:
``added_per_chunk`` shows the cost of each chunk.

Reproduce: ``make bench ARGS=added_per_call``
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from opentelemetry.trace import SpanKind

import latspan
from _bench import (
    Figure,
    Row,
    Scale,
    Target,
    added,
    figure,
    interleaved,
    interleaved_yardstick,
    settled_heap,
    yardstick,
)
from _latspan_on import On, application_provider, own_provider
from _openai import MESSAGES, client, stream_of
from latspan._base.clock import SystemClock
from latspan._live.otel.spans import AttributeValue, NoSink, OpenSpan, SpanSink
from latspan._live.process.runtime import Runtime, install_runtime, override_runtime
from latspan._model.recording import Recorder, RequestRecord

if TYPE_CHECKING:
    from openai import OpenAI
    from opentelemetry.context import Context

_RUN: Final = 10
"""Number of calls in a row, so that each call finds the caches as the previous call left them."""
_BLOCK: Final = 100
"""Number of calls whose telemetry is processed together."""
_STICKS_A_CALL: Final = 20
"""Number of passes of the yardstick, of about 0.06 ms each, that take as long as a call."""
_DRAINED: Final = 513
"""Number of queued records at which a recorder without a reader counts them."""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    openai = client(stream_of(3))
    latspan.auto_instrument()
    repeats = scale.of(300)
    with own_provider() as own:
        measures = [_by_run(openai), _by_run(openai), _by_run(openai, own), _sticks(_RUN)]
        bare, control, traced, sticks = interleaved(measures, repeats)
        yield _row("control: nothing", [bare, control, sticks])
        yield _row("own provider, caller's thread", [bare, traced, sticks], Target(most=100))
        measures = [_by_block(openai), _by_block(openai, own), _sticks(_BLOCK)]
        results = interleaved(measures, scale.of(50))
        yield _row("own provider, all threads", results, Target(most=300))
        yield _end_row("own provider", openai, own, repeats)
    with application_provider() as theirs:
        measures = [_by_run(openai), _by_run(openai, theirs), _sticks(_RUN)]
        results = interleaved(measures, repeats)
        yield _row("application's provider, caller's thread", results, Target(most=300))
        measures = [_by_block(openai), _by_block(openai, theirs), _sticks(_BLOCK)]
        yield _row("application's provider, all threads", interleaved(measures, scale.of(50)))
        yield _end_row("application's provider", openai, theirs, repeats)
    switches = [latspan.uninstrument, latspan.auto_instrument]
    measures = [*(_switched(switch, openai) for switch in switches), _sticks(_RUN)]
    results = interleaved(measures, scale.of(30))
    yield _row("when off", results)
    latspan.uninstrument()


def _row(
    where: str,
    results: list[list[float]],
    target: Target | None = None,
) -> Row:
    bare, traced, sticks = results
    return Row(
        what=f"per call, {where}",
        latspan=added(bare, traced),
        rival=figure(bare),
        rival_name="the client alone",
        target=target,
        stick=interleaved_yardstick(sticks),
    )


def _sticks(calls: int) -> Callable[[], float]:
    """Return a measurement of the yardstick that takes about as long as ``calls`` calls."""
    return lambda: fmean(yardstick(calls * _STICKS_A_CALL))


def _end_row(where: str, openai: OpenAI, on: On, repeats: int) -> Row:
    measured = _by_end(openai, on)
    results = [measured() for _ in range(repeats // 6)]
    return Row(what=f"a call's end alone, {where}", latspan=figure(results))


def _call(openai: OpenAI) -> None:
    for _ in openai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True):
        pass


def _by_run(openai: OpenAI, on: On | None = None) -> Callable[[], float]:
    _call(openai)
    settled_heap()

    def measured() -> float:
        install_runtime(None if on is None else on.runtime)
        _call(openai)
        before = time.thread_time_ns()
        for _ in range(_RUN):
            _call(openai)
        after = time.thread_time_ns()
        install_runtime(None)
        if on is not None:
            on.settle()
            on.forget()
        return (after - before) / _RUN / 1000

    return measured


def _by_block(openai: OpenAI, on: On | None = None) -> Callable[[], float]:
    def measured() -> float:
        install_runtime(None if on is None else on.runtime)
        before = time.process_time_ns()
        for _ in range(_BLOCK):
            _call(openai)
        if on is not None:
            on.settle()
        after = time.process_time_ns()
        install_runtime(None)
        if on is not None:
            on.forget()
        return (after - before) / _BLOCK / 1000

    return measured


@dataclass(frozen=True, slots=True)
class _Patient:
    """Sink whose spans may be ended later, so that the ends of calls can be collected."""

    sink: SpanSink
    inline: bool = False

    def open(
        self,
        name: str,
        *,
        kind: SpanKind,
        start_epoch_ns: int,
        attributes: Mapping[str, AttributeValue],
        parent_context: Context,
    ) -> OpenSpan:
        return self.sink.open(
            name,
            kind=kind,
            start_epoch_ns=start_epoch_ns,
            attributes=attributes,
            parent_context=parent_context,
        )


def _by_end(openai: OpenAI, on: On) -> Callable[[], float]:
    ends: list[Callable[[], None]] = []
    runtime = replace(on.runtime, sink=lambda: _Patient(on.runtime.sink()), enqueue=ends.append)

    def measured() -> float:
        install_runtime(runtime)
        for _ in range(_BLOCK):
            _call(openai)
        install_runtime(None)
        before = time.thread_time_ns()
        for end in ends:
            end()
        after = time.thread_time_ns()
        ends.clear()
        on.settle()
        on.forget()
        return (after - before) / _BLOCK / 1000

    return measured


def _switched(switch: Callable[[], object], openai: OpenAI) -> Callable[[], float]:
    def measured() -> float:
        switch()
        # Patching a class invalidates the interpreter's caches for it: these calls refill them.
        for _ in range(_RUN):
            _call(openai)
        before = time.thread_time_ns()
        for _ in range(_RUN):
            _call(openai)
        return (time.thread_time_ns() - before) / _RUN / 1000

    return measured


def recorded_us(repeats: int) -> Figure:
    """
    Return the CPU time of counting the record of one call, in microseconds.

    513 records are counted at once.

    Args:
        repeats: Number of measurements.
    """
    record = _record_of_a_call()

    def measured() -> float:
        recorder = Recorder(SystemClock())
        before = time.thread_time_ns()
        for _ in range(_DRAINED):
            recorder.record(record)
        return (time.thread_time_ns() - before) / _DRAINED / 1000

    return figure([measured() for _ in range(repeats)])


def _record_of_a_call() -> RequestRecord:
    recorder = Recorder(SystemClock(), keep=1)
    sink = NoSink()
    runtime = Runtime(clock=SystemClock(), recorder=recorder, sink=lambda: sink)
    latspan.auto_instrument()
    with override_runtime(runtime):
        _call(client(stream_of(3)))
    latspan.uninstrument()
    return recorder.snapshot().records[0]
