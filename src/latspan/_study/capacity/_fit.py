"""
Fit of the service of a system to its rungs, from the begin and end of each request alone.

If the number of slots and the slowdown were known, the work of each request would be known too:
requests begin in the order of their arrival when a slot is free, and the work of a request is the
integral of its speed from its begin to its end. A true pair gives works that do not depend on the
load. With too few slots, service is taken for waiting, and works shrink as the load grows; with too
many slots, or too small a slowdown, waiting is taken for service, and works grow.

So each pair of a grid is scored by the differences of the mean logarithm of the work between groups
of requests: of each rung, those that arrived at a less loaded, a medium and a more loaded system.
The score of a true pair has a chi-squared distribution; a pair is likely if its score is not much
higher than the least one, and if it gives the throughput that was measured at saturation.

Rate limiters are scored in the same way: with the true one, works do not depend on the load either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._study.capacity._curve import Z_OF_99, Capacity
from latspan._study.capacity._ladder import Rung
from latspan._study.capacity._simulation import Limiter, Service

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_SLOWDOWNS: Final = (0.0, *np.geomspace(0.002, 1.0, 36).tolist())
_GROWTH: Final = 1.12
"""Ratio of neighbouring numbers of slots of the grid above 12."""
_ALL: Final = 12
_MAX_SLOTS: Final = 2_000

_GROUPS: Final = 3
_GROUP: Final = 20
"""Number of requests that a group has at least, if its rung has several."""
_MIN_GROUP: Final = 10
"""Number of requests below which a group is not compared."""

_FLOOR: Final = 0.01
"""Least work, as a fraction of the median: a pair that leaves no time for a request is unlikely."""

_IMPOSSIBLE: Final = 4.0
"""Score of a request that ended before its service could have begun."""

_OTHER_RUN: Final = 0.02
"""Relative error of a measured throughput that its own interval does not show."""

_PARAMETERS: Final = 3
"""Slots, slowdown and the mean; or rate, burst and the mean."""

_BURSTS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100)
_RATES: Final = 41
"""Number of rates of limiters within the interval of the capacity."""


class Works(NamedTuple):
    """
    Work of the completed, measured requests of a rung.

    Args:
        work: Time of the whole service of each if it were alone, seconds.
        first: The same up to the goal metric; equal to ``work`` for the duration.
    """

    work: Values
    first: Values


@dataclass(frozen=True, slots=True)
class Fit:
    """
    Services that are compatible with the rungs.

    Args:
        services: Pairs of the grid, of slots and slowdown or of rate and burst.
        weights: Their likelihoods, which sum to 1.
        dispersion: Least score, divided by its degrees of freedom, at least 1: how much the works
            depend on the load even with the best pair.
    """

    services: tuple[Service | Limiter, ...]
    weights: Values
    dispersion: float

    @property
    def best(self) -> Service | Limiter:
        """The most likely service."""
        return self.services[int(np.argmax(self.weights))]

    def draw(self, random: np.random.Generator, count: int) -> Iterator[Service | Limiter]:
        """Yield services, each as often as it is likely."""
        for index in random.choice(len(self.services), size=count, p=self.weights):
            yield self.services[index]


class _Events(NamedTuple):
    """
    Arrivals and ends of a rung in order.

    Args:
        at: Their instants.
        inside: Number of requests in the system after each.
        ends: The ends, ascending.
        groups: Number of the group of each compared request, by what it found at its arrival.
        compared: Indices of completed, measured requests.
    """

    at: Values
    inside: NDArray[np.int64]
    ends: Values
    groups: NDArray[np.int64]
    compared: NDArray[np.int64]


def fit_service(rungs: Sequence[Rung], capacity: Capacity) -> Fit:
    """
    Return the services that are compatible with some rungs.

    Args:
        rungs: Rungs of one system, among them a saturated one.
        capacity: Measured throughput of the saturated one.
    """
    events = [_events(rung) for rung in rungs]
    groups = np.concatenate([each.groups + _GROUPS * number for number, each in enumerate(events)])
    most = int(max(each.inside.max() for each in events))
    services: list[Service | Limiter] = []
    scores: list[float] = []
    throughputs: list[float] = []
    degrees = 1
    for slots in _slots_up_to(min(most + 1, _MAX_SLOTS)):
        logs, impossible = _logarithms(rungs, events, slots)
        found, degrees = _scores(logs, groups)
        found += _IMPOSSIBLE * impossible
        pairs = [Service(slots, slowdown) for slowdown in _SLOWDOWNS]
        services += pairs
        scores += found.tolist()
        means = np.exp(logs).mean(axis=1).tolist()
        throughputs += [each.throughput / mean for each, mean in zip(pairs, means, strict=True)]
    for limiter in _limiters(capacity):
        logs, impossible = _admitted(rungs, events, limiter)
        found, _ = _scores(logs, groups)
        services.append(limiter)
        scores += (found + _IMPOSSIBLE * impossible).tolist()
        throughputs.append(limiter.per_s)
    score = np.array(scores)
    dispersion = max(1.0, float(score.min()) / degrees)
    score = score / dispersion + _distances(np.array(throughputs), capacity)
    weights = np.exp(-(score - score.min()) / 2)
    return Fit(tuple(services), weights / weights.sum(), dispersion)


def _distances(throughputs: Values, capacity: Capacity) -> Values:
    """Return how far throughputs are from the measured one, in squared standard errors."""
    error = (capacity.high_per_s - capacity.low_per_s) / (2 * Z_OF_99 * capacity.per_s)
    return np.log(throughputs / capacity.per_s) ** 2 / (error**2 + _OTHER_RUN**2)


def _limiters(capacity: Capacity) -> Iterator[Limiter]:
    rates = np.linspace(capacity.low_per_s, capacity.high_per_s, _RATES)
    yield from (Limiter(rate, burst) for rate in rates[rates > 0].tolist() for burst in _BURSTS)


def _admitted(
    rungs: Sequence[Rung], events: Sequence[_Events], limiter: Limiter
) -> tuple[Values, int]:
    """Return the logarithm of each work behind a limiter, as :func:`_logarithms` does."""
    works = [
        (rung.end - limiter.begins(rung.due))[each.compared]
        for rung, each in zip(rungs, events, strict=True)
    ]
    work = np.concatenate(works)
    return _floored_log(work[None, :]), int((work < 0).sum())


def works_of(rung: Rung, service: Service | Limiter) -> Works:
    """Return the work of the completed, measured requests of a rung under a service."""
    events = _events(rung)
    is_limiter = isinstance(service, Limiter)
    begins = service.begins(rung.due) if is_limiter else _begins(rung, events, service.slots)
    begin, end, first = (
        instants[events.compared] for instants in (begins, rung.end, rung.due + rung.value)
    )
    if not is_limiter:
        done = _work_done(events, service.slots, np.array([service.slowdown]))[0]
        begin, end, first = (_done_at(each, events, done) for each in (begin, end, first))
    work = np.maximum(end - begin, 0.0)
    return Works(work, np.clip(first - begin, 0.0, work))


def _done_at(instants: Values, events: _Events, done: Values) -> Values:
    """Return the work that was done at some instants, between events too."""
    places = np.clip(np.searchsorted(events.at, instants, side="right") - 1, 0, len(done) - 2)
    length = np.maximum(events.at[places + 1] - events.at[places], 1e-12)
    part = np.clip((instants - events.at[places]) / length, 0.0, 1.0)
    return done[places] + part * (done[places + 1] - done[places])


def _slots_up_to(maximum: int) -> Iterator[int]:
    slots = 0
    while slots < maximum:
        slots = max(slots + 1, round(slots * _GROWTH) if slots > _ALL else 0)
        yield slots


def _events(rung: Rung) -> _Events:
    at = np.concatenate([rung.due, rung.end])
    change = np.concatenate([np.ones(len(rung.due)), -np.ones(len(rung.end))]).astype(np.int64)
    # An end frees its slot before an arrival at the same instant.
    order = np.lexsort((change, at))
    inside = np.cumsum(change[order])
    ends = np.sort(rung.end)
    found = np.arange(len(rung.due)) - np.searchsorted(ends, rung.due, side="right")
    compared = np.flatnonzero(rung.measured & np.isfinite(rung.value))
    parts = min(_GROUPS, max(1, len(compared) // _GROUP))
    limits = np.quantile(found[compared], np.arange(1, parts) / parts) if parts > 1 else np.empty(0)
    groups = np.searchsorted(limits, found[compared], side="left")
    return _Events(at[order], inside, ends, groups, compared)


def _begins(rung: Rung, events: _Events, slots: int) -> Values:
    """Return when the service of each request began: at its arrival, or when a slot was free."""
    begins = rung.due.copy()
    if slots < len(begins):
        begins[slots:] = np.maximum(begins[slots:], events.ends[:-slots])
    return begins


def _work_done(events: _Events, slots: int, slowdowns: Values) -> Values:
    """Return the work that a request in service all the time has done at each event."""
    others = np.clip(events.inside[:-1], 1, slots) - 1
    speed = 1 / (1 + slowdowns[:, None] * others[None, :])
    done = np.zeros((len(slowdowns), len(events.at)))
    np.cumsum(speed * np.diff(events.at)[None, :], axis=1, out=done[:, 1:])
    return done


def _logarithms(rungs: Sequence[Rung], events: Sequence[_Events], slots: int) -> tuple[Values, int]:
    """
    Return the logarithm of each work for every slowdown; shape ``(slowdowns, n)``.

    The last value is the number of requests that ended before they could begin.
    """
    logs: list[Values] = []
    slowdowns = np.array(_SLOWDOWNS)
    impossible = 0
    for rung, each in zip(rungs, events, strict=True):
        done = _work_done(each, slots, slowdowns)
        begin = _begins(rung, each, slots)[each.compared]
        end = rung.end[each.compared]
        impossible += int((end < begin).sum())
        logs.append(_at(end, each.at, done) - _at(begin, each.at, done))
    return _floored_log(np.concatenate(logs, axis=1)), impossible


def _floored_log(work: Values) -> Values:
    """Return the logarithm of works, of at least a fraction of the median of their row."""
    floor = _FLOOR * np.maximum(np.median(work, axis=1, keepdims=True), 1e-9)
    return np.log(np.maximum(work, floor))


def _at(instants: Values, at: Values, done: Values) -> Values:
    """Return the work that was done at some instants, which are among the events or later."""
    places = np.clip(np.searchsorted(at, instants, side="right") - 1, 0, len(at) - 1)
    return done[:, places]


def _scores(logs: Values, groups: NDArray[np.int64]) -> tuple[Values, int]:
    """Return the score of each slowdown, and its degrees of freedom."""
    names, places, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    kept = sizes >= _MIN_GROUP
    sums = np.zeros((len(logs), len(names)))
    squares = np.zeros_like(sums)
    for group in np.flatnonzero(kept):
        chosen = logs[:, places == group]
        sums[:, group] = chosen.sum(axis=1)
        squares[:, group] = (chosen**2).sum(axis=1)
    size = np.maximum(sizes, 1)
    means = sums / size
    within = (squares - sums * means)[:, kept].sum(axis=1) / max(1, sizes[kept].sum() - kept.sum())
    weight = sizes * kept
    overall = (means * weight).sum(axis=1) / max(1, weight.sum())
    between = (weight * (means - overall[:, None]) ** 2).sum(axis=1)
    # Relative to the variation of the works themselves, which shrinks if they are all floored.
    score = between / np.maximum(within, 1e-6)
    return score, max(1, int(kept.sum()) - _PARAMETERS)
