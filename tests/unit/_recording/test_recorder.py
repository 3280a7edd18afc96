"""The recorder counts every value exactly once, whoever records and whoever looks."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest

from latspan._metrics import MetricValue
from latspan._recording import NoopRecorder, Recorder, RequestRecord, SeriesKey, Snapshot
from latspan._recording._recorder import OVERLOADED, PENDING_LIMIT
from latspan._segments import Kind, Outcome, Segment
from latspan._tokens import TokenCounts
from latspan.testing import ManualClock


def record(duration_ns: int = 1, name: str = "x") -> RequestRecord:
    return RequestRecord(
        name=name,
        kind=Kind.CALL,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=0,
        duration_ns=duration_ns,
        segments=(Segment("queue", 0, duration_ns),),
    )


def test_many_threads_lose_and_double_nothing() -> None:
    """Sixteen threads record while another takes intervals and snapshots."""
    recorder = Recorder(ManualClock())
    threads, records_each = 16, 1_500
    begin = threading.Barrier(threads + 1)

    def write() -> None:
        begin.wait()
        for number in range(records_each):
            recorder.record(record(number))

    writers = [threading.Thread(target=write) for _ in range(threads)]
    for writer in writers:
        writer.start()
    begin.wait()
    counts: list[int] = []
    while any(writer.is_alive() for writer in writers):
        counts.append(recorder.swap_interval().count())
        recorder.snapshot()
    for writer in writers:
        writer.join()
    counts.append(recorder.swap_interval().count())

    whole = recorder.snapshot()

    assert threads * records_each == sum(counts) == whole.count()
    assert threads * sum(range(records_each)) == whole.segment("queue").histogram.sum_ns


def test_an_interval_is_what_came_since_the_last_swap() -> None:
    """Intervals share no value, a snapshot holds them all, and each knows its span of time."""
    clock = ManualClock(epoch_offset_ns=1_000)
    recorder = Recorder(clock)
    clock.advance(10)
    recorder.record(record())
    first = recorder.swap_interval()
    clock.advance(10)
    recorder.record(record())
    recorder.record(record())
    second = recorder.swap_interval()
    empty = recorder.swap_interval()

    whole = recorder.snapshot()

    assert (first.count(), second.count(), empty.count(), whole.count()) == (1, 2, 0, 3)
    assert (first.start_epoch_ns, first.end_epoch_ns) == (1_000, 1_010)
    assert (second.start_epoch_ns, second.end_epoch_ns) == (1_010, 1_020)
    assert (whole.start_epoch_ns, whole.end_epoch_ns) == (1_000, 1_020)


def test_a_snapshot_never_changes() -> None:
    """What is recorded later is in later snapshots only."""
    recorder = Recorder(ManualClock())
    recorder.record(record())
    whole, interval = recorder.snapshot(), recorder.swap_interval()

    recorder.record(record())
    recorder.snapshot()

    assert (whole.count(), interval.count()) == (1, 1)


def test_a_wall_clock_that_is_set_back_never_ends_a_snapshot_before_its_start() -> None:
    """The end is then the start."""

    class SetBack(ManualClock):
        def epoch_offset_ns(self) -> int:
            return 1_000 - self.monotonic_ns() * 2

    clock = SetBack()
    recorder = Recorder(clock)
    clock.advance(100)

    assert recorder.snapshot().end_epoch_ns == recorder.swap_interval().end_epoch_ns == 1_000


def test_the_latest_records_are_kept_on_demand() -> None:
    """None by default, as many as asked for, or all."""
    recorders = [Recorder(ManualClock(), keep=keep) for keep in (0, 2, None)]
    for recorder in recorders:
        for name in "abc":
            recorder.record(record(name=name))

    kept = [[kept.name for kept in recorder.snapshot().records] for recorder in recorders]

    assert kept == [[], ["b", "c"], ["a", "b", "c"]]


def test_values_nobody_asks_for_are_still_bounded_in_memory() -> None:
    """Beyond the limit the recording thread counts what waits, so records do not pile up."""

    class Watched(RequestRecord):
        """Unlike its base, has room for a weak reference."""

    def record_watched(recorder: Recorder) -> weakref.ref[Watched]:
        finished = Watched(
            name="x",
            kind=Kind.CALL,
            outcome=Outcome.COMPLETED,
            start_epoch_ns=0,
            duration_ns=1,
            segments=(),
        )
        recorder.record(finished)
        return weakref.ref(finished)

    recorder = Recorder(ManualClock())
    watched = [record_watched(recorder) for _ in range(PENDING_LIMIT * 3)]

    assert sum(reference() is not None for reference in watched) <= PENDING_LIMIT
    assert recorder.snapshot().count() == PENDING_LIMIT * 3


def test_records_that_arrive_inside_a_snapshot_are_counted_in_the_next() -> None:
    """A finaliser may record on the very thread that holds the lock, without a deadlock."""

    class Recording(ManualClock):
        arriving = 0

        def epoch_offset_ns(self) -> int:
            for _ in range(self.arriving):
                recorder.record(record())
            self.arriving = 0
            return 0

    clock = Recording()
    recorder = Recorder(clock)
    clock.arriving = PENDING_LIMIT * 2

    assert (recorder.snapshot().count(), recorder.snapshot().count()) == (0, PENDING_LIMIT * 2)


def test_equal_series_have_equal_keys() -> None:
    """The order in which attributes were said makes no other series."""
    recorder = Recorder(ManualClock())
    for attributes in (
        {"inference_path": "p", "model": "m"},
        {"model": "m", "inference_path": "p"},
    ):
        recorder.record(
            RequestRecord(
                name="x",
                kind=Kind.HTTP,
                outcome=Outcome.ERROR,
                start_epoch_ns=0,
                duration_ns=1,
                segments=(),
                attributes=attributes,
            )
        )

    assert [
        SeriesKey.of(
            "duration",
            {
                "kind": "http",
                "outcome": "error",
                "side": "client",
                "inference_path": "p",
                "model": "m",
                "source": "measured",
            },
        )
    ] == list(recorder.snapshot().series)


def with_model(model: str, duration_ns: int = 1, trace_id: int = 0) -> RequestRecord:
    return replace(
        record(duration_ns),
        attributes={"model": model},
        trace_id=trace_id,
        span_id=trace_id,
        sampled=trace_id > 0,
    )


def test_further_series_than_the_limit_are_counted_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No value is lost, the overflow can be seen, and the log says so once a metric."""
    recorder = Recorder(ManualClock(), cardinality_limit=3)
    for number in range(10):
        recorder.record(with_model(f"model-{number}"))
        recorder.record(with_model(f"model-{number}"))
    recorder.swap_interval()
    recorder.record(with_model("model-0"))
    recorder.record(with_model("model-9"))

    snapshot = recorder.snapshot()

    assert snapshot.count() == 22
    assert snapshot.count(overflow="true") == 15
    assert snapshot.count(model="model-0") == 3
    assert snapshot.count(model="model-9") == 0
    assert [f"{metric} has more than 3 series" for metric in ("segment", "duration")] == [
        message.partition(";")[0] for message in caplog.messages
    ]


