"""
Blocks of the asyncio loops on which requests run, detected by one timer per loop.

**Timer.** A loop's timer runs as long as a call, request or stage is open on that loop. It is due
every 10 ms; each of its runs is a *tick*. If it runs 5 ms late or more, the loop did not run in the
meantime: its thread executed a long callback or had no processor or interpreter lock.

**Catching up.** When the loop runs again, it still has to process everything that became ready
during the block. In each *turn*, asyncio runs callbacks of sockets, then due timers. A task that
one of these wakes continues in the next turn, and a task that awaits the first in the turn after.
uvloop runs timers first, and sockets after them. So after a late tick the loop runs twelve more
turns before the block is over. A block is recorded from the instant at which the tick was due to
the end of these turns. The loop may have stopped up to one period earlier.

**Own code.** A block delays a task only if the task waited. A task whose code runs at an instant in
a block may itself have blocked the loop until then. The timer alone does not show which is the
case, because tasks that were ready before the block run before the late tick. So each request,
stage and call reports its steps: the instants at which its code ran. If another task or the timer
ran on the loop between two steps of a task, the task was waiting at that time.

**Threads.** Ticks are recorded on the loop's thread and read on other threads, without a lock. A
tick is pending, then its block is open, then the block is kept. Each state is written before the
previous one is cleared, and a reader checks the states in that order, so that it finds each block
in at least one of them. It merges a block that it finds in two.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Final

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._base.newest import newest

if TYPE_CHECKING:
    # An application that does not use asyncio does not have to load it.
    from asyncio import AbstractEventLoop

_PERIOD_NS: Final = 10 * NS_PER_MS
"""
Period of the timer, in nanoseconds.

Every block of the loop that is longer than a period and a half is detected. The measured block is
too short by at most one period.
"""

_LATE_NS: Final = 5 * NS_PER_MS
"""Delay in nanoseconds from which a tick is late; it exceeds the resolution of a loop's timers."""
_TURNS: Final = 12
"""
Number of turns in which a loop catches up. The longest known chain of tasks has eight: anyio opens
a connection in a task of its own, inside a group, inside a time limit. A turn of an idle loop takes
some 20 µs.
"""
_RECENT: Final = 1024
"""
Number of the latest ticks, late or not, that are kept: about ten seconds. Of older ticks, only the
late ones are kept.
"""

_KEPT: Final = 4096
_TIMER: Final = 0
"""Stored instead of a task's identity for the timer's own callbacks; no object has it."""


class _Timer:
    """
    Timer on one event loop.

    The loop is referenced weakly, and the timer is a ``call_later``, not a task, so that it does
    not keep the loop from closing. It runs in a separate context, as it would otherwise keep a
    reference to the context of the request that started it.

    Args:
        loop: The event loop.
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    __slots__ = (
        "_blocks",
        "_context",
        "_current_task",
        "_due_ns",
        "_late",
        "_now",
        "_open_since_ns",
        "_other_ns",
        "_recent",
        "_running",
        "_step_ns",
        "_task",
        "_turns_left",
        "loop",
        "watches",
    )

    def __init__(self, loop: AbstractEventLoop, now: Callable[[], int]) -> None:
        self.loop = weakref.ref(loop)
        asyncio = sys.modules["asyncio"]
        # Unlike `get_running_loop`, it returns `None` without a loop; raising would cost more.
        self._running = asyncio._get_running_loop
        # Until Python 3.12, the public function takes three times as long as this dictionary.
        self._current_task: Callable[[AbstractEventLoop], object] = (
            asyncio.current_task
            if sys.version_info >= (3, 12)
            else asyncio.tasks._current_tasks.get
        )
        self._now = now
        self._context = Context()
        self._due_ns: int | None = None
        # Begin of the block that the loop is catching up with.
        self._open_since_ns: int | None = None
        self._turns_left = 0
        # The last step, the task that made it, and the last step of anything else before it.
        self._step_ns: int | None = None
        self._task = _TIMER
        self._other_ns: int | None = None
        # Identities, so that a request that is never ended does not keep the timer running after
        # the request is garbage-collected. A set of weak references takes five times as long.
        self.watches: set[int] = set()
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._late: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._blocks: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def start(self) -> None:
        """Run the timer while there are watches; called on the loop's thread by each new one."""
        if self._due_ns is None:
            self._tick_later()
        elif len(self.watches) == 1:
            # The tick was left by an earlier watch. Since then, the loop may have been stopped, as
            # between two calls of `run_until_complete`: that delays nothing.
            now_ns = self._now()
            if self._due_ns < now_ns:
                # The tick runs in the next turn, before its new due time, so it is not late.
                self._due_ns = now_ns + _PERIOD_NS
            self._open_since_ns = None

    def greatest_lag(self, start_ns: int, done_ns: int) -> int | None:
        """Return the value of :meth:`LoopWatch.greatest_lag`."""
        # Read the pending tick first: if it runs in the meantime, it is among the recorded ones.
        pending_ns = self._due_ns
        ticks = [] if pending_ns is None else [(pending_ns, done_ns)]
        for kept in (self._recent, self._late):
            ticks += newest(kept, lambda tick: tick[1] > start_ns)
        return max(
            (
                max(0, min(ran_ns, done_ns) - max(due_ns, start_ns))
                for due_ns, ran_ns in ticks
                if due_ns < done_ns
            ),
            default=None,
        )

    def blocks(self, start_ns: int, done_ns: int) -> list[tuple[int, int]]:
        """Return the value of :meth:`LoopWatch.blocks`."""
        found: list[tuple[int, int]] = []
        due_ns = self._due_ns
        is_late = due_ns is not None and done_ns - due_ns >= _LATE_NS
        if not is_late and self._open_since_ns is None:
            # Nearly always: no block lies between the two instants.
            latest = self._blocks[-1] if self._blocks else None
            if latest is None or latest[1] <= start_ns:
                return []
        if due_ns is not None and is_late:
            found.append((due_ns, done_ns))
        open_since_ns = self._open_since_ns
        if open_since_ns is not None:
            found.append((open_since_ns, done_ns))
        found += newest(self._blocks, lambda block: block[1] > start_ns)
        merged: list[tuple[int, int]] = []
        for begin_ns, end_ns in sorted(found):
            if begin_ns >= done_ns:
                break
            if merged and begin_ns <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], end_ns))
            else:
                merged.append((begin_ns, end_ns))
        return merged

    def report_step(self, instant_ns: int) -> int | None:
        """
        Report that the current task runs at an instant, on the thread of the loop.

        Args:
            instant_ns: The instant, monotonic nanoseconds.

        Returns:
            Last known instant before it at which another task or the timer ran on the loop, in
            monotonic nanoseconds; ``None`` if there is none, or on another thread.
        """
        loop = self._running()
        if loop is None or loop is not self.loop():
            return None
        task = id(self._current_task(loop))
        if task != self._task:
            self._task, self._other_ns = task, self._step_ns
        self._step_ns = instant_ns
        return self._other_ns

    def _own_step(self, instant_ns: int) -> None:
        if self._task != _TIMER:
            self._task, self._other_ns = _TIMER, self._step_ns
        self._step_ns = instant_ns

    def _tick_later(self) -> None:
        loop = self.loop()
        if loop is None or loop.is_closed():
            return
        due_ns = self._now() + _PERIOD_NS
        loop.call_later(_PERIOD_NS / NS_PER_S, self._tick, context=self._context)
        # Only now: a loop whose `call_later` fails must not have a tick that stays pending.
        self._due_ns = due_ns

    def _tick(self) -> None:
        due_ns = self._due_ns
        if due_ns is not None:
            ran_ns = self._now()
            self._own_step(ran_ns)
            self._recent.append((due_ns, ran_ns))
            if ran_ns - due_ns >= _LATE_NS:
                self._late.append((due_ns, ran_ns))
                self._catch_up(due_ns)
        # Clear this only now, so that a reader on another thread finds the tick either as pending
        # or as recorded.
        self._due_ns = None
        if self.watches:
            self._tick_later()

    def _catch_up(self, since_ns: int) -> None:
        is_running, self._turns_left = self._turns_left > 0, _TURNS
        if self._open_since_ns is None:
            # The block of the previous tick is over. If not, this tick would continue it.
            self._open_since_ns = since_ns
        if not is_running:
            self._turn_later()

    def _turn_later(self) -> None:
        loop = self.loop()
        if loop is not None and not loop.is_closed():
            loop.call_soon(self._turn, context=self._context)

    def _turn(self) -> None:
        self._turns_left -= 1
        now_ns = self._now()
        self._own_step(now_ns)
        if self._turns_left:
            self._turn_later()
            return
        if self._open_since_ns is not None:
            self._blocks.append((self._open_since_ns, now_ns))
        self._open_since_ns = None


