"""The export thread sends every value once, and nobody notices when it cannot."""

from __future__ import annotations

import io
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    ConsoleMetricExporter,
    ExponentialHistogramDataPoint,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.resources import Resource

from latspan._base.clock import ManualClock, SystemClock
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export import OtlpMetrics, PeriodicExport
from latspan._live.otel.export._export_errors import ExportErrors
from latspan._model.recording import Recorder, Snapshot
from latspan.errors import ConfigError
from support.records import RECORD

WORKS_AGAIN = "exporting histograms works again"


class Backend:
    """Remembers what it was sent, and answers as it is told to."""

    def __init__(self, *answers: MetricExportResult | Exception) -> None:
        self.answers = list(answers)
        self.received: list[MetricsData] = []
        self.timeouts_ms: list[float] = []
        self.instrumented: list[bool] = []
        self.arrivals = threading.Semaphore(0)
        self.shutdowns_ms: list[float] = []

    def export(self, metrics_data: MetricsData, timeout_millis: float = 0) -> MetricExportResult:
        """Take the metrics; raise or return the next answer, success when none is left."""
        self.received.append(metrics_data)
        self.timeouts_ms.append(timeout_millis)
        self.instrumented.append(is_instrumentation_enabled())
        self.arrivals.release()
        answer = self.answers.pop(0) if self.answers else MetricExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        return answer

    def shutdown(self, timeout_millis: float = 0) -> None:
        """Note that no more will come."""
        self.shutdowns_ms.append(timeout_millis)

    def counts(self) -> list[int]:
        """Return how many values came with each export."""
        return [
            sum(
                point.count
                for metric in data.resource_metrics[0].scope_metrics[0].metrics
                for point in metric.data.data_points
                if isinstance(point, ExponentialHistogramDataPoint)
            )
            for data in self.received
        ]


@contextmanager
def exporting(
    recorder: Recorder,
    backend: Backend,
    temporality: AggregationTemporality = AggregationTemporality.CUMULATIVE,
    *,
    interval_s: float = float("inf"),
) -> Generator[PeriodicExport]:
    outlet = OtlpMetrics(recorder, backend, resource=Resource({}), temporality=temporality)
    export = PeriodicExport(recorder, [outlet], interval_s=interval_s)
    try:
        yield export
    finally:
        export.shutdown()


def flush_after_each_record(
    backend: Backend, temporality: AggregationTemporality, *, records: int
) -> list[bool]:
    recorder = Recorder(SystemClock())
    flushed: list[bool] = []
    with exporting(recorder, backend, temporality) as export:
        for _ in range(records):
            recorder.record(RECORD)
            flushed.append(export.force_flush())
    return flushed


def test_cumulative_exports_hold_everything_so_far() -> None:
    """Each export, the one at shutdown too, has all values since the start."""
    backend = Backend()

    assert flush_after_each_record(backend, AggregationTemporality.CUMULATIVE, records=2) == [
        True,
        True,
    ]
    assert backend.counts() == [1, 2, 2]


def test_delta_exports_hold_what_is_new() -> None:
    """Each value is sent once, and nothing at shutdown when nothing is new."""
    backend = Backend()

    flush_after_each_record(backend, AggregationTemporality.DELTA, records=3)

    assert backend.counts() == [1, 1, 1]


def test_delta_intervals_that_failed_are_part_of_the_next() -> None:
    """A refusal and an exception both leave the interval to be sent again, from its own start."""
    backend = Backend(MetricExportResult.FAILURE, OSError("unreachable"))

    flushed = flush_after_each_record(backend, AggregationTemporality.DELTA, records=4)

    assert flushed == [False, False, True, True]
    assert backend.counts() == [1, 2, 3, 1]
    starts = [
        data.resource_metrics[0]
        .scope_metrics[0]
        .metrics[0]
        .data.data_points[0]
        .start_time_unix_nano
        for data in backend.received
    ]
    assert starts[0] == starts[1] == starts[2] < starts[3]


def test_an_interval_exports_without_being_asked() -> None:
    """The thread wakes up by itself, again and again."""
    backend = Backend()
    recorder = Recorder(SystemClock())
    recorder.record(RECORD)

    with exporting(recorder, backend, interval_s=0.001):
        arrived = [backend.arrivals.acquire(timeout=30) for _ in range(3)]

    assert arrived == [True, True, True]


