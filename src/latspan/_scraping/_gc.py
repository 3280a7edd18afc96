"""How long Python's garbage collector had the process stand still: exact, not sampled."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from latspan._scraping._newest import newest

__all__ = ["GcPauses"]

_KEPT: Final = 4096


class _Pause(NamedTuple):
    began_ns: int
    ended_ns: int
    total_ns: int
    """Of all pauses up to this one."""


class GcPauses:
    """
    Adds up the collector's pauses.

    A request notes the total at its start. At its end it is looked up a little later, when there
    may have been more pauses: the latest ones are kept, to be taken off again.

    Args:
        now: The clock's monotonic reading, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._began_ns: int | None = None
        self._latest: deque[_Pause] = deque(maxlen=_KEPT)
        # PyPy has none.
        self._callbacks: list[Any] | None = getattr(gc, "callbacks", None)

    @property
    def total_ns(self) -> int:
        """All pauses up to now, in nanoseconds."""
        try:
            return self._latest[-1].total_ns
        except IndexError:
            return 0

    def start(self) -> None:
        """Listen to the collector."""
        if self._callbacks is not None and self._heard not in self._callbacks:
            self._callbacks.append(self._heard)

    def stop(self) -> None:
        """Listen no longer."""
        if self._callbacks is not None and self._heard in self._callbacks:
            self._callbacks.remove(self._heard)

    def _heard(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began_ns = self._now()
        elif self._began_ns is not None:
            ended_ns = self._now()
            total_ns = self.total_ns + ended_ns - self._began_ns
            self._latest.append(_Pause(self._began_ns, ended_ns, total_ns))
            self._began_ns = None

    def during(self, total_before_ns: int, done_ns: int) -> int | None:
        """
        Return the pauses of something that has ended, in nanoseconds.

        Args:
            total_before_ns: The total at its start.
            done_ns: When it ended, monotonic nanoseconds.

        Returns:
            ``None`` where that is not known: no collector tells, or too many pauses followed.
        """
        if self._callbacks is None:
            return None
        # First, or a pause might be in the total and not among those that are taken off.
        total_ns = self.total_ns
        latest = newest(self._latest, lambda pause: pause.ended_ns > done_ns)
        if len(latest) == _KEPT:
            return None
        after_ns = sum(pause.ended_ns - max(pause.began_ns, done_ns) for pause in latest)
        if latest:
            total_ns = latest[0].total_ns
        return max(0, total_ns - total_before_ns - after_ns)
