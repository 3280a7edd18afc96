"""The fit of a service to rungs: works of requests, slots and slowdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from latspan._study.capacity import Capacity, Rung, Service, simulate
from latspan._study.capacity._fit import fit_service, works_of


def _rung(
    service: Service, rate_per_s: float, seed: int, size: int = 600
) -> tuple[Rung, NDArray[np.float64]]:
    """Return a rung of a service, and the works of its requests."""
    random = np.random.default_rng(seed)
    due = np.cumsum(random.exponential(1 / rate_per_s, size))
    work = random.lognormal(0, 0.4, size)
    times = simulate(service, due, work, work / 4)
    rung = Rung(
        rate_per_s=rate_per_s,
        due=due,
        end=times.end,
        value=times.first - due,
        measured=np.ones(size, dtype=np.bool_),
    )
    return rung, work


def _ladder(service: Service, rates: Sequence[float], first: int) -> list[Rung]:
    return [_rung(service, rate, first + number)[0] for number, rate in enumerate(rates)]


@pytest.mark.parametrize("rate_per_s", [0.5, 2.0, 6.0])
def test_the_true_service_gives_the_true_works(rate_per_s: float) -> None:
    """At a low load and at saturation, for the whole request and its first part."""
    service = Service(4, 0.15)
    rung, work = _rung(service, rate_per_s, 1)
    found = works_of(rung, service)
    assert found.work == pytest.approx(work)
    assert found.first == pytest.approx(work / 4)


@pytest.mark.parametrize(
    "service", [Service(1, 0.0), Service(3, 0.0), Service(8, 0.2), Service(12, 0.05)]
)
def test_slots_and_slowdown_are_found(service: Service) -> None:
    """From the begin and the end of each request: the throughput of the best pair is right."""
    capacity = service.throughput / np.exp(0.4**2 / 2)
    rungs = _ladder(service, [part * capacity for part in (0.15, 0.3, 0.45, 0.6, 1.5)], 10)
    found = fit_service(rungs, Capacity(capacity, 0.95 * capacity, 1.05 * capacity))
    assert isinstance(found.best, Service)
    assert found.best.slots == pytest.approx(service.slots, rel=0.35)
    mean = np.concatenate([works_of(rung, found.best).work for rung in rungs]).mean()
    assert found.best.throughput / mean == pytest.approx(capacity, rel=0.05)
    assert found.weights.sum() == pytest.approx(1)


def test_requests_that_did_not_complete_have_no_work() -> None:
    """Failed ones and those of warm-up and drain occupy a slot, and are not compared."""
    rung, _ = _rung(Service(2, 0.0), 1.0, 3)
    value = rung.value.copy()
    value[:5] = np.inf
    measured = rung.measured.copy()
    measured[-7:] = False
    changed = Rung(
        rate_per_s=rung.rate_per_s, due=rung.due, end=rung.end, value=value, measured=measured
    )
    assert len(works_of(changed, Service(2, 0.0)).work) == len(rung.due) - 12