def test_nothing_is_sent_where_there_is_nothing() -> None:
    """An empty recorder flushes well and exports nothing."""
    backend = Backend()

    with exporting(Recorder(SystemClock()), backend) as export:
        assert export.force_flush()

    assert backend.counts() == []


def test_what_an_exporter_raises_is_logged_once_a_type(caplog: pytest.LogCaptureFixture) -> None:
    """A dead endpoint costs one warning, not one a minute."""
    backend = Backend(OSError("first"), OSError("second"), ValueError("third"))

    flush_after_each_record(backend, AggregationTemporality.CUMULATIVE, records=3)

    assert [record.getMessage() for record in caplog.records] == [
        "histograms could not be exported: first",
        "histograms could not be exported: third",
    ]


def test_an_export_is_not_instrumented() -> None:
    """The exporter's own HTTP calls are no one's calls to trace."""
    backend = Backend()

    flush_after_each_record(backend, AggregationTemporality.CUMULATIVE, records=1)

    assert not any(backend.instrumented)
    assert is_instrumentation_enabled()


def test_the_exporter_receives_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """``OTEL_METRIC_EXPORT_TIMEOUT`` reaches every export."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_TIMEOUT", "1234")
    backend = Backend()

    flush_after_each_record(backend, AggregationTemporality.DELTA, records=2)

    assert backend.timeouts_ms == [1234, 1234]


def test_any_exporter_of_the_sdk_will_do() -> None:
    """The console's prints what was recorded."""
    printed = io.StringIO()
    recorder = Recorder(SystemClock())
    recorder.record(RECORD)

    console = OtlpMetrics(recorder, ConsoleMetricExporter(printed), resource=Resource({}))
    export = PeriodicExport(recorder, [console])

    assert export.shutdown()
    assert '"latspan.segment.duration"' in printed.getvalue()


def test_shutdown_sends_the_rest_and_only_once() -> None:
    """What was recorded last is exported; a second shutdown does nothing, nor does a flush."""
    backend = Backend()
    recorder = Recorder(SystemClock())
    with exporting(recorder, backend) as export:
        recorder.record(RECORD)

        assert export.shutdown()
        assert export.shutdown()
        assert not export.force_flush()

    assert backend.counts() == [1]
    assert len(backend.shutdowns_ms) == 1


def test_a_flush_waits_no_longer_than_its_timeout() -> None:
    """An exporter that hangs holds up its own thread, not the caller's."""
    answer = threading.Event()

    class Hanging(Backend):
        def export(
            self, metrics_data: MetricsData, timeout_millis: float = 0
        ) -> MetricExportResult:
            answer.wait()
            return super().export(metrics_data, timeout_millis)

    recorder = Recorder(SystemClock())
    recorder.record(RECORD)
    with exporting(recorder, Hanging()) as export:
        assert not export.force_flush(timeout_s=0.001)
        answer.set()


@pytest.mark.parametrize(("scale", "max_buckets"), [(21, 160), (8, 1)])
def test_impossible_settings_fail_at_start(scale: int, max_buckets: int) -> None:
    """Not an hour later, on a thread nobody watches."""
    recorder = Recorder(SystemClock())
    with pytest.raises(ConfigError):
        OtlpMetrics(
            recorder, Backend(), resource=Resource({}), scale=scale, max_buckets=max_buckets
        )
    with pytest.raises(ConfigError, match="every 0 s"):
        PeriodicExport(recorder, [], interval_s=0)


class Shelf:
    """An outlet that takes what it is given, or raises."""

    local = False
    lost = 0

    def __init__(self, *, broken: bool = False, raises: type[BaseException] = OSError) -> None:
        self.broken = broken
        self.raises = raises
        self.held: list[int] = []

    def send(self, interval: Snapshot, *, last: bool) -> bool:  # noqa: ARG002
        """Note how many calls an interval has."""
        if self.broken:
            raise self.raises("no space left on device")
        self.held.append(interval.count())
        return True

    def shutdown(self, timeout_s: float) -> None:
        """Nothing to let go of."""


@pytest.mark.parametrize("raises", [OSError, SystemExit, KeyboardInterrupt])
def test_one_outlet_that_fails_keeps_nothing_from_the_others(raises: type[BaseException]) -> None:
    """Each gets every interval, and the flush says that not all of it was delivered."""
    first, second = Shelf(broken=True, raises=raises), Shelf()
    recorder = Recorder(SystemClock())
    export = PeriodicExport(recorder, [first, second], interval_s=float("inf"))
    recorder.record(RECORD)
    flushed = export.force_flush()
    first.broken = False
    recorder.record(RECORD)
    flushed_again = export.force_flush()
    export.shutdown()

    assert (flushed, flushed_again) == (False, True)
    assert (first.held, second.held) == ([1, 0], [1, 1, 0])


