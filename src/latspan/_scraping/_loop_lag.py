"""By how much the event loops of requests are late: a timer on each, as long as there are any."""

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
"""A loop that is blocked for longer is seen, less this at most."""

_LATE_NS: Final = 5 * NS_PER_MS
_RECENT: Final = 1024
"""Ticks kept whatever they were, some ten seconds; before that, those that were late are."""

_KEPT: Final = 4096


class Ticks:
    """
    The timer on one loop.

    The loop is held weakly, and the timer, a ``call_later`` and no task, keeps none from closing.
    It runs in a context of its own, or it would hold on to that of the request that began it.

    Args:
        loop: Which one.
        now: The clock's monotonic reading, in nanoseconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], int]) -> None:
        self._loop = weakref.ref(loop)
        self._now = now
        self._context = Context()
        self._due_ns: int | None = None
        # Weakly, so that one that is never ended keeps the timer going no longer than it lives.
        self._open: weakref.WeakSet[object] = weakref.WeakSet()
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        self._late: deque[tuple[int, int]] = deque(maxlen=_KEPT)

    def begin(self, request: object) -> None:
        """Tick as long as ``request`` is open; called on the loop's thread."""
        self._open.add(request)
        if self._due_ns is None:
            self._tick_later()

    def end(self, request: object) -> None:
        """Tick no longer for ``request``; called on any thread."""
        self._open.discard(request)

    def greatest_lag(self, start_ns: int, done_ns: int) -> int | None:
        """
        Return by how much the loop was late at most between two instants, in nanoseconds.

        Only time between the two counts. ``None`` where no timer was due.
        """
        # First what is still to come: it may come meanwhile, and is then among the others.
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
        """Tick no longer."""
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
        # Only now: who asks on another thread finds it here or there.
        self._due_ns = None
        if self._open:
            self._tick_later()


class LoopLag:
    """
    The timers of all loops on which there are requests.

    Args:
        now: The clock's monotonic reading, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._stopped = False
        self._ticks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Ticks] = (
            weakref.WeakKeyDictionary()
        )

    def here(self) -> Ticks | None:
        """Return the timer of the loop that runs on this thread, if one does."""
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
        """Let no timer tick again."""
        self._stopped = True
        for ticks in list(self._ticks.values()):
            ticks.stop()
