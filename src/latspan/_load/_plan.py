"""
Plan of a measurement: its steps, and the phase of each request.

A measurement has one step, or several of rising load: a ladder. In each step the load goes on from
the first warm-up request until the last measured one has ended, so that every measured request
meets the same load:

``warmup``
    Connections are opened, caches fill. Not counted.
``measured``
    Counted.
``drain``
    Sent until the last measured request has ended, because the last ones would otherwise meet a
    server that is already less loaded. Not counted.

Before the first step, a single request after an idle time is the ``cold`` sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from latspan._base.nanoseconds import NS_PER_S
from latspan._load._schedule import Schedule, closed_loop, open_loop
from latspan._model.goals import Arrivals
from latspan._model.segments import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStep:
    """
    Load at one level.

    Args:
        schedule: When its requests are due, those of warm-up and drain included.
        warmup: Number of requests that are not counted yet.
        measured: Number of counted requests; ``None`` in a closed loop for as many as begin within
            ``duration_ns``.
        duration_ns: Time in which counted requests begin; ``None`` for no limit.
    """

    schedule: Schedule
    warmup: int
    measured: int | None
    duration_ns: int | None = None

    def phase_of(self, index: int) -> Phase:
        """Return the phase of the request with that index, if measured requests are in flight."""
        if index < self.warmup:
            return Phase.WARMUP
        if self.measured is None or index < self.warmup + self.measured:
            return Phase.MEASURED
        return Phase.DRAIN


def step_of(
    pattern: Arrivals,
    level: float,
    *,
    warmup: int,
    requests: int | None,
    duration_ns: int | None,
    seed: int = 0,
    burstiness: float = 1.0,
) -> LoadStep:
    """
    Return a step.

    A fixed number of counted requests in an open loop arrives at exactly the mean rate. With a
    duration, the number is random and the rate is not scaled.

    Args:
        pattern: Pattern of the arrivals.
        level: Requests per second, or requests in flight of a closed loop.
        warmup: Number of requests that are not counted yet.
        requests: Number of counted requests; ``None`` for as many as begin within ``duration_ns``.
        duration_ns: Time in which counted requests begin; ``None`` for no limit.
        seed: Seed of the gaps.
        burstiness: Shape of the gamma distribution.
    """
    if pattern is Arrivals.CLOSED:
        return LoadStep(
            schedule=closed_loop(round(level)),
            warmup=warmup,
            measured=requests,
            duration_ns=duration_ns,
        )
    most = requests
    if most is None:
        # Twice the expected number: a Poisson count of 100 exceeds it once in 10^20 times.
        most = round(2 * level * (duration_ns or 0) / NS_PER_S) + 100
    schedule = open_loop(pattern, level, warmup + 2 * most, seed=seed, burstiness=burstiness)
    if requests is not None and duration_ns is None:
        schedule = schedule.paced(warmup, requests)
    return cut_to(schedule, warmup=warmup, requests=requests, duration_ns=duration_ns)


def cut_to(
    schedule: Schedule, *, warmup: int, requests: int | None, duration_ns: int | None
) -> LoadStep:
    """
    Return the step of an open loop whose schedule is longer than necessary.

    The drain has at most as many requests as are measured.
    """
    most = len(schedule.offsets_ns) - warmup
    measured = most if requests is None else min(most, requests)
    if duration_ns is not None:
        measured = min(measured, schedule.within(warmup, duration_ns))
    offsets = schedule.offsets_ns[: warmup + 2 * measured]
    return LoadStep(
        schedule=replace(schedule, offsets_ns=offsets),
        warmup=warmup,
        measured=measured,
        duration_ns=duration_ns,
    )


def ladder(lowest: float) -> Iterator[float]:
    """Yield the levels of a ladder without end: each one is twice the level before it."""
    for power in count():
        yield lowest * 2**power