def test_a_flush_reports_a_loss_in_an_earlier_export() -> None:
    """Once: the flush after it reports what was lost since then."""
    exporter = Shelf()
    export = PeriodicExport(Recorder(SystemClock()), [exporter], interval_s=float("inf"))
    flushed = [export.force_flush()]
    exporter.lost = 2
    flushed += [export.force_flush(), export.force_flush()]
    export.shutdown()

    assert flushed == [True, False, True]


def test_each_time_that_an_exporter_begins_to_fail_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A disk may fill twice; while it is full, one line is enough, whoever else succeeds."""
    shelf = Shelf()
    export = PeriodicExport(Recorder(SystemClock()), [shelf, Shelf()], interval_s=float("inf"))
    said: list[int] = []
    for shelf.broken in (True, True, False, True):
        export.force_flush()
        said.append(len(caplog.records))
    shelf.broken = False
    export.shutdown()

    assert said == [1, 1, 1, 2]


def test_series_are_forgotten_once_they_are_idle_and_delivered() -> None:
    """What was not delivered is kept; what was, and gets no more values, makes room."""
    clock = ManualClock()
    recorder = Recorder(clock)
    shelf = Shelf(broken=True)
    export = PeriodicExport(recorder, [Shelf(), shelf], interval_s=float("inf"), idle_s=60)
    recorder.record(RECORD)
    export.force_flush()
    clock.advance(61 * NS_PER_S)
    export.force_flush()
    undelivered = recorder.snapshot().count()
    shelf.broken = False
    export.force_flush()
    export.shutdown()

    assert (undelivered, recorder.snapshot().count()) == (1, 0)


@pytest.mark.parametrize("records", [0, 1])
def test_histograms_lost_at_shutdown_are_logged(
    records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One line, and none if no value was recorded."""
    recorder = Recorder(SystemClock())
    export = PeriodicExport(recorder, [Shelf(broken=True), Shelf()], interval_s=float("inf"))
    for _ in range(records):
        recorder.record(RECORD)

    export.shutdown()

    lines = [record.getMessage() for record in caplog.records]
    lost = "Dropped histograms that could not be exported before shutdown"
    assert lines.count(lost) == records


def test_an_interval_without_values_is_no_sign_of_the_end_of_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing was sent, so it is unknown whether the receiver works again."""
    caplog.set_level("INFO")
    ExportErrors.failed("histograms", "the receiver is away")
    recorder = Recorder(SystemClock())
    export = PeriodicExport(recorder, [Shelf()], interval_s=float("inf"))
    lines: list[int] = []
    for _ in range(2):
        assert export.force_flush()
        lines.append([each.getMessage() for each in caplog.records].count(WORKS_AGAIN))
        recorder.record(RECORD)
    export.shutdown()

    assert lines == [0, 1]


def test_what_is_left_is_saved_while_a_network_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """A shutdown whose time is up hands the last interval to outlets that need no network."""
    go_on, hanging = threading.Event(), threading.Event()

    class Hanging(Shelf):
        def send(self, interval: Snapshot, *, last: bool) -> bool:
            hanging.set()
            go_on.wait()
            return super().send(interval, last=last)

    class File(Shelf):
        local = True

    network, file = Hanging(), File()
    recorder = Recorder(SystemClock())
    export = PeriodicExport(recorder, [network, file], interval_s=float("inf"))
    recorder.record(RECORD)
    export.force_flush(timeout_s=0)
    assert hanging.wait(30)
    recorder.record(RECORD)
    recorder.record(RECORD)

    finished = export.shutdown(timeout_s=0.01)
    go_on.set()

    assert not finished
    assert file.held[:2] == [1, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "Dropped histograms that could not be exported before shutdown"
    ]


def test_an_interrupt_at_shutdown_is_the_callers() -> None:
    """Who presses Ctrl-C while an outlet is shut down is not ignored."""

    class Interrupted(Shelf):
        def shutdown(self, timeout_s: float) -> None:
            super().shutdown(timeout_s)
            raise KeyboardInterrupt

    export = PeriodicExport(Recorder(SystemClock()), [Interrupted()], interval_s=float("inf"))

    with pytest.raises(KeyboardInterrupt):
        export.shutdown()
