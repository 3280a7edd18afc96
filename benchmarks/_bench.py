"""
What every benchmark shares: the yardstick, interleaved pairs, and the row of a result.

A cost that is added to something is the difference of two measurements that take turns in one
process, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import gc
import platform
import random
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import sub
from statistics import median, quantiles
from typing import Final, Literal

__all__ = [
    "REFERENCE_YARDSTICK_US",
    "Figure",
    "Row",
    "Scale",
    "Target",
    "Unit",
    "added",
    "figure",
    "interleaved",
    "interleaved_yardstick",
    "machine",
    "scattered_heap",
    "settled_heap",
    "without_numpy",
    "yardstick",
]

REFERENCE_YARDSTICK_US: Final = 0.05
"""The yardstick of the machine that targets in microseconds are stated for."""

_ROUND: Final = 10
"""Turns of a measurement, of which the least is taken."""

_BALLAST: Final[list[bytes]] = []
"""What :func:`scattered_heap` has taken."""

Measure = Callable[[], float]
"""Measures once and returns microseconds."""

Unit = Literal["µs", "ms", "MiB", "B", "%"]
"""
What a figure is in: CPU time, time that passed, memory, size on the wire, or a relative error.

Only CPU time depends on the machine's speed.
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """
    How long a run may take.

    Args:
        quick: Fewer repeats, and so less certain numbers.
    """

    quick: bool

    def of(self, repeats: int) -> int:
        """Return how often to repeat what takes ``repeats`` in a full run."""
        return max(5, repeats // 5) if self.quick else repeats


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One result, in its row's unit.

    Args:
        least: Of all repeats: what it costs when nothing disturbs. Of an added cost, the
            difference of the two lower deciles.
        middle: The median of all repeats; of an added cost, of the differences round by round.
            ``None`` where it was measured once, because nothing disturbs it.
        half: Between which two the middle half of them lies; of an added cost, of the
            differences.
    """

    least: float
    middle: float | None = None
    half: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """
    Target of the design for a figure: one of ``most`` and ``ratio``.

    Args:
        most: In the row's unit. Microseconds are those of a machine whose yardstick is 0.05 µs,
            so 20 yardsticks each; every other unit is the same on every machine.
        ratio: Multiples of the rival.
        due: Whether the code has been built for it yet.
    """

    most: float | None = None
    ratio: float | None = None
    due: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One line of the table.

    Args:
        what: What was done.
        latspan: What it costs with latspan; an added cost unless ``what`` names another figure.
        rival: The alternative it is compared with, measured in the same run; ``None`` without one.
        rival_name: What that is.
        target: What was to be reached, if anything was.
        unit: What both figures are in.
        stick: The yardstick, where it took turns with what was measured: a machine that others
            use is slower at one moment than at another.
    """

    what: str
    latspan: Figure
    rival: Figure | None = None
    rival_name: str = ""
    target: Target | None = None
    unit: Unit = "µs"
    stick: Figure | None = None

    @property
    def ratio(self) -> float | None:
        """The figure as a multiple of the rival's, ``None`` without one."""
        if self.rival is None or not self.rival.least:
            return None
        return self.latspan.least / self.rival.least

    def yardsticks(self, yardstick: Figure) -> float | None:
        """Return how many yardsticks it takes, ``None`` for what is no time."""
        stick = self.stick or yardstick
        return self.latspan.least / stick.least if self.unit == "µs" else None

    def verdict(self, yardstick: Figure) -> str:
        """
        Return whether the target is met on this machine, or the empty string without one.

        Least is held against least and median against median: where other work slows the
        machine down, it slows the yardstick too.

        Args:
            yardstick: That of the whole run, in microseconds, for rows without one of their own.
        """
        if self.target is None:
            return ""
        rival, stick = self.rival or Figure(0, 0), self.stick or yardstick
        if self.latspan.least <= self._limit(self.target, stick.least, rival.least):
            middle = self.latspan.middle
            if middle is None or stick.middle is None:
                return "yes"
            if middle <= self._limit(self.target, stick.middle, rival.middle or rival.least):
                return "yes"
            return "minimum only"
        return "no" if self.target.due else "no, not due yet"

    def _limit(self, target: Target, yardstick: float, rival: float) -> float:
        if target.most is None:
            return (target.ratio or 0) * rival
        return target.most * (yardstick / REFERENCE_YARDSTICK_US if self.unit == "µs" else 1)


def machine() -> str:
    """Return what this runs on, in a few words."""
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def yardstick(repeats: int = 100) -> list[float]:
    """Return what ``append(perf_counter_ns())`` took, over and over, in microseconds."""
    times = 1_000
    results: list[float] = []
    for _ in range(repeats):
        stamps: list[int] = []
        append, now = stamps.append, time.perf_counter_ns
        before = time.thread_time_ns()
        for _ in range(times):
            append(now())
        results.append((time.thread_time_ns() - before) / times / 1000)
    return results


def scattered_heap() -> None:
    """Take memory here and there, for good: what comes next lies elsewhere in each process."""
    taken = [bytes(random.randrange(2_000)) for _ in range(random.randrange(20_000))]  # noqa: S311
    _BALLAST.extend(taken[:: random.randrange(2, 9)])  # noqa: S311


def settled_heap() -> None:
    """Put what exists now beyond the garbage collector's reach, which else walks it at random."""
    gc.collect()
    gc.freeze()


@contextmanager
def without_numpy() -> Generator[None]:
    """Hide numpy from code that checks if it is loaded; no code may import it inside the block."""
    numpy = sys.modules.pop("numpy", None)
    try:
        yield
    finally:
        if numpy is not None:
            sys.modules["numpy"] = numpy


def interleaved(measures: Sequence[Measure], repeats: int) -> list[list[float]]:
    """
    Measure each in turn, over and over, each time in another order.

    The previous measure affects the next one through the caches, so the order changes each time.

    Args:
        measures: What to measure.
        repeats: How often.

    Returns:
        The results of each.
    """
    results: list[list[float]] = [[] for _ in measures]
    order = list(range(len(measures)))
    orders = random.Random(1)  # noqa: S311 - the same orders each run
    for _ in range(repeats):
        orders.shuffle(order)
        for index in order:
            results[index].append(measures[index]())
    return results


def figure(results: Sequence[float]) -> Figure:
    """Return the least and the median."""
    return Figure(min(results), median(results), _half(results))


def added(bare: Sequence[float], more: Sequence[float], *, turns: int = _ROUND) -> Figure:
    """
    Return what ``more`` costs above ``bare``, measured in turns.

    Neither figure is a difference of two single results, which is mostly whatever else the
    machine did meanwhile: the least is that of the lower deciles, and the median is of the
    differences between the least of some turns each.

    Args:
        bare: Without it, in turns.
        more: With it.
        turns: Of how many the least is taken; 1 where each result is one of many calls already.
    """
    differences = list(map(sub, _leasts(more, turns), _leasts(bare, turns)))
    return Figure(
        _lower_decile(more) - _lower_decile(bare), median(differences), _half(differences)
    )


def interleaved_yardstick(sticks: Sequence[float], *, turns: int = _ROUND) -> Figure:
    """
    Return the yardstick that took turns with an added cost, as :func:`added` does with that.

    Args:
        sticks: Of passes as long as the others, in turns: one short pass finds a moment that the
            others never see.
        turns: As for the added cost.
    """
    leasts = _leasts(sticks, turns)
    return Figure(_lower_decile(sticks), median(leasts), _half(leasts))


def _leasts(results: Sequence[float], turns: int) -> list[float]:
    """Return the least of each so many turns."""
    return [min(results[begin : begin + turns]) for begin in range(0, len(results), turns)]


def _lower_decile(results: Sequence[float]) -> float:
    return quantiles(results, n=10, method="inclusive")[0]


def _half(results: Sequence[float]) -> tuple[float, float]:
    if len(results) < 2:
        return results[0], results[0]
    low, _, high = quantiles(results, n=4, method="inclusive")
    return low, high
