"""Blocks of an event loop are detected, and the timer keeps neither loop nor context alive."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

import pytest

from latspan._live.process.event_loop import EventLoops, LoopWatch
from latspan.testing import ManualClock

MS = 1_000_000
PERIOD = 10 * MS


class Loop(asyncio.AbstractEventLoop):
    """A loop that runs due callbacks only when ``turn`` is called."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], object]] = []
        self.soon: list[Callable[[], object]] = []

    def is_closed(self) -> bool:
        """Return ``False``."""
        return False

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """Store the callback."""
        assert delay == PERIOD / 1e9
        assert context is not None
        self.timers.append(lambda: context.run(callback, *args))

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Any:
        """Store the callback for the next turn."""
        assert context is not None
        self.soon.append(lambda: context.run(callback, *args))

    def fire(self) -> None:
        """Run the stored timers."""
        timers, self.timers = self.timers, []
        for run in timers:
            run()

    def turn(self) -> None:
        """Run the callbacks of one turn."""
        soon, self.soon = self.soon, []
        for run in soon:
            run()


class Rig:
    """A timer on such a loop, with one open request."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loop = Loop()
        self.loops = EventLoops(self.clock.monotonic_ns)
        self.request = self.watch()

    def watch(self) -> LoopWatch:
        """Watch the loop, as a request on it does."""
        asyncio.events._set_running_loop(self.loop)
        try:
            watch = self.loops.watch()
        finally:
            asyncio.events._set_running_loop(None)
        assert watch is not None
        return watch

    def tick(self, late_ns: int = 0, turn_ns: int = 0) -> None:
        """Run the timer late, and the turns after it, each of which takes ``turn_ns``."""
        self.clock.advance(PERIOD + late_ns)
        self.loop.fire()
        while self.loop.soon:
            self.clock.advance(turn_ns)
            self.loop.turn()

    def blocks(self, start_ns: int = 0, done_ns: int | None = None) -> list[tuple[int, int]]:
        """Return the blocks between two instants, up to now if not given, in milliseconds."""
        done_ns = self.clock.monotonic_ns() if done_ns is None else done_ns
        return [
            (begin_ns // MS, end_ns // MS)
            for begin_ns, end_ns in self.request.blocks(start_ns, done_ns)
        ]


def test_the_greatest_lag_during_a_request_is_returned() -> None:
    rig = Rig()
    for late_ns in (0, 30 * MS, 2 * MS):
        rig.tick(late_ns)

    assert rig.request.greatest_lag(0, rig.clock.monotonic_ns()) == 30 * MS


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

    assert rig.request.greatest_lag(start_ms * MS, done_ms * MS) == expected_ns


def test_a_block_that_lasts_until_the_end_is_measured() -> None:
    """The timer has not run yet."""
    rig = Rig()
    rig.clock.advance(50 * MS)

    assert rig.request.greatest_lag(0, rig.clock.monotonic_ns()) == 40 * MS


def test_lag_is_unknown_before_the_timer_is_due() -> None:
    """Without an observation there is no zero."""
    assert Rig().watch().greatest_lag(0, PERIOD) is None


def test_of_older_ticks_only_the_late_ones_are_kept() -> None:
    """Only these can be the greatest."""
    rig = Rig()
    rig.tick(7 * MS)
    for _ in range(2000):
        rig.tick()

    assert rig.request.greatest_lag(0, rig.clock.monotonic_ns()) == 7 * MS


@pytest.mark.parametrize("how", ["ended", "forgotten", "stopped"])
def test_the_timer_stops_if_no_request_is_open(how: str) -> None:
    """It runs at most once more."""
    rig = Rig()
    rig.tick()
    if how == "ended":
        rig.request.end()
    elif how == "forgotten":
        del rig.request
        gc.collect()
    else:
        rig.loops.stop()
    rig.tick()

    assert rig.loop.timers == []


def test_all_requests_share_one_timer() -> None:
    rig = Rig()
    others = [rig.watch() for _ in range(5)]

    assert len(rig.loop.timers) == 1
    assert len({id(other) for other in others}) == 5


def test_a_late_tick_is_a_block_until_the_loop_has_caught_up() -> None:
    """The block lasts from the instant at which the tick was due to the end of twelve turns."""
    rig = Rig()
    rig.tick()
    rig.tick(late_ns=110 * MS, turn_ns=2 * MS)

    assert rig.blocks() == [(20, 154)]


def test_a_tick_that_is_a_little_late_is_no_block() -> None:
    """Timers of a loop and of the kernel are that imprecise."""
    rig = Rig()
    rig.tick(late_ns=5 * MS - 1)

    assert rig.blocks() == []


def test_a_late_tick_while_the_loop_catches_up_continues_the_block() -> None:
    """Otherwise the instants between the two would count as the loop running."""
    rig = Rig()
    rig.clock.advance(PERIOD + 50 * MS)
    rig.loop.fire()
    rig.loop.turn()
    rig.tick(late_ns=30 * MS)

    assert rig.blocks() == [(10, 100)]


def test_a_block_is_known_before_it_is_over() -> None:
    """A call may end in a block: before the tick, or while the loop catches up."""
    rig = Rig()
    rig.clock.advance(PERIOD + 4 * MS)
    assert rig.blocks() == []
    rig.clock.advance(46 * MS)
    assert rig.blocks() == [(10, 60)]
    rig.loop.fire()
    rig.clock.advance(3 * MS)

    assert rig.blocks() == [(10, 63)]


def test_only_blocks_between_the_two_instants_are_returned() -> None:
    """Earlier ones end before the start, later ones begin after the end."""
    rig = Rig()
    for _ in range(3):
        rig.tick(late_ns=20 * MS)

    assert rig.blocks(30 * MS, 70 * MS) == [(40, 60)]


def test_a_step_returns_when_something_else_last_ran() -> None:
    """Steps of the same task in between do not count; on another thread nothing is known."""
    clock = ManualClock()
    loops = EventLoops(clock.monotonic_ns)

    async def other(watch: LoopWatch) -> None:
        # On a slow machine, the timer's own step may follow.
        clock.advance(50)
        watch.report_step(50)

    async def main() -> list[int | None]:
        watch = loops.watch()
        assert watch is not None
        steps = [watch.report_step(10), watch.report_step(20)]
        await asyncio.create_task(other(watch))
        steps += [watch.report_step(60), watch.report_step(70)]
        return [*steps, await asyncio.to_thread(watch.report_step, 80)]

    assert asyncio.run(main()) == [None, None, 50, 50, None]


def test_the_timer_is_something_else() -> None:
    """Each tick, and each turn in which the loop catches up, is a step of the timer."""
    rig = Rig()

    def step() -> int | None:
        asyncio.events._set_running_loop(rig.loop)
        try:
            return rig.request.report_step(rig.clock.monotonic_ns())
        finally:
            asyncio.events._set_running_loop(None)

    assert step() is None
    rig.tick()
    assert step() == 10 * MS
    rig.tick(late_ns=110 * MS, turn_ns=2 * MS)
    assert step() == 154 * MS


variable: ContextVar[object] = ContextVar("variable")


class Request:
    """A placeholder for what a context refers to."""


def test_the_timer_keeps_neither_loop_nor_context_alive() -> None:
    """It creates no task, and references neither the loop nor the current context strongly."""
    loops = EventLoops(ManualClock().monotonic_ns)
    held: list[weakref.ref[Any]] = []

    async def main() -> LoopWatch:
        current = Request()
        variable.set(current)
        watch = loops.watch()
        assert watch is not None
        assert asyncio.all_tasks() == {asyncio.current_task()}
        held.extend((weakref.ref(asyncio.get_running_loop()), weakref.ref(current)))
        return watch

    watch = asyncio.run(main(), debug=True)
    gc.collect()

    assert [each() for each in held] == [None, None]
    assert watch.greatest_lag(0, 0) is None


def test_without_a_running_loop_there_is_no_timer() -> None:
    """Nor after ``stop``."""
    loops = EventLoops(ManualClock().monotonic_ns)
    assert loops.watch() is None
    loops.stop()

    async def main() -> LoopWatch | None:
        return loops.watch()

    assert asyncio.run(main()) is None


def test_a_loop_without_usable_timers_is_not_watched() -> None:
    """A loop of another kind may accept no context; neither the request nor the loop notices."""

    class Other(Loop):
        def call_later(self, delay: float, callback: Any, *args: Any) -> Any:  # type: ignore[override]
            raise AssertionError(delay, callback, args)

    loops = EventLoops(ManualClock().monotonic_ns)
    asyncio.events._set_running_loop(Other())
    try:
        assert [loops.watch(), loops.watch()] == [None, None]
    finally:
        asyncio.events._set_running_loop(None)


def test_a_loop_that_stood_still_between_two_requests_delayed_neither() -> None:
    """The tick of the first one runs late, in the second."""
    rig = Rig()
    rig.request.end()
    rig.clock.advance(500 * MS)
    rig.request = rig.watch()
    start_ns = rig.clock.monotonic_ns()
    rig.clock.advance(MS)
    rig.loop.fire()

    assert rig.blocks(start_ns) == []


def test_a_request_does_not_inherit_the_block_of_an_earlier_one() -> None:
    """The loop was stopped before it had caught up; a block of its own is found."""
    rig = Rig()
    rig.clock.advance(PERIOD + 50 * MS)
    rig.loop.fire()
    rig.request.end()
    rig.clock.advance(500 * MS)
    rig.request = rig.watch()
    start_ns = rig.clock.monotonic_ns()
    while rig.loop.soon:
        rig.loop.turn()

    assert rig.blocks(start_ns) == []
    rig.loop.fire()
    rig.tick(30 * MS)
    assert [end - begin for begin, end in rig.blocks(start_ns)] == [30]
