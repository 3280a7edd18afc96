"""Garbage collection pauses are measured exactly and assigned to the request that was open."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from latspan._live.scraping._gc import GcPauses
from latspan.testing import ManualClock


class Collector:
    """A manual clock, and a garbage collector with pauses of a given length."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pauses = GcPauses(self.clock.monotonic_ns)

    def pause(self, duration_ns: int) -> None:
        """Run one collection of this length."""
        self.pauses._on_collection("start", {})  # pyright: ignore[reportPrivateUsage]
        self.clock.advance(duration_ns)
        self.pauses._on_collection("stop", {})  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(autouse=True)
def no_other_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_pauses_before_and_after_a_request_are_excluded() -> None:
    """Pauses between the end of the request and the query are subtracted."""
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


def test_a_request_without_pauses_has_zero() -> None:
    """Zero is a measured value here."""
    collector = Collector()
    assert collector.pauses.during(0, 5) == 0
    collector.pause(7)

    assert collector.pauses.during(collector.pauses.total_ns, 10) == 0


def test_a_pause_longer_than_the_request_is_cut_at_its_end() -> None:
    """Another thread may have ended the request."""
    collector = Collector()
    collector.pause(10)

    assert collector.pauses.during(0, 4) == 4


def test_after_too_many_pauses_the_sum_is_unknown() -> None:
    """Pauses after the request cannot be distinguished from those during it."""
    collector = Collector()
    for _ in range(5000):
        collector.pause(1)

    assert collector.pauses.during(0, 10) is None
    assert collector.pauses.during(0, 5000) == 5000


def test_real_collections_are_measured_until_stop() -> None:
    """The callback is removed then."""
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
