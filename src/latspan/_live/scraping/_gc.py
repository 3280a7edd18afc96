"""Pauses of Python's garbage collector during a request: measured exactly, not sampled."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from latspan._base.newest import newest

_KEPT: Final = 4096


class _Pause(NamedTuple):
    began_ns: int
    ended_ns: int
    total_ns: int
    """Sum of all pauses up to and including this one."""


class GcPauses:
    """
    Sum of the garbage collector's pauses.

    A request records the total at its start. The total at its end is read later, when further
    pauses may have happened. The latest pauses are kept so that those can be subtracted.

    Args:
        now: Function that returns the clock's monotonic time, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._began_ns: int | None = None
        self._latest: deque[_Pause] = deque(maxlen=_KEPT)
        # PyPy does not have `gc.callbacks`.
        self._callbacks: list[Any] | None = getattr(gc, "callbacks", None)

    @property
    def total_ns(self) -> int:
        """Sum of all pauses up to now, in nanoseconds."""
        try:
            return self._latest[-1].total_ns
        except IndexError:
            return 0

    def start(self) -> None:
        """Register the callback with the garbage collector."""
        if self._callbacks is not None and self._on_collection not in self._callbacks:
            self._callbacks.append(self._on_collection)

    def stop(self) -> None:
        """Remove the callback from the garbage collector."""
        if self._callbacks is not None and self._on_collection in self._callbacks:
            self._callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began_ns = self._now()
        elif self._began_ns is not None:
            ended_ns = self._now()
            total_ns = self.total_ns + ended_ns - self._began_ns
            self._latest.append(_Pause(self._began_ns, ended_ns, total_ns))
            self._began_ns = None

    def during(self, total_before_ns: int, done_ns: int) -> int | None:
        """
        Return the sum of the pauses during a finished request, in nanoseconds.

        Args:
            total_before_ns: The total at its start.
            done_ns: Time of its end, monotonic nanoseconds.

        Returns:
            The sum, or ``None`` if it is not known: the interpreter has no ``gc.callbacks``, or
            too many pauses followed the end.
        """
        if self._callbacks is None:
            return None
        # Read the total first: otherwise a pause in between would be in the total, but not among
        # the pauses that are subtracted.
        total_ns = self.total_ns
        latest = newest(self._latest, lambda pause: pause.ended_ns > done_ns)
        if len(latest) == _KEPT:
            return None
        after_ns = sum(pause.ended_ns - max(pause.began_ns, done_ns) for pause in latest)
        if latest:
            total_ns = latest[0].total_ns
        return max(0, total_ns - total_before_ns - after_ns)
