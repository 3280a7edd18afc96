"""
Code that all benchmarks share: the yardstick, interleaved measurements, and the rows of results.

An added cost is the difference between two measurements that take turns in one process. So the
other work of the machine affects both in the same way.
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

REFERENCE_YARDSTICK_US: Final = 0.05
"""Yardstick of the machine for which targets in microseconds are stated."""

_ROUND: Final = 10
"""Number of consecutive turns that form a group; only the minimum of each group is used."""

_BALLAST: Final[list[bytes]] = []
"""Memory that :func:`scattered_heap` has allocated."""

Measure = Callable[[], float]
"""Function that measures once and returns microseconds."""

Unit = Literal["µs", "ms", "MiB", "B", "%"]
"""
Unit of a figure: µs for CPU time, ms for elapsed time, MiB for memory, B for a size on the wire,
and % for a relative error or a share of a CPU.

Only microseconds are compared in multiples of the yardstick.
"""


@dataclass(frozen=True, slots=True)
class Scale:
    """
    Scale of a run: full or quick.

    Args:
        quick: Whether to repeat less often. The figures are then less certain.
    """

    quick: bool

    def of(self, repeats: int) -> int:
        """
        Return the number of repeats in this run: a fifth of ``repeats``, but at least 5, if quick.

        Args:
            repeats: Number of repeats in a full run.
        """
        return max(5, repeats // 5) if self.quick else repeats


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One result, in its row's unit.

    Args:
        least: Minimum of all repeats: the cost without disturbance. For an added cost, the
            difference between the two lower deciles.
        middle: Median of all repeats. For an added cost, the median of the differences, as
            :func:`added` describes. ``None`` if the figure was measured once, because other work
            on the machine does not affect it.
        half: Lower and upper quartile of the repeats; for an added cost, of the differences.
    """

    least: float
    middle: float | None = None
    half: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """
    Target for a figure: either ``most`` or ``ratio``.

    Args:
        most: Upper limit, in the row's unit. Microseconds are stated for a machine whose yardstick
            is 0.05 µs, so one microsecond is 20 yardsticks. Every other unit is the same on every
            machine.
        ratio: Upper limit, as a multiple of the rival's figure.
        due: Whether the code that must meet the target exists.
    """

    most: float | None = None
    ratio: float | None = None
    due: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One row of the table.

    Args:
        what: Name of the measured operation.
        latspan: Figure of latspan: an added cost, unless ``what`` names another figure.
        rival: Figure of the alternative, measured in the same run; ``None`` if there is none.
        rival_name: Name of the alternative.
        target: Target of the figure; ``None`` if it has none.
        unit: Unit of both figures.
        stick: Yardstick that took turns with this measurement; ``None`` to use the yardstick of
            the whole run. On a shared machine, the speed changes during a run.
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
        """Figure of latspan as a multiple of the rival's; ``None`` without a rival."""
        if self.rival is None or not self.rival.least:
            return None
        return self.latspan.least / self.rival.least

    def yardsticks(self, yardstick: Figure) -> float | None:
        """Return the figure in yardsticks; ``None`` if its unit is not microseconds."""
        stick = self.stick or yardstick
        return self.latspan.least / stick.least if self.unit == "µs" else None

    def verdict(self, yardstick: Figure) -> str:
        """
        Return whether the target is met on this machine; the empty string without a target.

        The minimum is compared with a limit from the minimum of the yardstick, and the median with
        a limit from its median, because other work on the machine slows the yardstick down too.

        Args:
            yardstick: Yardstick of the whole run, in microseconds, for rows without their own.
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
    """Return the Python version, the operating system and the architecture."""
    return f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"


def yardstick(repeats: int = 100) -> list[float]:
    """
    Return the CPU time of ``append(perf_counter_ns())`` in microseconds, once per repeat.

    Each value is the mean of 1,000 calls.
    """
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
    """
    Allocate a random amount of memory in scattered places, and keep it.

    Objects that are created afterwards have different addresses in each process.
    """
    taken = [bytes(random.randrange(2_000)) for _ in range(random.randrange(20_000))]  # noqa: S311
    _BALLAST.extend(taken[:: random.randrange(2, 9)])  # noqa: S311


def settled_heap() -> None:
    """
    Exclude all existing objects from garbage collection.

    Otherwise, a collection could traverse them at any point of a measurement.
    """
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
    Run the measurements in turn, in a different order in each round.

    A measurement affects the next one through the caches, so the order changes.

    Args:
        measures: Measurements.
        repeats: Number of rounds.

    Returns:
        The results of each measurement, in microseconds, one per round.
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
    """Return the minimum, the median and the quartiles of the results."""
    return Figure(min(results), median(results), _half(results))


def added(bare: Sequence[float], more: Sequence[float], *, turns: int = _ROUND) -> Figure:
    """
    Return the added cost: the cost of ``more`` minus the cost of ``bare``, measured in turns.

    The difference between two single results mostly shows the other work of the machine. So
    ``least`` is the difference between the lower deciles. For ``middle``, the results form groups
    of ``turns`` consecutive results; it is the median of the differences between the minimums of
    corresponding groups.

    Args:
        bare: Results without the added code.
        more: Results with the added code, in the same rounds.
        turns: Number of results per group; 1 if each result already covers many calls.
    """
    differences = list(map(sub, _leasts(more, turns), _leasts(bare, turns)))
    return Figure(
        _lower_decile(more) - _lower_decile(bare), median(differences), _half(differences)
    )


def interleaved_yardstick(sticks: Sequence[float], *, turns: int = _ROUND) -> Figure:
    """
    Return the yardstick that took turns with an added cost, computed as :func:`added` does.

    Args:
        sticks: Yardstick in each round. Each pass must take as long as the other measurements:
            a short pass may fit entirely in a quiet moment of the machine.
        turns: Number of results per group, as for the added cost.
    """
    leasts = _leasts(sticks, turns)
    return Figure(_lower_decile(sticks), median(leasts), _half(leasts))


def _leasts(results: Sequence[float], turns: int) -> list[float]:
    """Return the minimum of each group of ``turns`` consecutive results."""
    return [min(results[begin : begin + turns]) for begin in range(0, len(results), turns)]


def _lower_decile(results: Sequence[float]) -> float:
    return quantiles(results, n=10, method="inclusive")[0]


def _half(results: Sequence[float]) -> tuple[float, float]:
    if len(results) < 2:
        return results[0], results[0]
    low, _, high = quantiles(results, n=4, method="inclusive")
    return low, high
