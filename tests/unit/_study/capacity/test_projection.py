"""Capacity, knee, headroom and projections, on queues whose closed forms are known."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from latspan import Kind
from latspan._study.capacity import (
    CapacityStudy,
    Label,
    Ladder,
    Projection,
    Projector,
    Rung,
    study_capacity,
)
from latspan._study.capacity._curve import capacity_of
from support.queues import System, constant, lognormal

# They simulate hundreds of queues; tests/unit/cli/test_capacity.py records the coverage.
pytestmark = pytest.mark.repetitive

_PARTS = (0.12, 0.25, 0.4, 0.6, 1.5)


@cache
def _rungs(slots: int, *, fixed: bool = False) -> tuple[Rung, ...]:
    """Return a ladder of a queue with a capacity of ``slots`` per second."""
    system = System("queue", slots, constant) if fixed else System("queue", slots)
    return tuple(
        system.rung(slots * part, 100 * slots + number, 800) for number, part in enumerate(_PARTS)
    )


def _ladder(*rungs: Rung) -> Ladder:
    return Ladder(name="chat", kind=Kind.CALL, metric="duration", percentile=99, rungs=rungs)


@cache
def _projector(slots: int, *, fixed: bool = False) -> Projector:
    return Projector(_ladder(*_rungs(slots, fixed=fixed)))


@cache
def _study(slots: int) -> CapacityStudy:
    return study_capacity(_ladder(*_rungs(slots)), current_per_s=1.0)


def _reason(projection: Projection) -> str:
    assert projection.label is Label.REFUSED
    assert projection.refusal is not None
    return projection.refusal.reason


@pytest.mark.parametrize(("slots", "fixed"), [(1, False), (4, False), (1, True), (6, True)])
def test_the_capacity_is_that_of_the_queue(slots: int, *, fixed: bool) -> None:
    """M/M/1, M/M/4, M/D/1 and M/D/6, of one request per second and server."""
    capacity = _projector(slots, fixed=fixed).capacity
    assert capacity is not None
    assert capacity.low_per_s <= slots <= capacity.high_per_s


def test_the_knee_of_one_server_is_at_half_of_its_capacity() -> None:
    """M/M/1: the p99 is ln 100 / (1 - load), and load (1 - load) is greatest at 0.5."""
    knee = _study(1).knee
    assert knee is not None
    assert knee.simulated
    assert knee.low_per_s <= 0.5 <= knee.high_per_s
    assert knee.per_s == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize(
    ("slots", "fixed", "load", "expected_s"),
    [
        # ln 100 / (1 - load)
        (1, False, 0.75, 18.4),
        # Erlang C is 0.5094, so P(T > t) = exp(-t) (1 + 0.5094 t).
        (4, False, 3.0, 6.01),
        # The p99 of the wait is 8.04 times the service (Erlang, 1909), which follows.
        (1, True, 0.75, 9.04),
    ],
)
def test_the_range_holds_the_closed_form(
    slots: int, *, fixed: bool, load: float, expected_s: float
) -> None:
    """M/M/1, M/M/4 and M/D/1 at 75 % of the capacity."""
    found = _projector(slots, fixed=fixed).project(load)
    assert found.label is Label.EXTRAPOLATED
    assert found.low_s <= expected_s <= found.high_s
    assert found.high_s / found.low_s < 5


@pytest.mark.parametrize(("slots", "fixed"), [(1, False), (4, False), (6, True)])
@pytest.mark.parametrize("part", [0.96, 1.0, 1.2])
def test_nothing_is_projected_near_the_capacity(slots: int, part: float, *, fixed: bool) -> None:
    """Above 95 % of it, a p99 depends on how long the load lasts."""
    assert "waits grow" in _reason(_projector(slots, fixed=fixed).project(slots * part))


def test_each_load_is_labelled() -> None:
    """That of a rung, one between two rungs, and one above the highest below saturation."""
    labels = [_projector(4).project(rate).label for rate in (2.4, 2.0, 3.0)]
    assert labels == [Label.MEASURED, Label.INTERPOLATED, Label.EXTRAPOLATED]


def test_a_load_far_below_the_rungs_is_refused() -> None:
    """More than a factor of 2 away."""
    assert "more than a factor of 2" in _reason(_projector(4).project(0.1))


def test_without_a_saturated_rung_the_capacity_is_unknown() -> None:
    """The hint names a rate that is twice the highest one; the knee is only known by rungs."""
    study = study_capacity(_ladder(*_rungs(4)[:-1]), [3.0])
    assert "no rung is saturated" in _reason(study.projections[0])
    assert study.refusal is not None
    assert "--rate 4.8" in study.refusal.hint
    assert study.capacity is None
    assert study.knee is not None
    assert not study.knee.simulated
    assert study.held_out is None


def test_too_few_rungs_below_saturation_are_refused() -> None:
    """Two are needed to fit the model, and one to check it."""
    rungs = _rungs(4)
    study = study_capacity(_ladder(rungs[1], rungs[3], rungs[4]), [3.0])
    assert "2 of the loads are below saturation" in _reason(study.projections[0])
    assert study.capacity is not None


def test_a_load_that_was_measured_twice_is_one_load() -> None:
    """The held-out rung would otherwise be checked with another one of the same load."""
    rungs = _rungs(4)
    study = study_capacity(_ladder(rungs[2], rungs[3], rungs[3], rungs[4]), [3.0])
    assert "2 of the loads are below saturation" in _reason(study.projections[0])


def test_loads_that_differ_by_chance_are_one_load() -> None:
    """Random arrivals at one rate offer loads that differ by some percent."""
    rungs = _rungs(4)
    near = replace(rungs[3], rate_per_s=1.03 * rungs[3].rate_per_s)
    study = study_capacity(_ladder(rungs[2], rungs[3], near, rungs[4]), [3.0])
    assert "2 of the loads are below saturation" in _reason(study.projections[0])


def test_rungs_too_far_apart_cannot_be_checked() -> None:
    """The held-out rung would be more than twice the one below it."""
    rungs = _rungs(4)
    study = study_capacity(_ladder(rungs[0], rungs[1], rungs[3], rungs[4]), [3.0])
    assert "too far apart" in _reason(study.projections[0])


def test_a_rung_with_failures_is_refused() -> None:
    """The model has no failures, so it would project a system that is not there."""
    rungs = list(_rungs(4))
    value = rungs[3].value.copy()
    value[100:150] = np.inf
    rungs[3] = replace(rungs[3], value=value)
    study = study_capacity(_ladder(*rungs), [3.0])
    assert "50 of 800 requests failed" in _reason(study.projections[0])
    assert math.isinf(study.points[3].value_s)


def _limited(rate_per_s: float, seed: int, *, sheds: bool = False) -> Rung:
    """
    Return a rung of a rate limiter: 8 tokens per second, a bucket of 10, and 0.35 s of work.

    Tokens are counted one by one. With ``sheds``, a request that would wait for 1 s is rejected.
    """
    random = np.random.default_rng(seed)
    due = np.cumsum(random.exponential(1 / rate_per_s, 480))
    work = random.lognormal(math.log(0.35), 0.2, len(due))
    end, failed = np.empty(len(due)), np.zeros(len(due), np.bool_)
    tokens, filled = 10.0, 0.0
    for at, instant in enumerate(due):
        tokens = min(10.0, tokens + 8 * max(0.0, instant - filled))
        filled = max(filled, instant)
        # Requests that wait have taken the tokens of the time until they begin.
        begin = filled + max(0.0, 1 - tokens) / 8
        if sheds and begin - instant > 1:
            end[at], failed[at] = instant + 0.01, True
            continue
        tokens = max(tokens, 1.0) - 1
        filled = begin
        end[at] = begin + work[at]
    return Rung(
        rate_per_s=rate_per_s,
        due=due,
        end=end,
        value=np.where(failed, np.inf, end - due),
        measured=np.arange(len(due)) < 400,
    )


@pytest.mark.parametrize("load", [3.6, 6.4])
def test_a_rate_limiter_is_recognised(load: float) -> None:
    """The work of 0.35 s does not depend on the load, as that of a server with slots would."""
    rungs = [_limited(rate, number) for number, rate in enumerate((1.2, 2.4, 4.8, 12.0))]
    found = Projector(_ladder(*rungs)).project(load)
    tests = [np.percentile(_limited(load, 90 + each).values, 99) for each in range(20)]
    assert found.low_s <= np.median(tests) <= found.high_s
    assert found.high_s < 2 * np.median(tests)


def test_a_system_that_sheds_load_is_refused_for_its_failures() -> None:
    """Requests end as fast as they arrive, but a quarter of them fails."""
    rungs = [
        _limited(rate, number, sheds=True) for number, rate in enumerate((1.2, 2.4, 4.8, 12.0))
    ]
    study = study_capacity(_ladder(*rungs), [6.4])
    assert "the system rejects load there" in _reason(study.projections[0])
    assert study.capacity is None


def test_the_drain_of_a_short_rung_is_not_the_capacity() -> None:
    """The last requests end in a system that empties: 19 per second instead of 27."""
    found: list[float] = []
    for seed in range(20):
        rung = System("queue", 27, lognormal(0.8)).rung(60, seed, 300)
        first = slice(300)
        capacity = capacity_of(
            [
                replace(
                    rung,
                    due=rung.due[first],
                    end=rung.end[first],
                    value=rung.value[first],
                    measured=np.ones(300, np.bool_),
                )
            ]
        )
        assert capacity is not None
        found.append(capacity.per_s)
    assert np.mean(found) == pytest.approx(27, rel=0.05)


def test_a_rung_that_is_not_saturated_bounds_the_capacity_from_below() -> None:
    """A slow overload does not contradict the load that the system was seen to serve."""
    served, slow = _rungs(4)[3:]
    slow = replace(slow, end=slow.due + 4 * (slow.end - slow.due), value=4 * slow.value)
    alone, both = capacity_of([slow]), capacity_of([served, slow])
    assert alone is not None
    assert both is not None
    assert alone.per_s < served.rate_per_s
    assert both.per_s == both.low_per_s == served.rate_per_s
    assert both.high_per_s == alone.high_per_s


def test_a_system_that_the_model_does_not_describe_is_refused() -> None:
    """Requests above a load become ten times slower, which no lower rung has shown."""
    rungs = list(_rungs(4))
    value = rungs[3].value * np.where(np.arange(len(rungs[3].value)) % 20 == 0, 10.0, 1.0)
    rungs[3] = replace(rungs[3], value=value, end=rungs[3].due + value)
    study = study_capacity(_ladder(*rungs), [3.0])
    assert "does not describe this system" in _reason(study.projections[0])
    assert study.held_out is not None
    assert study.held_out.ratio > 2
    assert not study.held_out.holds


def test_headroom_is_the_lower_of_comfort_and_target() -> None:
    """80 % of the capacity, or the highest load whose upper end is within the limit."""
    free = _study(4)
    assert free.capacity is not None
    assert free.headroom == pytest.approx(0.8 * free.capacity.per_s)
    assert replace(free, current_per_s=1e-308).headroom is None
    bound = study_capacity(_ladder(*_rungs(4)), current_per_s=1.0, limit_s=7.0)
    assert bound.within_limit_per_s is not None
    assert 1.6 <= bound.within_limit_per_s < 3.2
    assert bound.headroom == pytest.approx(bound.within_limit_per_s)


def test_the_target_is_below_every_row_that_exceeds_it() -> None:
    """The model has no slow spell at one rung, and would project a load above it."""
    rungs = list(_rungs(4))
    value = rungs[2].value.copy()
    value[100:130] *= 3
    rungs[2] = replace(rungs[2], value=value)
    slow = _projector(4).points[2].high_s * 1.1
    study = study_capacity(_ladder(*rungs), limit_s=slow)
    assert study.points[2].high_s > slow > study.points[1].high_s
    assert study.within_limit_per_s == study.points[1].rate_per_s


def test_the_target_is_below_a_projection_that_exceeds_it() -> None:
    """The ranges of the table and the curve of the knee are different simulations."""
    for each in _study(4).projections:
        study = study_capacity(_ladder(*_rungs(4)), limit_s=each.high_s * 0.999)
        assert study.within_limit_per_s is not None
        assert study.within_limit_per_s < each.rate_per_s


def test_the_target_is_not_above_the_refused_loads() -> None:
    """A rung near the capacity is within the limit, because it ended before its queue was long."""
    near = System("queue", 4).rung(3.85, 7, 800)
    ladder = _ladder(*_rungs(4)[:-1], near, _rungs(4)[-1])
    study = study_capacity(ladder, limit_s=1e6)
    assert not study.points[4].saturated
    assert study.within_limit_per_s is not None
    assert study.within_limit_per_s <= Projector(ladder).refused_from_per_s < 3.85


def test_loads_below_the_capacity_are_shown_if_none_is_asked_for() -> None:
    """They are no questions, so none of them is refused."""
    study = _study(4)
    assert study.asked == 0
    assert study.projections
    assert all(each.label is not Label.REFUSED for each in study.projections)


def test_the_same_ladder_gives_the_same_ranges() -> None:
    """Simulations have a fixed seed."""
    assert Projector(_ladder(*_rungs(4))).project(3.0) == _projector(4).project(3.0)