def test_a_series_that_was_forgotten_begins_anew() -> None:
    """Idle series make room, and when they come again their start says since when they count."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder = Recorder(clock, cardinality_limit=2)
    for model in ("busy", "idle"):
        recorder.record(with_model(model))
    clock.advance(10)
    recorder.swap_interval()
    recorder.record(with_model("busy"))
    clock.advance(10)
    recorder.swap_interval()

    forgotten = recorder.forget_idle(before_epoch_ns=20)
    recorder.record(with_model("new"))
    recorder.record(with_model("busy"))
    clock.advance(10)
    snapshot = recorder.snapshot()

    starts = {
        key.attribute("model"): series.start_epoch_ns
        for key, series in snapshot.series.items()
        if key.metric == "duration"
    }
    assert forgotten == 2
    assert starts == {"busy": 0, "new": 20}
    assert snapshot.count(model="busy") == 3


def test_a_series_that_is_being_counted_is_not_idle() -> None:
    """Nothing that waits for the next interval is cut off from its total."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder = Recorder(clock)
    recorder.record(record())
    recorder.swap_interval()
    clock.advance(10)
    recorder.record(record())

    assert recorder.forget_idle(before_epoch_ns=10) == 0
    assert recorder.snapshot().count() == 2


def test_an_interval_names_its_slowest_request_and_a_typical_one() -> None:
    """The trace ids are those of requests whose traces are kept, in every series."""
    recorder = Recorder(ManualClock())
    for number in range(1, 100):
        recorder.record(with_model("m", number, trace_id=number))
    recorder.record(with_model("m", 1_000))

    interval = recorder.swap_interval()
    next_interval = recorder.swap_interval()

    for series in interval.series.values():
        slowest, typical = series.exemplars
        assert (slowest.value, slowest.trace_id, slowest.span_id) == (99, 99, 99)
        assert 1 < typical.value < 99
        assert typical.trace_id == typical.value == typical.epoch_ns
    assert not next_interval.series
    assert not any(series.exemplars for series in recorder.snapshot().series.values())


