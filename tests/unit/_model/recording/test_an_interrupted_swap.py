"""A signal handler or another thread that comes during a swap sees every value exactly once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from latspan._model.recording import Recorder, Snapshot, _recorder
from latspan.testing import ManualClock
from support.records import RECORD

_MODELS: Final = 10
"""Models, of two series each: more than are added to the totals at once."""


def _record(recorder: Recorder) -> None:
    for number in range(_MODELS):
        recorder.record(replace(RECORD, attributes={"model": f"m{number}"}))


def _swapping(recorder: Recorder, handler: Callable[[int], None]) -> tuple[Snapshot, int]:
    """Swap, with the handler before every line of the recorder; return the number of lines too."""
    lines, inside = 0, False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines, inside
        if frame.f_code.co_filename != _recorder.__file__:
            return None
        if event == "line" and not inside:
            lines, inside = lines + 1, True
            try:
                handler(lines)
            finally:
                inside = False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        interval = recorder.swap_interval()
    finally:
        sys.settrace(before)
    return interval, lines


def _counts(snapshot: Snapshot) -> set[int]:
    """Return how many values the series have."""
    return {series.histogram.count for series in snapshot.series.values()}


def test_a_snapshot_on_any_line_counts_each_value_once() -> None:
    """It has the earlier interval whole, and the values of the new one once or not yet."""
    recorder = Recorder(ManualClock())
    _record(recorder)
    recorder.swap_interval()
    _record(recorder)
    seen: list[set[int]] = []

    interval, _ = _swapping(
        recorder,
        lambda _: seen.extend(_counts(take()) for take in (recorder.snapshot, recorder.totals)),
    )

    assert set(map(frozenset, seen)) == {frozenset({1}), frozenset({2})}
    assert (_counts(interval), _counts(recorder.snapshot())) == ({1}, {2})


def test_a_swap_on_any_line_takes_no_value_twice() -> None:
    """Both swaps together take every value once, and the totals have all of them."""
    line, lines = 0, 1
    while line < lines:
        line += 1
        recorder = Recorder(ManualClock())
        _record(recorder)
        inner: list[Snapshot] = []

        def handle(
            number: int,
            recorder: Recorder = recorder,
            inner: list[Snapshot] = inner,
            at: int = line,
        ) -> None:
            if number == at:
                _record(recorder)
                inner.append(recorder.swap_interval())

        outer, lines = _swapping(recorder, handle)
        rest = recorder.swap_interval()

        taken = [outer, *inner, rest]
        assert sum(each.count() for each in taken) == 2 * _MODELS, line
        assert _counts(recorder.totals()) == {2}, line
        assert recorder.totals().count() == 2 * _MODELS, line


def test_intervals_of_one_instant_are_added_both() -> None:
    """A clock that stands still gives them different ends."""
    recorder = Recorder(ManualClock())
    ends: list[int] = []
    for _ in range(3):
        _record(recorder)
        ends.append(recorder.swap_interval().end_epoch_ns)

    assert len(set(ends)) == 3
    assert _counts(recorder.totals()) == {3}


def test_threads_that_swap_at_the_same_time_add_every_interval() -> None:
    """Each of them adds what the others have swapped and not added yet."""
    recorder, threads, swaps = Recorder(ManualClock()), 4, 25
    begin = threading.Barrier(threads)
    taken: list[int] = []

    def swap() -> None:
        begin.wait()
        for _ in range(swaps):
            _record(recorder)
            taken.append(recorder.swap_interval().count())

    swapping = [threading.Thread(target=swap) for _ in range(threads)]
    for each in swapping:
        each.start()
    for each in swapping:
        each.join()

    assert sum(taken) == recorder.totals().count() == threads * swaps * _MODELS
    assert _counts(recorder.totals()) == {threads * swaps}
