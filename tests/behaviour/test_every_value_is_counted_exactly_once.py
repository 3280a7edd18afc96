"""Threads and tasks record for ten seconds during snapshots and exports."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ExponentialHistogramDataPoint,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan import Kind, Snapshot, read_snapshots
from latspan._base.clock import SystemClock
from latspan._live.otel.export import HistogramLogs, OtlpMetrics, PeriodicExport
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord, Segment

WRITERS = 16
SECONDS = 10.0
GAPS = 20
BURST = 5
OFTEN = 20
"""Minimum number of snapshots and exports; the test runs longer if necessary."""


class Backend:
    """A backend that adds up delta exports and refuses every third one."""

    def __init__(self) -> None:
        self.asked = 0
        self.count = 0
        self.buckets = 0
        self.sum_s = 0.0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0) -> MetricExportResult:
        """Add up the segments of an export, or refuse it."""
        self.asked += 1
        if self.asked % 3 == 0 and timeout_millis:
            return MetricExportResult.FAILURE
        [scope_metrics] = metrics_data.resource_metrics[0].scope_metrics
        for metric in scope_metrics.metrics:
            if metric.name == "latspan.segment.duration":
                for point in metric.data.data_points:
                    assert isinstance(point, ExponentialHistogramDataPoint)
                    self.count += point.count
                    self.buckets += point.zero_count + sum(point.positive.bucket_counts)
                    self.sum_s += point.sum
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0) -> None:
        """Do nothing."""


def records_of(writer: int) -> Iterator[RequestRecord]:
    """Yield requests that last 1, 2, 3 ... ns, each with chunk gaps of the same length."""
    duration_ns = 0
    while True:
        duration_ns += 1
        yield RequestRecord(
            name="x",
            kind=Kind.CALL,
            outcome=Outcome.COMPLETED,
            start_epoch_ns=0,
            duration_ns=duration_ns,
            segments=(Segment("queue", 0, duration_ns),),
            chunk_gaps=(MetricValue(duration_ns),) * GAPS,
            attributes={"model": f"m{writer % 4}"},
            trace_id=duration_ns,
            span_id=writer + 1,
            sampled=True,
        )


@pytest.mark.repetitive
def test_concurrent_threads_and_tasks_neither_lose_nor_duplicate_values(tmp_path: Path) -> None:
    """The totals, the delta exports and the log contain exactly the recorded values."""
    recorder, backend = Recorder(SystemClock()), Backend()
    delta = OtlpMetrics(
        recorder, backend, resource=Resource({}), temporality=AggregationTemporality.DELTA
    )
    export = PeriodicExport(recorder, [HistogramLogs(tmp_path), delta], interval_s=0.02)
    over = threading.Event()
    recorded = [0] * WRITERS * 2

    def write(writer: int) -> None:
        for record in records_of(writer):
            recorder.record(record)
            recorded[writer] += 1
            # A burst, then a pause for the other threads, as in an application.
            if recorded[writer] % BURST == 0 and over.wait(0.001):
                return

    async def write_as_tasks() -> None:
        async def one(writer: int) -> None:
            for record in records_of(writer):
                recorder.record(record)
                recorded[writer] += 1
                if recorded[writer] % BURST == 0:
                    await asyncio.sleep(0.001)
                    if over.is_set():
                        return

        await asyncio.gather(*(one(WRITERS + number) for number in range(WRITERS)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    threads.append(threading.Thread(target=asyncio.run, args=(write_as_tasks(),)))
    for thread in threads:
        thread.start()
    seen = [recorder.snapshot().count()]
    until = time.monotonic() + SECONDS
    while time.monotonic() < until or min(len(seen), backend.asked) < OFTEN:
        over.wait(0.001)
        seen.append(recorder.snapshot().count())
    over.set()
    for thread in threads:
        thread.join()
    # The backend refuses one export in three; the next export includes the refused values.
    assert export.force_flush(30) or export.force_flush(30)
    export.shutdown()

    whole = recorder.snapshot()
    logged = reduce(Snapshot.merge, read_snapshots(next(tmp_path.iterdir())))
    requests = sum(recorded)
    sum_ns = sum(count * (count + 1) // 2 for count in recorded)
    assert min(recorded) > 0
    assert seen == sorted(seen)
    for snapshot in (whole, logged):
        assert snapshot.count() == requests
        assert snapshot.segment("queue").histogram.sum_ns == sum_ns
        assert snapshot.metric("chunk_gap").count() == requests * GAPS
        assert snapshot.metric("chunk_gap").histogram.sum_ns == sum_ns * GAPS
    assert backend.count == backend.buckets == requests
    assert abs(backend.sum_s * 1e9 / sum_ns - 1) < 1e-9