def test_a_request_whose_trace_is_not_kept_is_no_example() -> None:
    """A link that leads nowhere is worse than none."""
    recorder = Recorder(ManualClock())
    recorder.record(with_model("m"))

    assert not any(series.exemplars for series in recorder.swap_interval().series.values())


@pytest.mark.parametrize("odd", ["\ud800", "m" * 1_000_000, "é" * 300])
def test_no_name_can_stop_an_export_or_fill_the_memory(odd: str) -> None:
    """A server says which model answered, whatever that is: keys are valid and short."""
    recorder = Recorder(ManualClock())
    recorder.record(with_model(odd))
    recorder.record(replace(with_model("m"), convention={"response_model": odd}))
    recorder.record(with_model(odd))

    for key in recorder.swap_interval().series:
        for text in key.attributes.values():
            assert len(text.encode()) <= 4 * 256
    stored = odd[:256].replace("\ud800", "?")
    assert recorder.snapshot().count(model=stored) == 2


def test_a_record_that_cannot_be_read_takes_no_other_with_it() -> None:
    """It is counted as such, and the others as ever."""
    recorder = Recorder(ManualClock())
    broken = replace(record(), attributes={"model": []})  # type: ignore[dict-item]
    for each in (record(), broken, record()):
        recorder.record(each)

    assert recorder.snapshot().count() == 2
    assert recorder.tally().unreadable == 1


BAD_VALUES: dict[str, dict[str, Any]] = {
    "a metric that is a fraction": {"metrics": {"time_to_first_token": MetricValue(0.5)}},  # type: ignore[arg-type]
    "a metric that is nothing": {"metrics": {"time_to_first_token": MetricValue(None)}},  # type: ignore[arg-type]
    "a gap that is text": {"chunk_gaps": (MetricValue(1), MetricValue("2"))},  # type: ignore[arg-type]
    "a gap of the conventions that is nothing": {
        "convention": {"model": "m"},
        "output_chunk_gaps_ns": (1, None),
    },
    "a count that is a fraction": {"tokens": TokenCounts(output=1.5)},  # type: ignore[arg-type]
    "an example without a trace": {"sampled": True, "trace_id": None},
}


