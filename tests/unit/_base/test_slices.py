"""latspan's threads pause when a slice is used up, and never where a caller would wait for them."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from itertools import pairwise

import pytest

from latspan._base.nanoseconds import NS_PER_S
from latspan._base.slices import PAUSE_S, SLICE_NS, PacedList, Slices, Turn, give_way, release
from latspan._live.otel.export import PeriodicExport
from latspan._live.process.worker import Worker
from latspan._model.recording import Recorder, Snapshot
from latspan.histogram import Histogram
from latspan.testing import ManualClock
from support.records import RECORD


class Paused:
    """Slices of a manual clock, and the pauses that they made."""

    def __init__(self, slice_ns: int = SLICE_NS) -> None:
        self.clock = ManualClock()
        self.pauses: list[float] = []
        self.slices = Slices(
            slice_ns, now_ns=self.clock.monotonic_ns, pause=self.pauses.append, turn=Turn()
        )


def test_a_thread_pauses_once_its_slice_is_used_up() -> None:
    """A pause begins the next slice."""
    paused = Paused()
    with paused.slices.here():
        made: list[int] = []
        for _ in range(6):
            paused.clock.advance(SLICE_NS // 2)
            give_way()
            made.append(len(paused.pauses))

    assert made == [0, 1, 1, 2, 2, 3]
    assert set(paused.pauses) == {PAUSE_S}


def test_a_thread_waits_until_another_one_has_stopped() -> None:
    """The other one's last slice began more than 1 ms ago; each wait takes 0.5 ms."""
    clock, turn, waits = ManualClock(), Turn(), list[float]()

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(round(seconds * NS_PER_S))

    first, second = (Slices(0, now_ns=clock.monotonic_ns, pause=wait, turn=turn) for _ in range(2))
    first.step()
    assert waits == [PAUSE_S]
    waits.clear()
    second.step()

    assert waits == [PAUSE_S, 0.0005, 0.0005]


def test_a_thread_that_computes_on_delays_another_one_for_five_milliseconds() -> None:
    """Then they take turns."""
    clock, turn, waits = ManualClock(), Turn(), list[float]()
    first = Slices(0, now_ns=clock.monotonic_ns, pause=lambda _: None, turn=turn)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if seconds:
            first.step()

    second = Slices(0, now_ns=clock.monotonic_ns, pause=wait, turn=turn)
    first.step()
    second.step()

    assert sum(waits) == pytest.approx(PAUSE_S + 0.005)


def test_other_threads_never_pause() -> None:
    """The same code may run on a caller's thread."""
    paused = Paused(0)
    with paused.slices.here():
        other = threading.Thread(target=give_way)
        other.start()
        other.join()
    give_way()

    assert not paused.pauses


def test_slices_of_another_owner_are_restored() -> None:
    """An inner block ends with the slices of the outer one."""
    outer, inner = Paused(0), Paused(0)
    with outer.slices.here():
        with inner.slices.here():
            give_way()
        give_way()

    assert (len(outer.pauses), len(inner.pauses)) == (1, 1)


def test_a_hurried_thread_no_longer_pauses() -> None:
    """A shutdown waits for the work, so pauses would only delay it."""
    paused = Paused(0)
    with paused.slices.here():
        give_way()
        paused.slices.hurry()
        give_way()

    assert len(paused.pauses) == 1


def test_a_loop_over_a_paced_list_pauses() -> None:
    """The encoders of the SDK loop over such lists."""
    paused = Paused(0)
    items = PacedList("abc")
    with paused.slices.here():
        looped = list(iter(items))

    assert looped == items == ["a", "b", "c"]
    assert len(paused.pauses) == 3


def test_a_worker_pauses_between_jobs_until_it_is_stopped() -> None:
    """The last jobs run without pauses."""
    paused = Paused(0)
    worker = Worker(slices=paused.slices)
    seen: list[int] = []
    for _ in range(3):
        worker.submit(lambda: seen.append(len(paused.pauses)))
    worker.drain(30)
    worker.submit(worker.hurry)
    worker.submit(lambda: seen.append(len(paused.pauses)))
    worker.submit(lambda: seen.append(len(paused.pauses)))
    worker.stop(30)

    first, hurried = seen[:3], seen[3:]
    assert first == [0, 1, 2]
    assert hurried[0] == hurried[1]


@pytest.mark.parametrize("count", [1, 40])
def test_the_recorder_is_free_whenever_a_thread_pauses(count: int) -> None:
    """Another thread takes a snapshot in every pause, and misses no value."""
    recorder = Recorder(ManualClock())
    taken: list[Snapshot] = []

    def pause(_: float) -> None:
        other = threading.Thread(target=lambda: taken.append(recorder.snapshot()), daemon=True)
        other.start()
        other.join(30)
        assert not other.is_alive()

    slices = Slices(0, pause=pause)
    with slices.here():
        for number in range(count):
            recorder.record(replace(RECORD, attributes={"model": f"m{number}"}))
        recorder.drain()
        interval = recorder.swap_interval()
        recorder.forget_idle(0)

    assert len(taken) >= 3
    assert {snapshot.count() for snapshot in taken} == {count}
    assert (interval.count(), recorder.totals().count(), recorder.snapshot().count()) == (
        count,
        count,
        count,
    )


def test_the_export_thread_works_in_slices() -> None:
    """Its exporters may give way; a shutdown ends the pauses."""
    paused = Paused(0)
    seen: list[int] = []

    class Exporter:
        local = True
        lost = 0

        def send(self, interval: Snapshot, *, last: bool) -> bool:  # noqa: ARG002
            before = len(paused.pauses)
            give_way()
            seen.append(len(paused.pauses) - before)
            return True

        def shutdown(self, timeout_s: float) -> None:
            """Nothing to let go of."""

    export = PeriodicExport(
        Recorder(ManualClock()), [Exporter()], interval_s=3600, slices=paused.slices
    )
    assert export.force_flush(30)
    assert export.shutdown(30)

    assert seen == [1, 0]


class Held:
    """Object that a weak reference can observe."""


def test_released_objects_are_freed_one_by_one() -> None:
    """The thread pauses between two of them, not after all of them."""
    items = [Held() for _ in range(3)]
    observed = [weakref.ref(item) for item in items]
    left: list[int] = []
    slices = Slices(0, pause=lambda _: left.append(sum(each() is not None for each in observed)))

    with slices.here():
        release(items)

    assert left == [2, 1, 0]
    assert items == []


def test_the_series_of_an_interval_are_freed_in_slices() -> None:
    """Neither the export thread nor the recorder frees all of them in one step."""
    recorder = Recorder(ManualClock())
    held: list[int] = []
    slices = Slices(
        0, pause=lambda _: held.append(sum(type(each) is Histogram for each in gc.get_objects()))
    )
    gc.freeze()  # So that the number of objects to look at is small.
    export = PeriodicExport(recorder, [], before=give_way, interval_s=3600, slices=slices)
    try:
        for _ in range(3):
            recorder.record(RECORD)
            assert export.force_flush(30)
        export.shutdown(30)
    finally:
        gc.unfreeze()

    assert max(held) > len(recorder.totals().series) > 1
    assert max(before - after for before, after in pairwise(held)) == 1
