"""What rungs show by themselves: percentiles with intervals, saturation, the throughput at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._study.capacity._ladder import Rung
from latspan._study.stats import block_indices
from latspan.histogram._rank import rank_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SATURATED: Final = 0.9
"""Throughput at saturation is below this fraction of the offered load: see the load runner."""
_GROWTH: Final = 1.5
"""Factor by which the last third of the requests takes longer than the first at saturation."""

MAX_FAILED: Final = 0.01
"""Largest fraction of failed requests of a rung whose load the system serves."""

_DRAWS: Final = 400
_SEED: Final = 4_101
_BATCHES: Final = 10
Z_OF_99: Final = 2.576
"""99.5th percentile of the normal distribution."""
_T_OF_BATCHES: Final = 3.250
"""99.5th percentile of Student's t with 9 degrees of freedom."""


class Point(NamedTuple):
    """
    Percentile that a rung measured.

    Args:
        rate_per_s: Offered load.
        value_s: The percentile; infinite if it falls on failed requests.
        low_s: Lower end of its 95 % interval.
        high_s: Upper end.
        requests: Number of measured requests.
        failed: Number of them that failed.
        saturated: Whether requests arrived faster than they ended.
        given_up: Number of requests that were given up.
    """

    rate_per_s: float
    value_s: float
    low_s: float
    high_s: float
    requests: int
    failed: int
    saturated: bool
    given_up: int = 0


class Capacity(NamedTuple):
    """
    Throughput of a saturated system, requests per second, with its 99 % interval.

    Args:
        per_s: The throughput.
        low_per_s: Lower end.
        high_per_s: Upper end.
    """

    per_s: float
    low_per_s: float
    high_per_s: float


def percentile_of(values: NDArray[np.float64], percentile: float) -> float:
    """
    Return the value at the rank of a percentile, as ``latspan measure`` shows it.

    Args:
        values: In any order, at least one; infinite for failed requests.
        percentile: In (0, 100).
    """
    rank = rank_of(percentile, len(values)) - 1
    return float(np.partition(values, rank)[rank])


def point_of(rung: Rung, percentile: float) -> Point:
    """
    Return the percentile of a rung with its interval, from a bootstrap of blocks of 25 requests.

    Args:
        rung: The rung.
        percentile: In (0, 100).
    """
    values = rung.values
    random = np.random.default_rng(_SEED)
    drawn = [
        percentile_of(values[block_indices(len(values), random)], percentile) for _ in range(_DRAWS)
    ]
    # By rank, because infinite values have no mean.
    low, high = (percentile_of(np.array(drawn), each) for each in (2.5, 97.5))
    return Point(
        rung.rate_per_s,
        percentile_of(values, percentile),
        low,
        high,
        len(values),
        rung.failed,
        is_saturated(rung),
        rung.cut,
    )


def is_saturated(rung: Rung) -> bool:
    """Return whether requests arrived faster than they ended, and waited ever longer."""
    due, end = rung.due[rung.measured], rung.end[rung.measured]
    third = len(due) // 3
    if not third or due[-1] <= due[0] or end.max() <= end.min():
        return False
    waits = end - due
    early, late = float(np.median(waits[:third])), float(np.median(waits[-third:]))
    offered = (len(due) - 1) / (due[-1] - due[0])
    throughput = (len(end) - 1) / (end.max() - end.min())
    return bool(throughput < _SATURATED * offered and late > _GROWTH * early)


def capacity_of(rungs: Sequence[Rung]) -> Capacity | None:
    """
    Return the throughput of the least overloaded of the saturated rungs, ``None`` without one.

    The first third of the requests is left out, because they met a system that was not full yet.
    What ends after the last arrival is left out too, because the system empties then. The interval
    is that of the mean gaps of ten batches of consecutive ends, and a rung that is not saturated
    shows that the capacity is at least its load.

    Returns:
        ``None`` also if too few requests end before the last arrival.
    """
    saturated = [rung for rung in rungs if is_saturated(rung)]
    if not saturated:
        return None
    rung = min(saturated, key=lambda each: each.rate_per_s)
    last = min(float(rung.end[rung.measured].max()), float(rung.due[-1]))
    ends = np.sort(rung.end[np.isfinite(rung.value)])
    ends = ends[ends <= last]
    ends = ends[len(ends) // 3 :]
    if len(ends) <= _BATCHES or ends[-1] <= ends[0]:
        return None
    per_s = (len(ends) - 1) / float(ends[-1] - ends[0])
    # Of as many requests each, because numbers of requests in equal times are whole numbers.
    limits = np.linspace(0, len(ends) - 1, _BATCHES + 1).astype(np.int64)
    gaps = np.diff(ends[limits]) / np.diff(limits)
    error = per_s * float(gaps.std(ddof=1)) / math.sqrt(_BATCHES) / float(gaps.mean())
    half = _T_OF_BATCHES * error
    sustained = max((each.rate_per_s for each in rungs if _is_sustained(each)), default=0.0)
    return Capacity(
        *(max(sustained, each) for each in (per_s, max(0.0, per_s - half), per_s + half))
    )


def _is_sustained(rung: Rung) -> bool:
    """Return whether a system serves the load of a rung: requests succeed as fast as they come."""
    return not is_saturated(rung) and rung.failed + rung.cut <= MAX_FAILED * len(rung.values)
