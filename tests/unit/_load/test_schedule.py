"""Schedules: the rate and the evenness of each pattern, by exact seeds."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._load._schedule import Schedule, closed_loop, open_loop, replayed
from latspan._targets import Arrivals
from latspan._units import NS_PER_S
from latspan.errors import ConfigError

_MANY = 20_000


def _gaps(schedule: Schedule) -> list[int]:
    return [later - earlier for earlier, later in pairwise(schedule.offsets_ns)]


def _variation(schedule: Schedule) -> float:
    gaps = _gaps(schedule)
    return pstdev(gaps) / fmean(gaps)


@pytest.mark.parametrize(
    ("pattern", "burstiness", "variation"),
    [
        (Arrivals.CONSTANT, 1.0, 0.0),
        (Arrivals.POISSON, 1.0, 1.0),
        (Arrivals.GAMMA, 0.25, 2.0),
        (Arrivals.GAMMA, 1.0, 1.0),
        (Arrivals.GAMMA, 4.0, 0.5),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_a_pattern_has_its_rate_and_its_variation(
    pattern: Arrivals, burstiness: float, variation: float, seed: int
) -> None:
    """Of 20,000 gaps, the mean is within 5 % and the coefficient of variation within 5 %."""
    schedule = open_loop(pattern, 50, _MANY, seed=seed, burstiness=burstiness)
    assert fmean(_gaps(schedule)) == pytest.approx(NS_PER_S / 50, rel=0.05)
    assert _variation(schedule) == pytest.approx(variation, rel=0.05, abs=1e-6)


def test_the_instants_of_a_seed_never_change() -> None:
    """A measurement of an earlier release must be repeatable."""
    assert open_loop(Arrivals.POISSON, 10, 4, seed=42).offsets_ns == (
        0, 102_006_029, 104_538_913, 136_701_319,
    )  # fmt: skip
    assert open_loop(Arrivals.CONSTANT, 4, 3).offsets_ns == (0, 250_000_000, 500_000_000)


@given(
    pattern=st.sampled_from([Arrivals.POISSON, Arrivals.CONSTANT, Arrivals.GAMMA]),
    rate=st.floats(0.01, 10_000),
    count=st.integers(1, 200),
    seed=st.integers(0, 2**32),
    burstiness=st.floats(0.05, 20),
)
def test_a_schedule_begins_at_once_and_never_goes_back(
    pattern: Arrivals, rate: float, count: int, seed: int, burstiness: float
) -> None:
    """It has as many instants as requested, and equal seeds give equal schedules."""
    schedule = open_loop(pattern, rate, count, seed=seed, burstiness=burstiness)
    assert len(schedule.offsets_ns) == count
    assert schedule.offsets_ns[0] == 0
    assert all(gap >= 0 for gap in _gaps(schedule))
    assert schedule == open_loop(pattern, rate, count, seed=seed, burstiness=burstiness)


def test_a_closed_loop_has_no_instants() -> None:
    """Its load is a number of requests in flight."""
    schedule = closed_loop(8)
    assert not schedule.is_open
    assert schedule.conditions() == {"pattern": "closed", "concurrency": 8}


def test_a_replay_keeps_the_gaps_and_scales_them() -> None:
    """Twice the speed halves every gap and doubles the rate."""
    schedule = replayed([5_000_000_000, 1_000_000_000, 2_000_000_000], speed=2)
    assert schedule.offsets_ns == (0, 500_000_000, 2_000_000_000)
    assert schedule.rate_per_s == 1.0
    assert schedule.conditions() == {"pattern": "replay", "rate_per_s": 1.0, "speed": 2}


@pytest.mark.parametrize("starts", [[], [1], [3, 3, 3]])
def test_a_replay_needs_gaps(starts: list[int]) -> None:
    """A recording with one request has no rate."""
    with pytest.raises(ConfigError, match="cannot be replayed"):
        replayed(starts)


def test_within_counts_what_is_due_in_a_time() -> None:
    """The end of the time itself is outside."""
    schedule = open_loop(Arrivals.CONSTANT, 10, 100)
    assert schedule.within(0, NS_PER_S) == 10
    assert schedule.within(95, NS_PER_S) == 5
