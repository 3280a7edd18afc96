"""
Lag of the event loops on which requests run, measured by a timer on each loop.

A loop's timer runs as long as a request is open on that loop. It is due every 10 ms; the time by
which it runs late is the lag. Ticks are recorded on the loop's thread and read on other threads,
without a lock: a tick is appended to the recorded ticks before it is removed as pending, and the
reader looks at the pending tick first, so that it finds each tick in at least one of the two.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Final

from latspan._scraping._newest import newest
from latspan._units import NS_PER_MS, NS_PER_S

__all__ = ["LoopLag", "Ticks"]

_PERIOD_NS: Final = 10 * NS_PER_MS
"""
Period of the timer, in nanoseconds.

Every block of the loop that is longer than a period is detected. The measured lag is too small by
at most one period.
"""

_LATE_NS: Final = 5 * NS_PER_MS
_RECENT: Final = 1024
"""
Number of the latest ticks, late or not, that are kept: about ten seconds. Of older ticks, only the
late ones are kept.
"""

_KEPT: Final = 4096


class Ticks:
    """
    Timer on one event loop.

    The loop is referenced weakly, and the timer is a ``call_later``, not a task, so that it does
    not keep the loop from closing. It runs in a separate context, as it would otherwise keep a
    reference to the context of the request that started it.

    Args:
        loop: The event loop.
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]) -> None:
        self._loop = weakref.ref(loop)
        self._now = now
        self._context = Context()
        self._due_ns: int | None = None
        # A weak set, so that a request that is never ended does not keep the timer running after
        # the request is garbage-collected.
        self._open: weakref.WeakSet[object] = weakref.WeakSet()
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._late: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def begin(self, request: object) -> None:
        """Run the timer while ``request`` is open; called on the loop's thread."""
        self._open.add(request)
        if self._due_ns is None:
            self._tick_later()

    def end(self, request: object) -> None:
        """Stop running the timer for ``request``; called on any thread."""
        self._open.discard(request)

    def greatest_lag(self, start_ns: int, done_ns: int) -> int | None:
        """
        Return the greatest lag of the loop between two instants, in nanoseconds.

        Only time between the two instants counts. ``None`` if no tick was due before the end.
        """
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

    def stop(self) -> None:
        """Stop the timer, whatever requests are open."""
        self._open.clear()

    def _tick_later(self) -> None:
        loop = self._loop()
        if loop is None or loop.is_closed():
            return
        self._due_ns = self._now() + _PERIOD_NS
        loop.call_later(_PERIOD_NS / NS_PER_S, self._tick, context=self._context)

    def _tick(self) -> None:
        due_ns = self._due_ns
        if due_ns is not None:
            ran_ns = self._now()
            self._recent.append((due_ns, ran_ns))
            if ran_ns - due_ns >= _LATE_NS:
                self._late.append((due_ns, ran_ns))
        # Clear this only now, so that a reader on another thread finds the tick either as pending
        # or as recorded.
        self._due_ns = None
        if self._open:
            self._tick_later()


class LoopLag:
    """
    Timers of all event loops on which requests run.

    Args:
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._stopped = False
        self._ticks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Ticks] = (
            weakref.WeakKeyDictionary()
        )

    def here(self) -> Ticks | None:
        """Return the timer of the event loop that runs on this thread, if there is one."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        if self._stopped:
            return None
        ticks = self._ticks.get(loop)
        if ticks is None:
            ticks = self._ticks[loop] = Ticks(loop, self._now)
        return ticks

    def stop(self) -> None:
        """Stop all timers permanently."""
        self._stopped = True
        for ticks in list(self._ticks.values()):
            ticks.stop()
