"""
Virtual time: processes that sleep, wait for one another, and share slots.

A process is a generator. It yields the instant until which it sleeps, or an event that it waits
for. Instants are integer nanoseconds since the start of the simulation.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator
from typing import Final

Process = Generator["int | Event", None, None]


def ns(milliseconds: float) -> int:
    """Return a duration in nanoseconds, at least 0."""
    return max(0, round(milliseconds * 1e6))


class Event:
    """Something that happens once, and for which processes wait."""

    __slots__ = ("_kernel", "_waiting", "happened")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._waiting: list[Process] = []
        self.happened = False

    def happen(self) -> None:
        """Continue all processes that wait for it."""
        self.happened = True
        for process in self._waiting:
            self._kernel.wake(process, self._kernel.now)
        self._waiting.clear()

    def wait(self, process: Process) -> None:
        """Let a process wait for it."""
        self._waiting.append(process)


class Kernel:
    """Clock and queue of the processes that sleep."""

    def __init__(self) -> None:
        self.now = 0
        self._asleep: list[tuple[int, int, Process]] = []
        self._number = 0

    def wake(self, process: Process, instant: int) -> None:
        """Continue a process at an instant."""
        self._number += 1
        heapq.heappush(self._asleep, (max(instant, self.now), self._number, process))

    def run(self, *processes: Process) -> None:
        """Run until every process has ended or waits for an event that never happens."""
        for process in processes:
            self.wake(process, 0)
        while self._asleep:
            self.now, _, process = heapq.heappop(self._asleep)
            for awaited in process:
                if isinstance(awaited, int):
                    self.wake(process, awaited)
                    break
                if not awaited.happened:
                    awaited.wait(process)
                    break


class Slots:
    """
    Places that processes hold one at a time each, in the order in which they asked.

    Args:
        kernel: The clock.
        size: Number of places.
    """

    def __init__(self, kernel: Kernel, size: int) -> None:
        self._kernel: Final = kernel
        self._free = size
        self._queue: deque[Event] = deque()

    def take(self) -> Event:
        """Return the event of getting a place."""
        event = Event(self._kernel)
        if self._free:
            self._free -= 1
            event.happened = True
        else:
            self._queue.append(event)
        return event

    def give_back(self) -> None:
        """Give a place back, to the process that has waited longest."""
        if self._queue:
            self._queue.popleft().happen()
        else:
            self._free += 1
