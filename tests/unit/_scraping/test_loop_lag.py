"""The lag of an event loop is measured, and the timer keeps neither loop nor context alive."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

import pytest

from latspan._scraping._loop_lag import LoopLag, Ticks
from latspan.testing import ManualClock

MS = 1_000_000
PERIOD = 10 * MS


class Request:
    """A placeholder for an open request."""


class Loop(asyncio.AbstractEventLoop):
    """A loop that runs due callbacks only when ``turn`` is called."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def is_closed(self) -> bool:
        """Return ``False``."""
        return False

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """Store the callback."""
        assert delay == PERIOD / 1e9
        assert context is not None
        self.waiting.append(lambda: context.run(callback, *args))

    def turn(self) -> None:
        """Run the stored callbacks."""
        waiting, self.waiting = self.waiting, []
        for run in waiting:
            run()


class Rig:
    """A timer on such a loop, with one open request."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = Loop()
        self.ticks = Ticks(self.loop, self.clock.monotonic_ns)
        self.request = Request()
        self.ticks.begin(self.request)

    def tick(self, late_ns: int = 0) -> None:
        """Run the timer, late by ``late_ns``."""
        self.clock.advance(PERIOD + late_ns)
        self.loop.turn()


def test_the_greatest_lag_during_a_request_is_returned() -> None:
    rig = Rig()
    for late_ns in (0, 30 * MS, 2 * MS):
        rig.tick(late_ns)

    assert rig.ticks.greatest_lag(0, rig.clock.monotonic_ns()) == 30 * MS


@pytest.mark.parametrize(
    ("start_ms", "done_ms", "expected_ms"),
    [(0, 70, 50), (20, 70, 40), (0, 30, 20), (25, 40, 15), (60, 70, None), (0, 10, None)],
    ids=["all", "began late", "ended early", "inside", "afterwards", "before"],
)
def test_only_lag_during_the_request_counts(
    start_ms: int, done_ms: int, expected_ms: int | None
) -> None:
    """The timer was due after 10 ms and ran after 60 ms."""
    rig = Rig()
    rig.tick(50 * MS)
    expected_ns = None if expected_ms is None else expected_ms * MS

    assert rig.ticks.greatest_lag(start_ms * MS, done_ms * MS) == expected_ns


def test_a_block_that_lasts_until_the_end_is_measured() -> None:
    """The timer has not run yet."""
    rig = Rig()
    rig.clock.advance(50 * MS)

    assert rig.ticks.greatest_lag(0, rig.clock.monotonic_ns()) == 40 * MS


def test_lag_is_unknown_before_the_timer_is_due() -> None:
    """Without an observation there is no zero."""
    assert Rig().ticks.greatest_lag(0, PERIOD) is None


def test_of_older_ticks_only_the_late_ones_are_kept() -> None:
    """Only these can be the greatest."""
    rig = Rig()
    rig.tick(7 * MS)
    for _ in range(2000):
        rig.tick()

    assert rig.ticks.greatest_lag(0, rig.clock.monotonic_ns()) == 7 * MS


@pytest.mark.parametrize("how", ["ended", "forgotten", "stopped"])
def test_the_timer_stops_if_no_request_is_open(how: str) -> None:
    """It runs at most once more."""
    rig = Rig()
    rig.tick()
    if how == "ended":
        rig.ticks.end(rig.request)
    elif how == "forgotten":
        del rig.request
        gc.collect()
    else:
        rig.ticks.stop()
    rig.tick()

    assert rig.loop.waiting == []


def test_all_requests_share_one_timer() -> None:
    rig = Rig()
    others = [Request() for _ in range(5)]
    for other in others:
        rig.ticks.begin(other)

    assert len(rig.loop.waiting) == 1


variable: ContextVar[object] = ContextVar("variable")


def test_the_timer_keeps_neither_loop_nor_context_alive() -> None:
    """It creates no task, and references neither the loop nor the current context strongly."""
    lag = LoopLag(ManualClock().monotonic_ns)
    held: list[weakref.ref[Any]] = []

    async def main() -> Ticks:
        current = Request()
        variable.set(current)
        ticks = lag.here()
        assert ticks is not None
        assert lag.here() is ticks
        ticks.begin(asyncio.current_task())
        assert asyncio.all_tasks() == {asyncio.current_task()}
        held.extend((weakref.ref(asyncio.get_running_loop()), weakref.ref(current)))
        return ticks

    ticks = asyncio.run(main(), debug=True)
    gc.collect()

    assert [each() for each in held] == [None, None]
    assert ticks.greatest_lag(0, 0) is None


def test_without_a_running_loop_there_is_no_timer() -> None:
    """Nor after ``stop``."""
    lag = LoopLag(ManualClock().monotonic_ns)
    assert lag.here() is None
    lag.stop()

    async def main() -> Ticks | None:
        return lag.here()

    assert asyncio.run(main()) is None
