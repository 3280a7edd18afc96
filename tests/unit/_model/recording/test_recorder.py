"""The recorder counts every value exactly once, under concurrent writes and reads."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from dataclasses import replace
from typing import Any

import pytest

from latspan._model.metrics import MetricValue
from latspan._model.recording import Recorder, RequestRecord, Snapshot, key_of
from latspan._model.recording._recorder import DRAIN_THRESHOLD, OVERLOADED
from latspan._model.segments import Kind, Outcome, Segment
from latspan._model.tokens import TokenCounts
from latspan.errors import ConfigError, UnknownNameError
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


def test_concurrent_threads_neither_lose_nor_duplicate_values() -> None:
    """Sixteen threads record while another thread swaps intervals and takes snapshots."""
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


def test_an_interval_holds_the_values_since_the_last_swap() -> None:
    """Intervals do not overlap, a snapshot includes all of them, and each has its own time span."""
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


def test_totals_are_of_their_recorder() -> None:
    """They can be subtracted from its snapshots, and from no others, whatever these contain."""
    recorder, other = Recorder(ManualClock()), Recorder(ManualClock())
    for each in (recorder, other):
        each.record(record())
        each.swap_interval()
    totals = recorder.totals()
    recorder.record(record())

    assert recorder.snapshot().diff(totals).count() == 1
    with pytest.raises(ConfigError, match="is of another recorder"):
        other.snapshot().diff(totals)


def test_a_snapshot_never_changes() -> None:
    """Later records appear only in later snapshots."""
    recorder = Recorder(ManualClock())
    recorder.record(record())
    whole, interval = recorder.snapshot(), recorder.swap_interval()

    recorder.record(record())
    recorder.snapshot()

    assert (whole.count(), interval.count()) == (1, 1)


def test_a_snapshot_never_ends_before_its_start_if_the_wall_clock_is_set_back() -> None:
    """Its end is then equal to its start."""

    class SetBack(ManualClock):
        def epoch_offset_ns(self) -> int:
            return 1_000 - self.monotonic_ns() * 2

    clock = SetBack()
    recorder = Recorder(clock)
    clock.advance(100)

    assert recorder.snapshot().end_epoch_ns == recorder.swap_interval().end_epoch_ns == 1_000


def test_the_latest_records_are_kept_if_requested() -> None:
    """None by default, a given number, or all."""
    recorders = [Recorder(ManualClock(), keep=keep) for keep in (0, 2, None)]
    for recorder in recorders:
        for name in "abc":
            recorder.record(record(name=name))

    kept = [[kept.name for kept in recorder.snapshot().records] for recorder in recorders]

    assert kept == [[], ["b", "c"], ["a", "b", "c"]]


def test_pending_records_are_bounded_without_any_reader() -> None:
    """Past the limit, the recording thread counts the pending records, so they do not pile up."""

    class Watched(RequestRecord):
        """A record that can be weakly referenced, unlike its base class."""

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
    watched = [record_watched(recorder) for _ in range(DRAIN_THRESHOLD * 3)]

    assert sum(reference() is not None for reference in watched) <= DRAIN_THRESHOLD
    assert recorder.snapshot().count() == DRAIN_THRESHOLD * 3


def test_records_that_arrive_during_a_snapshot_are_counted_in_the_next_one() -> None:
    """A finaliser may record on the thread that holds the lock, without a deadlock."""

    class Recording(ManualClock):
        arriving = 0

        def epoch_offset_ns(self) -> int:
            for _ in range(self.arriving):
                recorder.record(record())
            self.arriving = 0
            return 0

    clock = Recording()
    recorder = Recorder(clock)
    clock.arriving = DRAIN_THRESHOLD * 2

    assert (recorder.snapshot().count(), recorder.snapshot().count()) == (0, DRAIN_THRESHOLD * 2)


def test_equal_series_have_equal_keys() -> None:
    """The order of the attributes does not create another series."""
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
        key_of(
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


def test_series_past_the_cardinality_limit_are_counted_in_one_overflow_series(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No value is lost, the overflow is visible, and one log line is written per metric."""
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
    with pytest.raises(UnknownNameError, match='counted together, under overflow="true"'):
        snapshot.count(model="model-9")
    assert [f"{metric} has more than 3 series" for metric in ("segment", "duration")] == [
        message.partition(";")[0] for message in caplog.messages
    ]


def test_a_forgotten_series_starts_again() -> None:
    """Idle series make room for others; a series that returns has a new start time."""
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


def test_a_series_with_pending_values_is_not_idle() -> None:
    """Values of the next interval are not separated from their total."""
    clock = ManualClock(epoch_offset_ns=0)
    recorder = Recorder(clock)
    recorder.record(record())
    recorder.swap_interval()
    clock.advance(10)
    recorder.record(record())

    assert recorder.forget_idle(before_epoch_ns=10) == 0
    assert recorder.snapshot().count() == 2


def test_an_interval_has_its_slowest_request_and_a_typical_one_as_exemplars() -> None:
    """In every series, exemplars refer to requests whose traces are kept."""
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


def test_a_request_whose_trace_is_not_kept_is_not_an_exemplar() -> None:
    """A link to a missing trace is worse than no link."""
    recorder = Recorder(ManualClock())
    recorder.record(with_model("m"))

    assert not any(series.exemplars for series in recorder.swap_interval().series.values())


