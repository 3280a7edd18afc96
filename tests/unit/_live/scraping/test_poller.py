"""A poller keeps its interval, and ends when it is stopped."""

from __future__ import annotations

import os
import threading

import pytest
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from latspan._live.scraping._poller import Poller, next_due

DEADLINE_S = 30.0
NAME = "latspan-scraper-test"


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [(100, 100, 110), (100, 103, 110), (100, 110, 120), (100, 137, 140), (100, 99, 110)],
    ids=["at once", "late", "a whole interval late", "several missed", "early"],
)
def test_polls_neither_drift_nor_catch_up(due: int, now: int, expected: int) -> None:
    """Missed polls are skipped."""
    assert next_due(due, now, 10) == expected


def end(poller: Poller) -> None:
    """Stop the poller and wait for its thread."""
    poller.stop()
    for thread in threading.enumerate():
        if thread.name == NAME:
            thread.join(DEADLINE_S)


def polled(poller_of_three: list[threading.Event]) -> Poller:
    """Return a poller that sets one event per poll."""
    left = iter(poller_of_three)

    def poll() -> None:
        event = next(left, None)
        if event is not None:
            event.set()

    return Poller(NAME, poll, 0.001)


def test_a_poller_polls_until_it_is_stopped() -> None:
    """The first poll is immediate, a second start has no effect, and a stop is final."""
    events = [threading.Event() for _ in range(3)]
    poller = polled(events)
    poller.start()
    poller.start()

    assert all(event.wait(DEADLINE_S) for event in events)
    threads = [each for each in threading.enumerate() if each.name == NAME]
    assert [each.daemon for each in threads] == [True]
    end(poller)
    poller.start()
    assert not any(each.name == NAME for each in threading.enumerate())


def test_polls_are_not_traced() -> None:
    """Instrumentations of the libraries that a poll uses are suppressed."""
    enabled: list[bool] = []
    done = threading.Event()

    def poll() -> None:
        enabled.append(is_instrumentation_enabled())
        done.set()

    poller = Poller(NAME, poll, 0.001)
    poller.start()
    assert done.wait(DEADLINE_S)
    end(poller)

    assert not any(enabled)


def test_a_poll_that_raises_does_not_end_the_poller(caplog: pytest.LogCaptureFixture) -> None:
    """The error is a bug in latspan and is logged once."""
    again = threading.Event()
    failures: list[int] = []

    def poll() -> None:
        failures.append(1)
        if len(failures) > 2:
            again.set()
        raise KeyError(len(failures))

    poller = Poller(NAME, poll, 0.001)
    poller.start()
    assert again.wait(DEADLINE_S)
    end(poller)

    assert len(caplog.records) == 1


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("stopped", [False, True])
def test_a_forked_child_polls_after_start(*, stopped: bool) -> None:
    """Unless the poller had been stopped before the fork."""
    events = [threading.Event()]
    poller = polled(events)
    poller.start()
    assert events[0].wait(DEADLINE_S)
    if stopped:
        end(poller)
    child = os.fork()
    if not child:
        before = threading.active_count()
        poller.start()
        os._exit(0 if (before, threading.active_count()) == (1, 1 if stopped else 2) else 1)
    _, status = os.waitpid(child, 0)
    end(poller)

    assert os.waitstatus_to_exitcode(status) == 0
