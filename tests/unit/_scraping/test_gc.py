"""Pauses of the collector are counted exactly, those of the request and no others."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from latspan._scraping._gc import GcPauses
from latspan.testing import ManualClock


class Collector:
    """A clock and a collector that pauses as it is told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pauses = GcPauses(self.clock.monotonic_ns)

    def pause(self, duration_ns: int) -> None:
        """Collect once."""
        self.pauses._heard("start", {})  # pyright: ignore[reportPrivateUsage]
        self.clock.advance(duration_ns)
        self.pauses._heard("stop", {})  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(autouse=True)
def no_other_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_pauses_before_and_after_are_not_of_the_request() -> None:
    """What followed until somebody asked is taken off again."""
    collector = Collector()
    collector.pause(7)
    before_ns = collector.pauses.total_ns
    collector.clock.advance(100)
    collector.pause(3)
    collector.pause(2)
    done_ns = collector.clock.monotonic_ns()
    collector.clock.advance(100)
    collector.pause(50)

    assert collector.pauses.during(before_ns, done_ns) == 5


def test_without_a_pause_it_is_zero() -> None:
    """That is known."""
    collector = Collector()
    assert collector.pauses.during(0, 5) == 0
    collector.pause(7)

    assert collector.pauses.during(collector.pauses.total_ns, 10) == 0


def test_a_pause_that_outlasts_the_request_counts_up_to_its_end() -> None:
    """Another thread may have ended it."""
    collector = Collector()
    collector.pause(10)

    assert collector.pauses.during(0, 4) == 4


def test_after_too_many_pauses_it_is_unknown() -> None:
    """Those after the request cannot be told from those in it."""
    collector = Collector()
    for _ in range(5000):
        collector.pause(1)

    assert collector.pauses.during(0, 10) is None
    assert collector.pauses.during(0, 5000) == 5000


def test_it_hears_the_real_collector_until_it_is_stopped() -> None:
    """And is no longer among the callbacks then."""
    clock = ManualClock()
    pauses = GcPauses(lambda: clock.advance(1) or clock.monotonic_ns())
    callbacks = list(gc.callbacks)
    pauses.start()
    pauses.start()
    gc.collect()
    assert pauses.total_ns == 1
    pauses.stop()
    pauses.stop()
    gc.collect()

    assert pauses.total_ns == 1
    assert gc.callbacks == callbacks
