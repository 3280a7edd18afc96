"""The latest durations of requests that are alike, and how a new one compares with them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

__all__ = ["Window"]

_SIZE: Final = 2_000
"""A p97 of so many lies between the true p96 and p98 in 99 windows of 100."""

_STEP: Final = 100
"""After so many a threshold is remembered, to be the usual one once its window has passed."""


class Window:
    """
    The latest 2,000 durations. Not thread-safe.

    Args:
        share: In (0, 1). Which share of them counts as slow.
    """

    __slots__ = ("_latest", "_ordered", "_seen", "_share", "_thresholds")

    def __init__(self, share: float) -> None:
        self._share = share
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []
        self._thresholds: deque[int] = deque(maxlen=_SIZE // _STEP)
        self._seen = 0

    @property
    def seen(self) -> int:
        """How many durations there have been."""
        return self._seen

    def slower_share(self, duration_ns: int) -> float:
        """Return the share, in [0, 1], of the latest that took as long or longer; 0 of none."""
        held = len(self._ordered)
        return (held - bisect_left(self._ordered, duration_ns)) / held if held else 0.0

    def is_unusual(self, duration_ns: int) -> bool:
        """Return whether it would have been slow 2,000 requests ago, or as early as is known."""
        return not self._thresholds or duration_ns > self._thresholds[0]

    def add(self, duration_ns: int) -> None:
        """Take in one more; the oldest goes."""
        if len(self._latest) == _SIZE:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]
        self._latest.append(duration_ns)
        insort(self._ordered, duration_ns)
        self._seen += 1
        if self._seen % _STEP == 0:
            slow = max(1, round(self._share * len(self._ordered)))
            self._thresholds.append(self._ordered[-slow])
