"""Schedules: the rate and the evenness of each pattern, by exact seeds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from latspan._base.nanoseconds import NS_PER_S
from latspan._load._plan import step_of
from latspan._load._schedule import Schedule, closed_loop, open_loop, replayed
from latspan._model.goals import Arrivals
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


@given(
    pattern=st.sampled_from([Arrivals.POISSON, Arrivals.CONSTANT, Arrivals.GAMMA]),
    rate=st.floats(0.01, 1_000),
    warmup=st.integers(0, 20),
    requests=st.integers(2, 100),
    seed=st.integers(0, 2**32),
    burstiness=st.floats(0.2, 20),
)
# The only gap is shorter than a nanosecond.
@example(pattern=Arrivals.GAMMA, rate=64.0, warmup=0, requests=2, seed=206, burstiness=0.25)
def test_a_number_of_requests_is_offered_at_exactly_the_rate(
    pattern: Arrivals, rate: float, warmup: int, requests: int, seed: int, burstiness: float
) -> None:
    """N arrivals have N - 1 gaps between them; warm-up and drain keep theirs."""
    step = step_of(
        pattern, rate, warmup=warmup, requests=requests, duration_ns=None, seed=seed,
        burstiness=burstiness,
    )  # fmt: skip
    offsets, last = step.schedule.offsets_ns, warmup + requests - 1
    assert offsets[last] - offsets[warmup] == pytest.approx(
        (requests - 1) * NS_PER_S / rate, rel=1e-9, abs=1
    )
    drawn = open_loop(pattern, rate, warmup + 2 * requests, seed=seed, burstiness=burstiness)
    gaps, before = _gaps(step.schedule), _gaps(drawn)
    assert all(gap >= 0 for gap in gaps)
    assert gaps[:warmup] == before[:warmup]
    assert gaps[last:] == before[last:]


def test_the_defaults_of_an_inference_path_are_offered_exactly() -> None:
    """Two requests per second with seed 0: not scaled, 100 of them come at 1.64 per second."""
    step = step_of(Arrivals.POISSON, 2, warmup=10, requests=100, duration_ns=None)
    offsets = step.schedule.offsets_ns
    assert offsets[109] - offsets[10] == 49_500_000_000


def test_scaled_arrivals_are_still_random() -> None:
    """The instants between the first and the last one are uniform: their mean is the middle."""
    steps = [
        step_of(Arrivals.POISSON, 10, warmup=0, requests=50, duration_ns=None, seed=seed)
        for seed in range(200)
    ]
    length_ns = 4_900_000_000
    inner = [offset / length_ns for step in steps for offset in step.schedule.offsets_ns[1:49]]
    assert fmean(inner) == pytest.approx(1 / 2, abs=0.01)
    assert pstdev(inner) == pytest.approx(12**-0.5, abs=0.01)
    assert fmean(
        _variation(replace(steps[0].schedule, offsets_ns=step.schedule.offsets_ns[:50]))
        for step in steps
    ) == pytest.approx(1, abs=0.05)


def test_a_duration_keeps_the_random_number() -> None:
    """A Poisson process has a random number of arrivals in a given time."""
    step = step_of(Arrivals.POISSON, 10, warmup=5, requests=None, duration_ns=10 * NS_PER_S)
    drawn = open_loop(Arrivals.POISSON, 10, 305)
    assert step.schedule.offsets_ns == drawn.offsets_ns[: len(step.schedule.offsets_ns)]
    both = step_of(Arrivals.POISSON, 10, warmup=5, requests=30, duration_ns=10 * NS_PER_S)
    assert both.schedule.offsets_ns == drawn.offsets_ns[:65]


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
