"""The rule on requests that are slow because they come first: after a start, or after idle time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._model.metrics import OF_PACE
from latspan._model.segments import SegmentName
from latspan._model.text import percent
from latspan._model.units import rounded_ms
from latspan._study.diagnose._cause import Cause
from latspan._study.diagnose._facts import VARIED, Facts
from latspan._study.diagnose._finding import Finding
from latspan._study.stats import hypergeometric_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

_COLD: Final = 3.0
"""Ratio of the first requests to the others from which a start is cold."""

_AS_SLOW: Final = 0.5
"""Fraction of the time of cold requests from which another request is as slow."""

_FIRST: Final = 5
"""Number of requests after a start, or after a known idle time, that count as the first ones."""

_IDLE_NS: Final = 30e9
"""Idle time after which a system may be cold, whatever the recording shows."""

_IDLE_QUANTILES: Final = np.linspace(0, 0.95, 20)
"""Quantiles of the idle times that are tried as the time after which a system is cold."""

_MIN_IDLE: Final = 6
_MIN_STARTS: Final = 3
_TWICE: Final = 2.0
_MOSTLY: Final = 0.5
_CHANCE: Final = 0.01
"""Probability of slow starts by chance, for all tried idle times together, that is small enough."""

_STARTS: Final = 0.7
"""Fraction of the starts after an idle time that are slow, if the length of the time is a guess."""

_AT_ONCE: Final = 1 / 3
"""Time between slow requests, over that between others, from which they come in a short time."""

_EARLY: Final = 0.2
"""Fraction of the requests that may be slow because the system has just started."""

_COLD_AT_FIRST: Final = frozenset(
    {
        *(SegmentName.CONNECT, SegmentName.PREPARE, SegmentName.MODEL_LOAD),
        *(SegmentName.SERVER_WAIT, SegmentName.PREFILL, SegmentName.DECODE),
    }
)
"""Segments that are longer in a system that has just started; a queue has other causes."""


class _Cold(NamedTuple):
    """
    First requests that are slow.

    Args:
        slow: Which requests these are.
        warm_ns: Median of the requests that are no first ones, in nanoseconds.
        share: Their share of the time of the tail beyond that of warm requests.
        idle_ns: Length of the idle times after which they come, in nanoseconds; 0 if they come
            after the start of the recording.
    """

    slow: NDArray[np.bool_]
    warm_ns: float
    share: float
    idle_ns: float = 0.0


def cold_start(facts: Facts) -> Finding | None:
    """Return the finding if the tail consists of the first requests after a start or idle time."""
    if facts.table.goal.metric in OF_PACE:
        # A stream that has begun comes from a system that has started.
        return None
    cold = _after_idle_times(facts) or _after_the_start(facts)
    if cold is None or _come_at_once(facts, cold.slow):
        return None
    cold_ns = float(np.median(facts.table.value_ns[cold.slow]))
    when, lever = "a start", "warm up before users arrive: connections, model, caches"
    if cold.idle_ns:
        when = f"an idle time of {rounded_ms(cold.idle_ns)} or more"
        lever = "keep the system awake between requests, or warm it up before users come back"
    return Finding(
        Cause.COLD_START,
        f"the first requests after {when} are slow",
        lever,
        (
            (
                f"{int(cold.slow.sum())} of the first requests take {rounded_ms(cold_ns)}, later"
                f" ones {rounded_ms(cold.warm_ns)}"
            ),
            f"they account for {percent(cold.share)} of the time beyond that of warm requests",
        ),
        "requests in the middle of a busy time are as slow",
        (facts.leader.name,),
    )


def _come_at_once(facts: Facts, slow: NDArray[np.bool_]) -> bool:
    """
    Return whether slow requests come in a short time, and meet more others than warm ones.

    They may be slow because of one another, whether the system has just started or not. Users of
    whom each waits for the response before the next request also send their first requests at once,
    but as many of them are in flight later.
    """
    start_ns = facts.table.start_ns
    apart_ns = np.diff(start_ns, prepend=start_ns[:1])
    behind = slow.copy()
    behind[1:] &= slow[:-1]
    behind[0] = False
    if behind.sum() < _MIN_STARTS or slow.all():
        return False
    load = facts.in_flight_at_server
    met, usual = float(np.median(load[slow])), float(np.median(load[~slow]))
    if met < max(usual + VARIED, _TWICE * usual):
        return False
    return bool(apart_ns[behind].mean() < _AT_ONCE * apart_ns[~slow].mean())


def _idle_before(facts: Facts) -> NDArray[np.float64]:
    """Return the time without any request in flight before each one; 0 if there was none."""
    start = facts.table.start_ns.astype(np.float64)
    ends = np.maximum.accumulate(start + facts.table.duration_ns)
    idle = np.zeros(len(start))
    idle[1:] = np.clip(start[1:] - ends[:-1], 0, None)
    return idle


def _after_idle_times(facts: Facts) -> _Cold | None:
    """Return the requests that are slow after idle times of 30 s, or of a shorter length."""
    if facts.leader.name == SegmentName.CONNECT:
        # An idle connection was closed, and the system behind it need not be cold.
        return None
    idle_ns = _idle_before(facts)
    begins = np.union1d([0], np.flatnonzero(idle_ns >= _IDLE_NS))
    cold = _slow_first(facts, begins, _FIRST)
    if cold is None:
        return _after_shorter_idle_times(facts, idle_ns)
    return cold._replace(idle_ns=_IDLE_NS) if len(begins) > 1 else cold


def _after_shorter_idle_times(facts: Facts, idle_ns: NDArray[np.float64]) -> _Cold | None:
    """
    Return the requests that are slow after idle times of a length that the recording shows.

    How long a system must be idle to be cold is not known, so several lengths are tried. In sparse
    traffic, some slow requests happen to be the first ones: nearly all starts after the longer idle
    times must be slow, clearly fewer after the shorter ones, and more than by chance.
    """
    some = idle_ns[idle_ns > 0]
    if len(some) < _MIN_IDLE:
        return None
    lengths = np.unique(np.quantile(some, _IDLE_QUANTILES, method="lower"))
    for length_ns in lengths[lengths < _IDLE_NS].tolist():
        begins = np.flatnonzero(idle_ns >= length_ns)
        if len(begins) < _MIN_STARTS:
            return None
        # What was before the recording is not known: its first request may be cold as well.
        cold = _slow_first(facts, np.union1d([0], begins), 1)
        if cold is None:
            continue
        others = (idle_ns > 0) & (idle_ns < length_ns)
        seldom = float(cold.slow[others].mean()) if others.any() else 0.0
        is_often = cold.slow[begins].mean() >= max(_STARTS, _TWICE * seldom)
        if is_often and _chance(facts, cold.slow, begins) * len(lengths) < _CHANCE:
            return cold._replace(idle_ns=float(idle_ns[begins][cold.slow[begins]].min()))
    return None


def _chance(facts: Facts, slow: NDArray[np.bool_], begins: NDArray[np.int64]) -> float:
    """
    Return the probability that as many of the starts are slow by chance.

    Args:
        facts: The facts.
        slow: Which of the first requests are slow.
        begins: The starts.
    """
    rest = ~slow
    rest[begins] = False
    as_slow, starts = int(_as_slow(facts, slow)[rest].sum()), int(slow[begins].sum())
    return hypergeometric_tail(starts, int(rest.sum()) + len(begins), as_slow + starts, len(begins))


def _as_slow(facts: Facts, slow: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which requests are as slow as some slow ones."""
    values = facts.table.value_ns
    return values > _AS_SLOW * float(np.median(values[slow]))


