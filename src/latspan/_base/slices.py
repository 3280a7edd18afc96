"""
Slices: latspan's threads give way to the application's threads five times per millisecond.

**Why.** A thread that computes in Python keeps the interpreter's lock until another thread has
waited for it for the switch interval, 5 ms by default. An asyncio loop waits that long each time it
wakes up while such a thread computes. A thread that gives the lock up by itself delays a loop by
one slice at most, if its pause is long enough for the loop to wake up: a loop that comes too late
waits for another slice.

**How.** Each of latspan's threads that computes has an object of `Slices`, and runs inside its
`here()`. Code that may run on such a thread calls `give_way()` after each item of work: it pauses
if the slice is used up, and otherwise costs two readings of variables and one of the clock. On any
other thread `give_way()` does nothing, so the same code may run on a caller's thread.

**Taking turns.** A thread that gives the interpreter's lock up does not choose who gets it. If two
of latspan's threads compute, they can pass it to each other while a loop waits. So only one of them
computes at a time: after its slice, a thread first waits until the one that computes has stopped,
for at most 5 ms. No lock is involved, only the instant at which the other one began its slice. A
thread that blocks, or has ended, looks as if it had stopped, so it delays no other one.

**What must never happen.** A thread must not give way while it holds a lock that a caller's thread
may wait for: with the interpreter's lock given up, the holder needs it again before it can release
the other one, and the caller waits for both. Work that needs such a lock is done in parts of at
most about half a millisecond each, and the thread gives way between two parts.

**Large structures.** The release of the last reference to a large structure frees all of it in one
step. `release()` frees a list item by item instead.

**Shutdown.** Once the application waits for latspan to end, pauses only delay it. `hurry()` ends
them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

SLICE_NS: Final = 200_000
"""Length of a slice: 0.2 ms. Shorter ones delay a loop less, and take more CPU time."""

PAUSE_S: Final = 50e-6
"""Length of a pause in seconds: about the time that a waiting thread takes to wake up."""

_STOPPED_NS: Final = 1_000_000
"""
Age of a slice from which its thread is considered to have stopped computing: 1 ms.

It is longer than a slice, because a thread may wait for the interpreter's lock after its pause.
"""

_WAIT_S: Final = 0.0005
"""Length of one wait for the turn in seconds."""

_WAITS: Final = 10
"""Number of waits after which a thread computes although another one does."""

_T = TypeVar("_T")


class _Here(threading.local):
    """Slices of the current thread; ``None`` on a thread that does not belong to latspan."""

    slices: Slices | None = None


_here: Final = _Here()


def give_way() -> None:
    """
    Let other threads run, if this is one of latspan's threads and its slice is used up.

    The caller must not hold a lock that an application's thread may wait for.
    """
    slices = _here.slices
    if slices is not None:
        slices.step()


def release(items: list[Any]) -> None:
    """
    Remove all items from a list, and give way in between.

    Args:
        items: The list, to whose items nothing else should refer: they are freed one by one.
    """
    while items:
        items.pop()
        give_way()


class Turn:
    """
    Turn to compute, which one of several threads has.

    Attributes:
        holder: Slices of the thread that computed last; ``None`` if none has.
    """

    __slots__ = ("holder",)

    def __init__(self) -> None:
        self.holder: Slices | None = None


_TURN: Final = Turn()


class Slices:
    """
    Division of one thread's work into slices.

    Args:
        slice_ns: Length of a slice in nanoseconds.
        now_ns: Monotonic clock, in nanoseconds.
        pause: Function that gives the interpreter's lock up for at least the given seconds.
        turn: Turn that the thread shares with others, whose slices have the same clock.

    Attributes:
        begun_ns: Beginning of the last slice: long ago if the thread no longer computes.
    """

    __slots__ = ("_hurries", "_now_ns", "_pause", "_slice_ns", "_turn", "begun_ns")

    def __init__(
        self,
        slice_ns: int = SLICE_NS,
        *,
        now_ns: Callable[[], int] = time.perf_counter_ns,
        pause: Callable[[float], object] = time.sleep,
        turn: Turn = _TURN,
    ) -> None:
        self._turn = turn
        self._slice_ns = slice_ns
        self._now_ns = now_ns
        self._pause = pause
        self.begun_ns = now_ns()
        self._hurries = False

    @contextmanager
    def here(self) -> Generator[None]:
        """Divide the work that this thread does inside the block."""
        outer, _here.slices = _here.slices, self
        self.begun_ns = self._now_ns()
        try:
            yield
        finally:
            _here.slices = outer

    def step(self) -> None:
        """Pause if the slice is used up, wait for the turn, and begin the next slice."""
        if self._now_ns() - self.begun_ns >= self._slice_ns and not self._hurries:
            self._pause(PAUSE_S)
            for _ in range(_WAITS):
                holder = self._turn.holder
                if holder is None or holder is self or self._hurries:
                    break
                if self._now_ns() - holder.begun_ns >= _STOPPED_NS:
                    break
                self._pause(_WAIT_S)
            self._turn.holder = self
            self.begun_ns = self._now_ns()

    def hurry(self) -> None:
        """Stop pausing, because another thread waits for the end of the work; on any thread."""
        self._hurries = True


class PacedList(list[_T]):
    """
    List that gives way before it yields each item.

    The encoders of OpenTelemetry's exporters loop over all spans, log records or data points of a
    message. In a list of this type, that loop is divided into slices too.
    """

    __slots__ = ()

    def __init__(self, items: Iterable[_T] = ()) -> None:
        super().__init__(items)

    def __iter__(self) -> Iterator[_T]:
        for item in super().__iter__():
            give_way()
            yield item
