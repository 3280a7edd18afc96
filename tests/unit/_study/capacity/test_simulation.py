"""The event simulation, against closed forms of queueing theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from latspan._study.capacity import Service, percentile_of, simulate
from support.queues import System, constant, lognormal

_SIZE = 120_000


def _poisson(rate_per_s: float, seed: int, size: int = _SIZE) -> NDArray[np.float64]:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_per_s, size))


def test_one_server_with_exponential_times() -> None:
    """M/M/1: the time in the system is exponential with rate 1 - load."""
    arrivals = _poisson(0.5, 1)
    work = np.random.default_rng(2).exponential(1, _SIZE)
    durations = simulate(Service(1, 0.0), arrivals, work).end - arrivals
    assert durations.mean() == pytest.approx(1 / 0.5, rel=0.04)
    assert percentile_of(durations, 99) == pytest.approx(-math.log(0.01) / 0.5, rel=0.07)


def test_several_servers_with_exponential_times() -> None:
    """M/M/4: the fraction that waits is Erlang's C, and the wait of those is exponential."""
    arrivals = _poisson(3.2, 3)
    work = np.random.default_rng(4).exponential(1, _SIZE)
    waits = simulate(Service(4, 0.0), arrivals, work).begin - arrivals
    # Erlang C for 4 servers and a load of 3.2: 0.5964.
    assert (waits > 0).mean() == pytest.approx(0.5964, rel=0.03)
    assert waits.mean() == pytest.approx(0.5964 / (4 - 3.2), rel=0.06)


def test_one_server_with_constant_times() -> None:
    """M/D/1: the mean is Pollaczek and Khinchine's, the distribution is Erlang's of 1909."""
    load = 0.7
    arrivals = _poisson(load, 5)
    waits = simulate(Service(1, 0.0), arrivals, np.ones(_SIZE)).begin - arrivals
    assert waits.mean() == pytest.approx(load / (2 * (1 - load)), rel=0.05)
    for limit in (0.5, 2.0, 5.0):
        below = (1 - load) * sum(
            (load * (k - limit)) ** k / math.factorial(k) * math.exp(-load * (k - limit))
            for k in range(int(limit) + 1)
        )
        assert (waits <= limit).mean() == pytest.approx(below, abs=0.01)


def test_sharing_depends_on_the_mean_alone() -> None:
    """M/G/1 with processor sharing: the mean is 1 / (1 - load), whatever the times are."""
    arrivals = _poisson(0.6, 6)
    work = lognormal(0.8)(np.random.default_rng(7), _SIZE)
    durations = simulate(Service(_SIZE, 1.0), arrivals, work).end - arrivals
    assert durations.mean() == pytest.approx(1 / 0.4, rel=0.06)


@pytest.mark.parametrize("slots", [1, 3])
def test_it_agrees_with_a_computation_request_by_request(slots: int) -> None:
    """Exactly, for the same arrivals and times."""
    rung = System("constant", slots, constant).rung(0.9 * slots, 8, 400)
    durations = simulate(Service(slots, 0.0), rung.due, np.ones(len(rung.due))).end - rung.due
    assert durations[rung.measured] == pytest.approx(rung.value[rung.measured])


def test_requests_in_service_slow_each_other_down() -> None:
    """Two at the same time take 1.5 times as long, until the first one has ended."""
    times = simulate(
        Service(2, 0.5),
        np.array([0.0, 0.0, 0.0]),
        np.array([1.0, 2.0, 1.0]),
        np.array([0.5, 1.0, 0.0]),
    )
    # Two are in service until 3.0; the third one begins when the first one has ended.
    assert times.begin.tolist() == [0.0, 0.0, 1.5]
    assert times.first.tolist() == [0.75, 1.5, 1.5]
    assert times.end.tolist() == [1.5, 3.0, 3.0]
