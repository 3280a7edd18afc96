"""
Reader of llama.cpp's log: its lines, each with the instant at which the server logged it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from latspan._units import NS_PER_S

__all__ = ["LlamaLog", "LogLine"]

# "0.01.084.068 I slot launch_slot_: id  1 | task 0 | processing task": minutes, seconds, ms, µs.
_STAMP: Final = re.compile(r"^(\d+)\.(\d\d)\.(\d{3})\.(\d{3}) ")
_LAUNCH: Final = re.compile(r"launch_slot_: .*\| task (\d+) \|")
_NS_PER_MINUTE: Final = 60 * NS_PER_S


class LogLine(NamedTuple):
    """
    One line of llama.cpp's log.

    Args:
        instant_ns: Instant of logging, on ``CLOCK_MONOTONIC``.
        text: The line, without its end.
    """

    instant_ns: int
    text: str


class LlamaLog:
    """
    Log that is read while it is written.

    A line reaches this process about 0.1 ms after it was logged, or several milliseconds later if
    this process is busy. Most lines contain the logger's own time, in microseconds. The instant of
    such a line is computed from that time; the offset between the two clocks comes from the line
    that arrived fastest. So no line is placed later than it arrived, and all are late by the same
    small delay. The logger's clock may be the wall clock; a step of that clock displaces the lines
    before the step.
    """

    def __init__(self) -> None:
        self._arrived: list[LogLine] = []
        self._lock = threading.Lock()

    def read(self, lines: Iterable[bytes]) -> None:
        """Read lines to the end, and keep each with its time of arrival."""
        for line in lines:
            now_ns = time.perf_counter_ns()
            text = line.decode(errors="replace").rstrip("\n")
            with self._lock:
                self._arrived.append(LogLine(now_ns, text))

    def lines(self) -> list[LogLine]:
        """Return the lines logged so far, in order of arrival."""
        with self._lock:
            arrived = list(self._arrived)
        logged = [_logged_ns(line.text) for line in arrived]
        delays = [
            line.instant_ns - at for line, at in zip(arrived, logged, strict=True) if at is not None
        ]
        if not delays:
            return arrived
        fastest = min(delays)
        return [
            line if at is None else LogLine(at + fastest, line.text)
            for line, at in zip(arrived, logged, strict=True)
        ]

    def launches(self) -> list[tuple[int, int]]:
        """Return the instant and the task number of every request taken out of the queue."""
        found = ((line.instant_ns, _LAUNCH.search(line.text)) for line in self.lines())
        return [(instant_ns, int(match[1])) for instant_ns, match in found if match is not None]


def _logged_ns(text: str) -> int | None:
    """Return the line's own time, in nanoseconds since the logger started."""
    match = _STAMP.match(text)
    if match is None:
        return None
    minutes, seconds, milliseconds, microseconds = map(int, match.groups())
    below = (milliseconds * 1_000 + microseconds) * 1_000
    return minutes * _NS_PER_MINUTE + seconds * NS_PER_S + below
