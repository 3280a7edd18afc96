"""
Load of the generator itself: how late its event loop runs, and how busy its thread is.

A generator that is late measures itself. A timer on its event loop is due every 50 ms. Its delay is
stamped one turn of the loop later, as the arrival of a chunk is: aiohttp stores the bytes and wakes
the task that reads them. So the lag is the time by which a chunk may be stamped late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan.histogram import Histogram

_INTERVAL_NS: Final = 50 * NS_PER_MS
_PERCENTILES: Final = (50, 99)


class GeneratorLoad:
    """
    Sampler of the running event loop.

    Args:
        now: Clock, monotonic nanoseconds.
        cpu: Clock of the CPU time of this thread, nanoseconds.
    """

    def __init__(
        self, now: Callable[[], int], cpu: Callable[[], int] = time.thread_time_ns
    ) -> None:
        self._now = now
        self._cpu = cpu
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self.restart()

    def restart(self) -> None:
        """Begin a new sample."""
        self._lag = Histogram()
        self._since = self._now(), self._cpu()
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_ns = self._now() + _INTERVAL_NS
        self._timer = self._loop.call_later(_INTERVAL_NS / NS_PER_S, self._sample)

    def _sample(self) -> None:
        self._loop.call_soon(self._record, self._lag, self._due_ns)
        self._arm()

    def _record(self, lag: Histogram, due_ns: int) -> None:
        lag.record(max(0, self._now() - due_ns))

    def result(self) -> dict[str, Any]:
        """Return percentiles of the loop's lag in seconds, and the share of a CPU that it used."""
        elapsed = self._now() - self._since[0]
        measured: dict[str, Any] = {
            "busy": round((self._cpu() - self._since[1]) / elapsed, 4) if elapsed else 0.0
        }
        # A loop that is blocked now will be late by at least this much.
        overdue = self._now() - self._due_ns
        lag = self._lag.copy()
        if overdue > 0:
            lag.record(overdue)
        if lag.count:
            measured["loop_lag"] = {
                f"p{each}": lag.value_at_percentile(each) / NS_PER_S for each in _PERCENTILES
            } | {"max": lag.max_ns / NS_PER_S}
        return measured

    def stop(self) -> None:
        """Stop sampling."""
        if self._timer is not None:
            self._timer.cancel()
