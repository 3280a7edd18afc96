"""
Clock of latspan: monotonic nanoseconds for every duration, one wall-clock offset per request.

A duration is always the difference of two monotonic readings; wall time is used only for the
timestamps of a request. Monotonic readings of two processes are never compared, except in tests
that run both processes on one machine.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Interface of a clock: a source of monotonic and of Unix time."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds since an arbitrary instant; the value never decreases."""
        ...

    def epoch_offset_ns(self) -> int:
        """Return the nanoseconds to add to a monotonic reading to get Unix time."""
        ...


class SystemClock:
    """The machine's clock: ``time.perf_counter_ns`` anchored to ``time.time_ns``."""

    __slots__ = ()

    # A bound method would add a call to each of the two timestamps of a chunk.
    monotonic_ns = staticmethod(time.perf_counter_ns)

    def epoch_offset_ns(self) -> int:
        """
        Return Unix time minus monotonic time, as of now.

        The wall clock is read between two monotonic readings, so the error is at most half of
        the time those three readings took (some 0.1 µs).
        """
        before = time.perf_counter_ns()
        wall = time.time_ns()
        after = time.perf_counter_ns()
        return wall - (before + after) // 2


class ManualClock(Clock):
    """
    Clock for tests: time passes only when a test advances it.

    Args:
        start_ns: The first monotonic reading.
        epoch_offset_ns: Unix time at the monotonic instant zero.
    """

    __slots__ = ("_epoch_offset_ns", "_now_ns")

    def __init__(
        self, start_ns: int = 0, *, epoch_offset_ns: int = 1_700_000_000_000_000_000
    ) -> None:
        self._now_ns = start_ns
        self._epoch_offset_ns = epoch_offset_ns

    def monotonic_ns(self) -> int:
        """Return the current reading, in nanoseconds."""
        return self._now_ns

    def epoch_offset_ns(self) -> int:
        """Return Unix time at the monotonic instant zero, in nanoseconds."""
        return self._epoch_offset_ns

    def advance(self, duration_ns: int) -> None:
        """
        Advance the clock.

        Args:
            duration_ns: Nanoseconds, at least 0.

        Raises:
            ValueError: ``duration_ns`` is negative; a monotonic clock never goes back.
        """
        if duration_ns < 0:
            msg = f"a monotonic clock cannot go back by {-duration_ns} ns"
            raise ValueError(msg)
        self._now_ns += duration_ns

    def advance_to(self, instant_ns: int) -> None:
        """Advance the clock to ``instant_ns``; do nothing if that instant has passed."""
        self._now_ns = max(self._now_ns, instant_ns)
