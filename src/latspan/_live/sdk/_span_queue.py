"""Queue of spans to export, bounded by count and by size."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from latspan._base.slices import give_way

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

    Item = ReadableSpan | ReadableLogRecord


_TAKEN_AT_ONCE: Final = 32
"""Number of spans that are taken out before the lock is released and the thread gives way."""


def _no_size(*_: Item) -> int:
    return 0


class SpanQueue:
    """
    Queue of ended spans in the order in which they ended; when it is full, the oldest are dropped.

    Spans that were taken out to be sent do not count against the limits, and may be put back. Every
    lost span is counted once. Any method may run in a finaliser, which may interrupt another method
    on the same thread. Therefore the lock is reentrant, and every statement leaves a state in which
    another method can run. The three counters are only changed by ``+=`` and ``-=`` in statements
    without a call, because a finaliser cannot run inside such a statement.

    Args:
        room: Maximum number of queued spans, at least 1.
        room_bytes: Maximum size of all queued spans, in bytes.
        size_of: Returns the total size of the given spans in bytes; that of a span must not change.
    """

    def __init__(
        self,
        room: int,
        room_bytes: float = math.inf,
        size_of: Callable[..., int] = _no_size,
    ) -> None:
        self._room = room
        self._room_bytes = room_bytes
        self._size_of = size_of
        self._waiting: deque[Item] = deque()
        self._lock = threading.RLock()
        self._bytes = 0
        self._in_flight = 0
        self._lost = 0

    def __len__(self) -> int:
        """Return the number of queued spans."""
        return len(self._waiting)

    def holds(self, spans: int, size: float) -> bool:
        """Return whether that many spans, or spans of that size in bytes, are queued."""
        return len(self._waiting) >= spans or self._bytes >= size

    @property
    def lost(self) -> int:
        """Number of spans dropped since the start because the queue was full."""
        return self._lost

    @property
    def unsent(self) -> int:
        """Number of spans that are queued or being sent."""
        with self._lock:
            return len(self._waiting) + self._in_flight

    def put(self, spans: Sequence[Item]) -> bool:
        """Add spans, and return whether there was room without dropping others."""
        size = self._size_of(*spans)
        with self._lock:
            self._waiting.extend(spans)
            self._bytes += size
            if len(self._waiting) <= self._room and self._bytes <= self._room_bytes:
                return True
            return not self._make_room()

    def take(self, max_count: int, max_bytes: float = math.inf) -> list[Item]:
        """
        Take out the oldest spans; pass each to :meth:`forget` or :meth:`give_back` afterwards.

        Args:
            max_count: Maximum number of spans.
            max_bytes: Maximum size of all of them together; the first is taken whatever its size.
        """
        taken: list[Item] = []
        while len(taken) < max_count:
            part, size = self._take(
                min(max_count - len(taken), _TAKEN_AT_ONCE), max_bytes, is_first=not taken
            )
            if not part:
                break
            max_bytes -= size
            taken += part
            give_way()
        return taken

    def _take(self, max_count: int, max_bytes: float, *, is_first: bool) -> tuple[list[Item], int]:
        """Take out spans, and return them and their size."""
        with self._lock:
            taken: list[Item] = []
            taken_bytes = 0
            while self._waiting and len(taken) < max_count:
                span = self._waiting.popleft()
                size = self._size_of(span)
                if taken_bytes + size > max_bytes and not (is_first and not taken):
                    self._waiting.appendleft(span)
                    break
                self._bytes -= size
                taken_bytes += size
                taken.append(span)
            self._in_flight += len(taken)
            return taken, taken_bytes

    def forget(self, spans: Sequence[Item]) -> None:
        """Stop counting spans that were taken out in :attr:`unsent`."""
        with self._lock:
            self._in_flight -= len(spans)

    def give_back(self, spans: Sequence[Item]) -> bool:
        """Put spans that were taken out back in front, and return whether all of them fit."""
        size = self._size_of(*spans)
        with self._lock:
            self.forget(spans)
            self._waiting.extendleft(reversed(spans))
            self._bytes += size
            return not self._make_room()

    def _make_room(self) -> int:
        """Drop spans until the limits hold, and return how many were dropped."""
        gone = 0
        while self._waiting and (len(self._waiting) > self._room or self._bytes > self._room_bytes):
            size = self._size_of(self._waiting.popleft())
            self._bytes -= size
            self._lost += 1
            gone += 1
        return gone
