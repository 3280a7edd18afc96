"""Spans that wait to be sent: so many and so large, and no more."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

__all__ = ["SpanQueue"]

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

    Sent = ReadableSpan | ReadableLogRecord


def _no_size(_: Sent) -> int:
    return 0


class SpanQueue:
    """
    Ended spans in the order in which they ended; where there is no room the oldest go.

    What is taken out to be sent needs no room, and may come back. Every span that is lost is
    counted, once. All of it may be done in a finaliser, wherever the collector of garbage runs
    it: the lock is reentrant, and each step leaves things as the next one finds them. Sums are
    only ever added to and subtracted from, in one statement without a call, inside which no
    finaliser runs.

    Args:
        room: How many may wait, at least 1.
        room_bytes: How large all that wait may be.
        size_of: Returns how large a span is: the same each time.
    """

    def __init__(
        self,
        room: int,
        room_bytes: float = math.inf,
        size_of: Callable[[Sent], int] = _no_size,
    ) -> None:
        self._room = room
        self._room_bytes = room_bytes
        self._size_of = size_of
        self._waiting: deque[Sent] = deque()
        self._lock = threading.RLock()
        self._bytes = 0
        self._taken_out = 0
        self._lost = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    @property
    def size(self) -> int:
        """How large all that wait are."""
        return self._bytes

    @property
    def lost(self) -> int:
        """How many found no room since the beginning."""
        return self._lost

    @property
    def unsent(self) -> int:
        """How many wait or are being sent."""
        with self._lock:
            return len(self._waiting) + self._taken_out

    def put(self, spans: Sequence[Sent]) -> bool:
        """Add some, and say whether there was room without losing others."""
        size = sum(map(self._size_of, spans))
        with self._lock:
            self._waiting.extend(spans)
            self._bytes += size
            return not self._make_room()

    def take(self, most: int, most_bytes: float = math.inf) -> list[Sent]:
        """
        Take out the oldest; each is then :meth:`settled` or given back.

        Args:
            most: How many at most.
            most_bytes: How large at most, all together; the first is taken however large it is.
        """
        with self._lock:
            taken: list[Sent] = []
            while self._waiting and len(taken) < most:
                span = self._waiting.popleft()
                size = self._size_of(span)
                if taken and size > most_bytes:
                    self._waiting.appendleft(span)
                    break
                self._bytes -= size
                most_bytes -= size
                taken.append(span)
            self._taken_out += len(taken)
            return taken

    def settled(self, spans: Sequence[Sent]) -> None:
        """Forget what was taken out."""
        with self._lock:
            self._taken_out -= len(spans)

    def give_back(self, spans: Sequence[Sent]) -> bool:
        """Put what was taken out in front again, and say whether there was room for all of it."""
        size = sum(map(self._size_of, spans))
        with self._lock:
            self.settled(spans)
            self._waiting.extendleft(reversed(spans))
            self._bytes += size
            return not self._make_room()

    def _make_room(self) -> int:
        """Return how many had to go."""
        gone = 0
        while self._waiting and (len(self._waiting) > self._room or self._bytes > self._room_bytes):
            size = self._size_of(self._waiting.popleft())
            self._bytes -= size
            self._lost += 1
            gone += 1
        return gone
