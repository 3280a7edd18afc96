"""Spans that wait to be sent: so many, and no more."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["SpanQueue"]


class SpanQueue:
    """
    Ended spans in the order in which they ended; where there is no room the oldest go.

    What is taken out to be sent needs no room, and may come back. Every span that is lost is
    counted, once. All of it may be done in a finaliser, wherever the collector of garbage runs
    it: the lock is reentrant, and each step leaves things as the next one finds them.

    Args:
        room: How many may wait, at least 1.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._waiting: deque[ReadableSpan] = deque()
        self._lock = threading.RLock()
        self._taken_out = 0
        self._lost = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @property
    def lost(self) -> int:
        """How many found no room since the beginning."""
        return self._lost

    @property
    def unsent(self) -> int:
        """How many wait or are being sent."""
        with self._lock:
            return len(self._waiting) + self._taken_out

    def put(self, spans: Sequence[ReadableSpan]) -> bool:
        """Add some, and say whether there was room without losing others."""
        self._waiting.extend(spans)
        return len(self._waiting) <= self._room or not self._make_room()

    def take(self, most: int) -> list[ReadableSpan]:
        """Take out the oldest, so many at most; each is then :meth:`settled` or given back."""
        with self._lock:
            taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._taken_out += len(taken)
            return taken

    def settled(self, spans: Sequence[ReadableSpan]) -> None:
        """Forget what was taken out."""
        with self._lock:
            self._taken_out -= len(spans)

    def give_back(self, spans: Sequence[ReadableSpan]) -> bool:
        """Put what was taken out in front again, and say whether there was room for all of it."""
        with self._lock:
            self.settled(spans)
            self._waiting.extendleft(reversed(spans))
            return not self._make_room()

    def _make_room(self) -> int:
        """Return how many had to go."""
        gone = 0
        with self._lock:
            while len(self._waiting) > self._room:
                self._waiting.popleft()
                self._lost += 1
                gone += 1
        return gone
