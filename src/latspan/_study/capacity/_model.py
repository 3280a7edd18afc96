"""
Model of a system: percentiles that tests at a given load would measure, one per replicate.

A replicate is one possible test. It draws a service that is compatible with the rungs, the works of
its requests, and its gaps: blocks of consecutive gaps of the rungs, divided by the load, so bursts
stay bursts. It has as many requests as the rungs have. So the replicates differ by what is unknown
about the system, and by chance of a test of that length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from latspan._study.capacity._curve import Capacity, percentile_of
from latspan._study.capacity._fit import Works, fit_service, works_of
from latspan._study.capacity._ladder import Rung
from latspan._study.capacity._simulation import Limiter, Service, simulate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

_BLOCK: Final = 25
"""Number of consecutive gaps that are drawn together."""

_WARMUP: Final = 20
_AFTER: Final = 0.2
"""Requests that arrive after the counted ones, as a fraction of them, which slow the last ones."""

_SEED: Final = 4_100
_CAPACITIES: Final = 100


class _Drawn(NamedTuple):
    """One replicate, apart from its load: gaps have a mean of about 1."""

    service: Service | Limiter
    gaps: Values
    work: Values
    first: Values


class Model:
    """
    Model of a system, fitted to rungs.

    Args:
        rungs: Rungs of the system, among them a saturated one.
        capacity: Measured throughput of the saturated one.
        percentile: Percentile to return, in (0, 100).
        requests: Number of requests of a replicate.
        whole: Whether the goal metric is the duration, so that there is no first part.
    """

    def __init__(
        self,
        rungs: Sequence[Rung],
        capacity: Capacity,
        *,
        percentile: float,
        requests: int,
        whole: bool,
    ) -> None:
        self._rungs = rungs
        self._percentile = percentile
        self._requests = requests
        self._whole = whole
        self._gaps = [rung.gaps for rung in rungs]
        self._works: dict[Service | Limiter, Works] = {}
        self.fit: Final = fit_service(rungs, capacity)
        """Services that are compatible with the rungs."""

    def replicates(self, rates_per_s: Sequence[float], count: int) -> Values:
        """
        Return the percentile of each replicate at each load, in seconds.

        The replicates of all loads are the same ones, so a row is a curve without noise of its own.

        Args:
            rates_per_s: Loads.
            count: Number of replicates.

        Returns:
            Shape ``(count, n_rates)``.
        """
        return np.array(
            [
                [self._percentile_of(drawn, rate) for rate in rates_per_s]
                for drawn in self._draws(count)
            ]
        )

    def capacity(self, quantile: float) -> float:
        """Return a quantile of the throughput of the services at saturation, per second."""
        random = np.random.default_rng(_SEED)
        found: list[float] = []
        for service in self.fit.draw(random, _CAPACITIES):
            if isinstance(service, Limiter):
                found.append(service.per_s)
                continue
            work = self._works_under(service).work
            drawn = work[random.integers(0, len(work), len(work))]
            found.append(service.throughput / float(drawn.mean()))
        return float(np.quantile(found, quantile))

    def _draws(self, count: int) -> Iterator[_Drawn]:
        random = np.random.default_rng(_SEED)
        size = _WARMUP + self._requests + round(_AFTER * self._requests)
        for service in self.fit.draw(random, count):
            works = self._works_under(service)
            # Drawn twice, so that replicates also differ by which requests were measured.
            known = random.integers(0, len(works.work), len(works.work))
            chosen = known[random.integers(0, len(known), size)]
            gaps = _blocks(self._gaps, size, random)
            yield _Drawn(service, gaps, works.work[chosen], works.first[chosen])

    def _works_under(self, service: Service | Limiter) -> Works:
        if service not in self._works:
            each = [works_of(rung, service) for rung in self._rungs]
            self._works[service] = Works(
                np.concatenate([works.work for works in each]),
                np.concatenate([works.first for works in each]),
            )
        return self._works[service]

    def _percentile_of(self, drawn: _Drawn, rate_per_s: float) -> float:
        arrivals = np.cumsum(drawn.gaps) / rate_per_s
        times = simulate(drawn.service, arrivals, drawn.work, None if self._whole else drawn.first)
        values = (times.end if self._whole else times.first) - arrivals
        return percentile_of(values[_WARMUP : _WARMUP + self._requests], self._percentile)


def _blocks(pools: Sequence[Values], size: int, random: np.random.Generator) -> Values:
    """Return gaps in blocks, each from one rung."""
    found: list[Values] = []
    missing = size
    while missing > 0:
        pool = pools[int(random.integers(len(pools)))]
        start = int(random.integers(max(1, len(pool) - _BLOCK + 1)))
        found.append(pool[start : start + _BLOCK])
        missing -= len(found[-1])
    return np.concatenate(found)[:size]
