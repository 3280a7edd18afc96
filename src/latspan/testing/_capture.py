"""Capture of what latspan records inside a block, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from latspan._base.clock import Clock, SystemClock
from latspan._live.operations import end_left_operations
from latspan._live.otel.export import PrivateSink
from latspan._live.process.event_loop import EventLoops
from latspan._live.process.loading import load_later_modules
from latspan._live.process.runtime import Runtime, no_watch, override_runtime
from latspan._live.sdk._api_variables import propagates
from latspan._live.sdk._lifecycle import explained
from latspan._model.metrics import DEFAULT_EXPECTATIONS, Expectations
from latspan._model.recording import Recorder, RequestRecord, Snapshot
from latspan.testing._span_dicts import SequentialIds, spans_as_dict

raises_bugs: bool = False
"""Whether latspan's own bugs are raised; only latspan's own tests switch it on."""

watches_loops: bool = True
"""
Whether event loops are watched for blocks.

Only latspan's own tests switch it off: on a busy machine any loop is late, and they compare exact
segments.
"""


class Captured:
    """
    Data recorded inside :func:`capture`.

    Args:
        take_snapshot: Returns the snapshot of everything recorded.
        finished_spans: Returns all spans that have ended.
    """

    __slots__ = ("_finished_spans", "_take_snapshot")

    def __init__(
        self,
        take_snapshot: Callable[[], Snapshot],
        finished_spans: Callable[[], Iterable[ReadableSpan]],
    ) -> None:
        self._take_snapshot = take_snapshot
        self._finished_spans = finished_spans

    def snapshot(self) -> Snapshot:
        """Return the histograms of everything recorded so far."""
        end_left_operations()
        return explained(self._take_snapshot())

    @property
    def records(self) -> tuple[RequestRecord, ...]:
        """Every finished request so far, in the order in which they ended."""
        return self.snapshot().records

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Every finished span so far; children come before their parent."""
        end_left_operations()
        return tuple(self._finished_spans())

    def spans_as_dict(
        self, *, times: bool = True, attributes: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return :attr:`spans` as trees of plain values; see :func:`spans_as_dict`."""
        return spans_as_dict(self.spans, times=times, attributes=attributes)


@contextmanager
def capture(
    *,
    clock: Clock | None = None,
    expected: Expectations = DEFAULT_EXPECTATIONS,
    series_attributes: Sequence[str] = (),
) -> Generator[Captured]:
    """
    Record into memory inside the block, whatever the application configures in the meantime.

    Nothing is exported. Trace ids and span ids count from 1. Internal errors of latspan are logged
    and not raised in the test, as in an application.

    Args:
        clock: Source of time; the machine's clock, if not given. With a given clock, event loops
            are not watched for blocks.
        expected: Expectations that streams are measured against.
        series_attributes: Names of attributes of your own that series have too, as for
            :func:`latspan.configure`.
    """
    load_later_modules()
    # A clock that is given does not show whether a loop runs in time.
    watches, clock = watches_loops and clock is None, clock or SystemClock()
    loops = EventLoops(clock.monotonic_ns)
    exporter = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource.get_empty(), id_generator=SequentialIds(), shutdown_on_exit=False
    )
    sink = PrivateSink(provider, exporter.export)
    recorder = Recorder(clock, keep=None)
    runtime = Runtime(
        clock=clock,
        recorder=recorder,
        sink=lambda: sink,
        propagate=propagates(),
        expected=expected,
        series_attributes=tuple(series_attributes),
        watch_loop=loops.watch if watches else no_watch,
        strict=raises_bugs,
    )
    try:
        with override_runtime(runtime):
            yield Captured(recorder.snapshot, exporter.get_finished_spans)
    finally:
        loops.stop()