class LoopWatch:
    """
    Watch of one request over the event loop on which it runs, open until :meth:`end`.

    Args:
        timer: Timer of that loop.
    """

    __slots__ = ("_timer", "report_step")

    def __init__(self, timer: _Timer) -> None:
        self._timer = timer
        self.report_step = timer.report_step
        """Report that the current task runs at an instant; see :meth:`_Timer.report_step`."""
        timer.watches.add(id(self))

    def end(self) -> None:
        """Stop running the timer for this request; what it has recorded remains readable."""
        self._timer.watches.discard(id(self))

    __del__ = end

    def greatest_lag(self, start_ns: int, done_ns: int) -> int | None:
        """
        Return the greatest lag of the loop between two instants, in nanoseconds.

        Only time between the two instants counts. ``None`` if no tick was due before the end.
        """
        return self._timer.greatest_lag(start_ns, done_ns)

    def blocks(self, start_ns: int, done_ns: int) -> list[tuple[int, int]]:
        """
        Return the blocks of the loop between two instants, in order.

        Returns:
            Begin and end of each block, monotonic nanoseconds. A block may begin before the first
            instant and end after the second.
        """
        return self._timer.blocks(start_ns, done_ns)


class EventLoops:
    """
    Timers of all event loops on which requests run.

    Args:
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._stopped = False
        self._running: Callable[[], AbstractEventLoop | None] | None = None
        self._timers: weakref.WeakKeyDictionary[AbstractEventLoop, _Timer] = (
            weakref.WeakKeyDictionary()
        )
        # The last timer that was used: a dictionary with weak keys takes five times as long.
        self._latest: _Timer | None = None

    def watch(self) -> LoopWatch | None:
        """
        Watch the loop that runs on this thread until the returned watch is ended or collected.

        Returns:
            The watch, ``None`` if no asyncio loop runs on this thread, or it has no usable timers.
        """
        if self._running is None:
            # The getter that returns `None` without a loop; raising would cost more than a watch.
            self._running = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
            if self._running is None:
                return None
        loop = self._running()
        if loop is None or self._stopped:
            return None
        try:
            timer = self._latest
            if timer is None or timer.loop() is not loop:
                timer = self._timers.get(loop)
                if timer is None:
                    timer = self._timers[loop] = _Timer(loop, self._now)
                self._latest = timer
            watch = LoopWatch(timer)
            timer.start()
        except Exception:  # noqa: BLE001 - a loop of another kind; the request is not affected
            return None
        return watch

    def stop(self) -> None:
        """Stop all timers permanently."""
        self._stopped = True
        for timer in list(self._timers.values()):
            timer.watches.clear()