@pytest.mark.parametrize("bad", BAD_VALUES)
def test_a_record_with_a_bad_value_costs_no_more_than_itself(
    bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All others are counted, nothing is raised, and the log says which one it was."""
    recorder = Recorder(ManualClock())
    good = replace(record(), sampled=True, trace_id=7, convention={"model": "m"})
    broken: RequestRecord = replace(good, name="broken", **BAD_VALUES[bad])
    for each in (good, broken, good, broken):
        recorder.record(each)

    assert recorder.snapshot().count() == 2
    assert recorder.tally().unreadable == 2
    assert [series.exemplars for series in recorder.swap_interval().series.values()]
    assert caplog.messages == ["latspan cannot read the record of broken"]


def test_what_is_logged_is_logged_without_the_lock(caplog: pytest.LogCaptureFixture) -> None:
    """An application's log may wait for a thread that takes a snapshot."""
    recorder = Recorder(ManualClock())
    snapshots: list[Snapshot] = []

    class TakingSnapshots(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
            other = threading.Thread(target=lambda: snapshots.append(recorder.snapshot()))
            other.daemon = True
            other.start()
            other.join(30)

    log, handler = logging.getLogger("latspan"), TakingSnapshots()
    log.addHandler(handler)
    try:
        recorder.record(record())
        recorder.record(replace(record(), **BAD_VALUES["a metric that is nothing"]))
        recorder.drain()
    finally:
        log.removeHandler(handler)

    assert [snapshot.count() for snapshot in snapshots] == [1]


def test_a_handler_that_interrupts_the_count_waits_for_no_thread() -> None:
    """Whoever else waits for the recorder meanwhile, it has its snapshot and its interval."""

    class Interrupting(dict[str, MetricValue]):
        """Has a handler run on the counting thread while another waits to swap."""

        def items(self) -> Any:
            if not other.ident:
                other.start()
                while not recorder._awaited:  # pyright: ignore[reportPrivateUsage]
                    os.sched_yield()
                inside.append(recorder.snapshot().count())
                inside.append(recorder.swap_interval().count())
                inside.append(recorder.forget_idle(2**63))
            return super().items()

    inside: list[int] = []
    swapped: list[Snapshot] = []
    recorder = Recorder(ManualClock())
    recorder.record(record())
    recorder.swap_interval()
    recorder.record(replace(record(), metrics=Interrupting(time_to_first_token=MetricValue(5))))
    other = threading.Thread(target=lambda: swapped.append(recorder.swap_interval()), daemon=True)
    counting = threading.Thread(target=recorder.drain, daemon=True)
    counting.start()
    counting.join(30)
    assert not counting.is_alive()
    other.join(30)

    assert inside == [1, 0, 0]
    assert [interval.count() for interval in swapped] == [1]
    assert recorder.snapshot().count() == 2


def test_a_snapshot_in_the_midst_of_counting_is_of_what_was_counted_before() -> None:
    """A signal handler asks on the very thread that counts: nothing half done is shown."""

    class Interrupting(dict[str, MetricValue]):
        """Has a handler run while the metrics are being read."""

        def items(self) -> Any:
            inside.append(recorder.snapshot().count())
            return super().items()

    inside: list[int] = []
    recorder = Recorder(ManualClock())
    recorder.record(record())
    recorder.swap_interval()
    for _ in range(3):
        recorder.record(record())
    metrics = Interrupting(time_to_first_token=MetricValue(5))
    recorder.record(replace(record(), metrics=metrics))

    assert recorder.snapshot().count() == 5
    assert inside == [1]
    assert list(recorder.snapshot().metric("ttft").histogram) == [(5, 1)]


def test_recording_does_not_wait_for_whoever_counts() -> None:
    """An application's thread is never held up by a snapshot that is being taken."""
    counting, recorded = threading.Event(), threading.Event()

    class Waiting(ManualClock):
        """Is asked for the time while a snapshot is being taken."""

        def epoch_offset_ns(self) -> int:
            if threading.current_thread() is thread:
                counting.set()
                assert recorded.wait(30)
            return 0

    snapshots: list[Snapshot] = []
    thread = threading.Thread(target=lambda: snapshots.append(recorder.snapshot()))
    recorder = Recorder(Waiting())
    thread.start()
    counting.wait()
    for _ in range(OVERLOADED):
        recorder.record(record())
    recorded.set()
    thread.join()

    assert [snapshot.count() for snapshot in snapshots] == [0]
    assert recorder.snapshot().count() == OVERLOADED


def test_a_noop_recorder_has_nothing_to_show() -> None:
    """Until latspan is configured, everything is forgotten."""
    recorder = NoopRecorder()

    recorder.record(record())

    assert (recorder.snapshot().count(), recorder.swap_interval().count()) == (0, 0)


def test_a_request_whose_trace_is_kept_later_is_an_example_then() -> None:
    """It is counted once, and an example only of series that have something to show."""
    recorder = Recorder(ManualClock())
    late = replace(with_model("m", 7, trace_id=5), sampled=False)
    recorder.record(late)
    recorder.exemplify(late)

    recorder.exemplify(with_model("another", 9, trace_id=6))

    for series in recorder.swap_interval().series.values():
        assert [each.trace_id for each in series.exemplars] == [5]
        assert series.histogram.count == 1


def test_an_example_of_an_earlier_interval_stands_in_where_there_is_no_other() -> None:
    """It was not counted in this one, however slow it was."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder = Recorder(clock)
    slow = replace(with_model("m", 1_000, trace_id=5), sampled=False)
    recorder.record(slow)
    clock.advance(2_000)
    recorder.swap_interval()
    shown: list[set[int]] = []
    for trace_id in (6, 0):
        example = with_model("m", 10, trace_id=trace_id)
        recorder.record(replace(example, start_epoch_ns=2_000, sampled=bool(trace_id)))
        recorder.exemplify(slow)
        interval = recorder.swap_interval()
        shown.append(
            {each.trace_id for series in interval.series.values() for each in series.exemplars}
        )

    assert shown == [{6}, {5}]


def test_an_example_that_cannot_be_read_takes_no_other_with_it() -> None:
    """Nor any value."""
    recorder = Recorder(ManualClock())
    kept = with_model("m", 7, trace_id=5)
    recorder.record(kept)
    odd: Any = None

    recorder.exemplify(odd)

    assert recorder.swap_interval().count() == 1
