"""The recorder counts every value exactly once, whoever records and whoever looks."""

from __future__ import annotations

import threading
import weakref

from latspan.clock import ManualClock
from latspan.recording import NoopRecorder, Recorder, RequestRecord, SeriesKey
from latspan.recording._recorder import PENDING_LIMIT
from latspan.segments import Kind, Outcome, Segment


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
    for attributes in ({"path": "p", "model": "m"}, {"model": "m", "path": "p"}):
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
        SeriesKey(
            "duration",
            Kind.HTTP,
            (
                ("model", "m"),
                ("outcome", "error"),
                ("path", "p"),
                ("side", "client"),
                ("source", "measured"),
            ),
        )
    ] == list(recorder.snapshot().series)


def test_a_noop_recorder_has_nothing_to_show() -> None:
    """Until latspan is configured, everything is forgotten."""
    recorder = NoopRecorder()

    recorder.record(record())

    assert (recorder.snapshot().count(), recorder.swap_interval().count()) == (0, 0)