@pytest.mark.parametrize("odd", ["\ud800", "m" * 1_000_000, "é" * 300])
def test_odd_names_neither_stop_an_export_nor_fill_the_memory(odd: str) -> None:
    """Servers report model names in their responses: keys stay valid and short for any name."""
    recorder = Recorder(ManualClock())
    recorder.record(with_model(odd))
    recorder.record(replace(with_model("m"), convention={"response_model": odd}))
    recorder.record(with_model(odd))

    for key in recorder.swap_interval().series:
        for text in key.attributes.values():
            assert len(text.encode()) <= 4 * 256
    stored = odd[:256].replace("\ud800", "?")
    assert recorder.snapshot().count(model=stored) == 2


def test_an_unreadable_record_does_not_affect_other_records() -> None:
    """It is counted as unreadable."""
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
def test_a_record_with_a_bad_value_affects_only_itself(
    bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All other records are counted, nothing is raised, and the log line names the record."""
    recorder = Recorder(ManualClock())
    good = replace(record(), sampled=True, trace_id=7, convention={"model": "m"})
    broken: RequestRecord = replace(good, name="broken", **BAD_VALUES[bad])
    for each in (good, broken, good, broken):
        recorder.record(each)

    assert recorder.snapshot().count() == 2
    assert recorder.tally().unreadable == 2
    assert [series.exemplars for series in recorder.swap_interval().series.values()]
    assert caplog.messages == ["latspan cannot read the record of broken"]


def test_the_lock_is_not_held_while_logging(caplog: pytest.LogCaptureFixture) -> None:
    """A log handler of the application may wait for a thread that takes a snapshot."""
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


def test_a_handler_that_interrupts_counting_waits_for_no_thread() -> None:
    """It gets its snapshot and its interval, even if another thread waits for the recorder."""

    class Interrupting(dict[str, MetricValue]):
        """Run a handler on the counting thread while another thread waits to swap."""

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


def test_a_snapshot_taken_during_counting_shows_only_complete_counts() -> None:
    """A signal handler may take it on the counting thread."""

    class Interrupting(dict[str, MetricValue]):
        """Run a handler while the metrics are being read."""

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


def test_recording_does_not_wait_for_the_counting_thread() -> None:
    """A snapshot in progress does not block the application's threads."""
    counting, recorded = threading.Event(), threading.Event()

    class Waiting(ManualClock):
        """Block a snapshot in progress when it reads the time."""

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


def test_a_request_becomes_an_exemplar_if_its_trace_is_kept_later() -> None:
    """It is counted once, and is an exemplar only of series with values in this interval."""
    recorder = Recorder(ManualClock())
    late = replace(with_model("m", 7, trace_id=5), sampled=False)
    recorder.record(late)
    recorder.add_exemplar(late)

    recorder.add_exemplar(with_model("another", 9, trace_id=6))

    for series in recorder.swap_interval().series.values():
        assert [each.trace_id for each in series.exemplars] == [5]
        assert series.histogram.count == 1


def test_an_exemplar_of_an_earlier_interval_is_used_if_there_is_no_other() -> None:
    """A request of this interval has priority, even if it was faster."""
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
        recorder.add_exemplar(slow)
        interval = recorder.swap_interval()
        shown.append(
            {each.trace_id for series in interval.series.values() for each in series.exemplars}
        )

    assert shown == [{6}, {5}]


def test_an_unreadable_exemplar_does_not_affect_other_exemplars_or_values() -> None:
    recorder = Recorder(ManualClock())
    kept = with_model("m", 7, trace_id=5)
    recorder.record(kept)
    odd: Any = None

    recorder.add_exemplar(odd)

    assert recorder.swap_interval().count() == 1


def test_only_chosen_records_are_counted() -> None:
    """Those of a load test's warm-up are not, and leave no exemplar."""
    recorder = Recorder(ManualClock(), keep=None)
    recorder.count_only(lambda each: each.duration_ns > 10)
    for duration_ns in (5, 10, 15, 20):
        each = record(duration_ns)
        recorder.record(each)
        recorder.add_exemplar(each)

    snapshot = recorder.snapshot()

    assert [each.duration_ns for each in snapshot.records] == [15, 20]
    assert snapshot.count() == 2


def test_a_kept_record_of_a_long_stream_has_no_gaps() -> None:
    """30,000 chunks would take megabytes, and only the histograms need their gaps."""
    recorder, every = Recorder(ManualClock(), keep=2), Recorder(ManualClock(), keep=None)
    long = replace(record(10), chunk_gaps=(MetricValue(7),) * 257, output_chunk_gaps_ns=(7,) * 257)
    short = replace(long, chunk_gaps=long.chunk_gaps[:256], output_chunk_gaps_ns=(7,) * 256)
    for each in (recorder, every):
        each.record(long)
        each.record(short)

    snapshot = recorder.snapshot()

    assert [len(each.chunk_gaps) for each in snapshot.records] == [0, 256]
    assert [len(each.output_chunk_gaps_ns) for each in snapshot.records] == [0, 256]
    assert snapshot.metric("chunk_gap").count() == 257 + 256
    assert every.snapshot().records == (long, short)
