"""The last export ends early if the receiver accepts nothing, and goes on while it accepts data."""

from __future__ import annotations

import threading

import pytest

from latspan._base.clock import ManualClock
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.otel.export import LastExport, SpanAnswer
from latspan._live.otel.export._sending import Sending

SILENCE_S = 2.0
DEADLINE_S = 30.0


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock()


def wait(seconds: float, clock: ManualClock) -> None:
    clock.advance(round(seconds * NS_PER_S))


def test_silence_ends_it(clock: ManualClock) -> None:
    """The time of silence begins with the last export."""
    last = LastExport(clock)
    wait(60, clock)
    last.begin(SILENCE_S)

    assert last.left_s == SILENCE_S
    wait(1.5, clock)
    assert last.left_s == 0.5
    wait(10, clock)
    assert last.left_s == 0
    assert not last.wait(lambda: False, DEADLINE_S)


def test_an_accepted_message_restarts_the_time(clock: ManualClock) -> None:
    """A slow receiver gets the time that it needs, within the timeout."""
    last = LastExport(clock)
    last.begin(SILENCE_S)
    for _ in range(10):
        wait(1.5, clock)
        last.note(reachable=True)

    assert last.left_s == SILENCE_S
    assert last.wait(lambda: True, DEADLINE_S)


def test_without_a_limit_only_the_timeout_counts(clock: ManualClock) -> None:
    """The caller of a shutdown chose how long to wait."""
    last = LastExport(clock)
    last.begin(None)
    last.note(reachable=False)
    wait(60, clock)

    assert last.left_s is None
    assert not last.wait(lambda: False, 0)


@pytest.mark.parametrize("steps", [(0, 30, 0, 0), (0, 30)], ids=["goes on", "is done on waking"])
@pytest.mark.parametrize("silence_s", [SILENCE_S, None])
def test_the_time_in_which_the_process_stood_still_does_not_count(
    clock: ManualClock, silence_s: float | None, steps: tuple[int, ...]
) -> None:
    """No receiver can answer a stopped process. Exports that end one after the other share it."""
    spans, metrics = LastExport(clock), LastExport(clock)
    left = list(steps)

    def is_done_after_a_stop() -> bool:
        wait(left.pop(0), clock)
        return not left

    for each in (spans, metrics):
        each.begin(silence_s)

    assert metrics.wait(is_done_after_a_stop, SILENCE_S)
    assert spans.left_s is None or spans.left_s > SILENCE_S / 2
    wait(10, clock)
    assert spans.left_s in {None, 0}


@pytest.mark.parametrize(
    ("before", "left_s"), [([], 0), ([True], SILENCE_S), ([True, False], 0), ([False, True], 2)]
)
def test_a_failure_ends_it_unless_the_receiver_was_reachable(
    clock: ManualClock, before: list[bool], left_s: float
) -> None:
    """A receiver that accepted the last message before may be restarting."""
    last = LastExport(clock)
    for reachable in before:
        last.note(reachable=reachable)
    last.begin(SILENCE_S)

    assert last.left_s == SILENCE_S
    last.note(reachable=False)
    assert last.left_s == left_s


@pytest.mark.parametrize("reachable", [True, False])
def test_the_thread_that_waits_is_woken(reachable: bool) -> None:
    """When the export is done, or when it is given up."""
    last = LastExport()
    last.begin(DEADLINE_S)
    done = threading.Event()

    def end() -> None:
        if reachable:
            done.set()
            last.notify()
        else:
            last.note(reachable=False)

    thread = threading.Thread(target=end)
    thread.start()

    assert last.wait(done.is_set, DEADLINE_S) == reachable
    thread.join()


def test_results_count_for_the_thread_that_sends(clock: ManualClock) -> None:
    """Each export has a limit of its own: spans may arrive while metrics do not."""
    spans, metrics = LastExport(clock), LastExport(clock)
    for each in (spans, metrics):
        each.begin(SILENCE_S)
    with metrics.observing():
        with spans.observing():
            wait(1, clock)
            assert Sending("spans").send(lambda: True) == SpanAnswer(taken=True)

        assert (spans.left_s, metrics.left_s) == (2, 1)
        assert Sending("metrics").send(lambda: False).again

    assert (spans.left_s, metrics.left_s) == (2, 0)
    LastExport.failed()
    assert spans.left_s == 2
