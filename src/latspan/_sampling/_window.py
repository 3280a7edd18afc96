"""Latest durations of similar requests, and the rank of a new duration among them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final

__all__ = ["Window"]

_SIZE: Final = 2_000
"""Number of durations: a p97 of 2,000 is between the true p96 and p98 in 99 of 100 windows."""

_STEP: Final = 100
"""Number of durations between two stored thresholds."""


class Window:
    """
    Sliding window of the latest 2,000 durations. Not thread-safe.

    Args:
        share: Fraction of the durations above the stored thresholds, in (0, 1).
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
        """Number of durations added so far."""
        return self._seen

    def slower_share(self, duration_ns: int) -> float:
        """Return the fraction, in [0, 1], of durations that are as long or longer; 0 if empty."""
        held = len(self._ordered)
        return (held - bisect_left(self._ordered, duration_ns)) / held if held else 0.0

    def is_unusual(self, duration_ns: int) -> bool:
        """
        Return whether a duration exceeds the threshold of 2,000 requests ago, or the oldest one.
        """
        return not self._thresholds or duration_ns > self._thresholds[0]

    def add(self, duration_ns: int) -> None:
        """Add a duration; a full window drops its oldest one."""
        if len(self._latest) == _SIZE:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]
        self._latest.append(duration_ns)
        insort(self._ordered, duration_ns)
        self._seen += 1
        if self._seen % _STEP == 0:
            slow = max(1, round(self._share * len(self._ordered)))
            self._thresholds.append(self._ordered[-slow])