def _after_the_start(facts: Facts) -> _Cold | None:
    """Return the requests that are slow because the system has just started."""
    if facts.leader.name not in _COLD_AT_FIRST:
        return None
    cold = _slow_of(facts, np.arange(len(facts.table)) < len(facts.table) * _EARLY)
    return None if cold is None or not cold.slow[:_FIRST].any() else cold


def _slow_first(facts: Facts, begins: NDArray[np.int64], count: int) -> _Cold | None:
    """
    Return the first requests if most starts are slow.

    Args:
        facts: The facts.
        begins: The starts.
        count: Number of requests from each start on that are first ones.
    """
    start_ns, size = facts.table.start_ns, len(facts.table)
    # A request that starts while the first one still runs waits for the same thing.
    ready_ns = start_ns[begins] + np.nan_to_num(facts.table.value_ns[begins])
    ends = np.maximum(np.searchsorted(start_ns, ready_ns), begins + count)
    changes = np.bincount(begins, minlength=size + 1)
    changes -= np.bincount(np.minimum(ends, size), minlength=size + 1)
    cold = _slow_of(facts, np.cumsum(changes[:size]) > 0)
    if cold is None or cold.slow[begins].mean() < _MOSTLY:
        return None
    # What is as slow in the middle of a busy time has another cause.
    others = int((_as_slow(facts, cold.slow) & ~cold.slow).sum())
    return None if others > _MOSTLY * cold.slow.sum() else cold


def _slow_of(facts: Facts, first: NDArray[np.bool_]) -> _Cold | None:
    """Return which first requests are slow, if they account for most of the excess of the tail."""
    if first.all():
        return None
    values, tail = facts.table.value_ns, facts.attribution.tail
    warm_ns = float(np.nanmedian(values[~first]))
    slow = first & (values > _COLD * warm_ns)
    if not slow.any() or facts.are_larger(slow):
        return None
    beyond = 1 - facts.table.goal.percentile / 100
    if not facts.attribution.by_excess and slow.mean() < beyond:
        # The percentile hardly differs from a typical value, and falls on a warm request.
        return None
    # The band holds more units than were cold, so their share of its excess decides.
    excess = np.clip(np.nan_to_num(values[tail] - warm_ns), 0, None)
    share = float(excess[slow[tail]].sum() / excess.sum()) if excess.sum() else 0.0
    return None if share < _MOSTLY else _Cold(slow, warm_ns, share)
