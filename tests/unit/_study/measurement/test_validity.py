"""Validity of a load test: each reason, at its limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latspan._model.recording.folder import StepAccount
from latspan._study.measurement._validity import CachedInput, caveats

_FINE = StepAccount(
    load={"pattern": "poisson"},
    intended=100,
    offered_per_s=10.0,
    reached_per_s=10.0,
    generator={
        "busy": 0.3,
        "loop_lag": {"p50": 0.001, "p99": 0.005, "max": 0.2},
        "dispatch_lag": {"p50": 0.001, "p99": 0.005, "max": 0.2},
    },
)


def _with(**changes: Any) -> StepAccount:
    generator = {**_FINE.generator, **changes.pop("generator", {})}
    return replace(_FINE, **changes, generator=generator)


def _found(step: StepAccount, **given: Any) -> dict[str, bool]:
    return {each.name: each.invalidates for each in caveats(step, **given)}


def test_a_measurement_in_order_has_no_findings() -> None:
    """Neither has one whose server was slow: that is a result."""
    assert _found(_FINE, cached=CachedInput(0.5, 0.52, 0.01), in_flight=(4.9, 5.0)) == {}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"generator": {"dispatch_lag": {"p50": 0.001, "p99": 0.0101}}}, "dispatch_lag"),
        ({"generator": {"loop_lag": {"p50": 0.001, "p99": 0.0101}}}, "loop_lag"),
        ({"generator": {"loop_lag": {"p50": 0.0021, "p99": 0.005}}}, "loop_lag"),
        ({"generator": {"busy": 0.91}}, "generator_busy"),
        ({"reached_per_s": 9.7}, "rate_not_reached"),
        ({"interrupted": True, "unsent": 20, "cut": (3,)}, "cut_short"),
    ],
)
def test_each_reason_invalidates(changes: dict[str, Any], name: str) -> None:
    """One reason is enough."""
    assert _found(_with(**changes)) == {name: True}


@pytest.mark.parametrize(
    ("stated", "changes", "expected"),
    [
        (12.2, {}, {"rate_by_chance": False}),
        (9.0, {}, {"rate_by_chance": False}),
        (10.9, {}, {}),
        (12.2, {"interrupted": True}, {"cut_short": True}),
    ],
)
def test_a_load_that_chance_changed_is_noted(
    stated: float, changes: dict[str, Any], expected: dict[str, bool]
) -> None:
    """A target that is met at 10 requests per second is not met at 12.2."""
    assert _found(_with(load={"rate_per_s": stated}, **changes)) == expected


def test_a_long_limit_permits_a_longer_lag() -> None:
    """2 % of the smallest limit, if that is more than 10 ms."""
    late = _with(generator={"dispatch_lag": {"p50": 0.001, "p99": 0.015}})
    assert _found(late, limits_ns=[500_000_000]) == {"dispatch_lag": True}
    assert _found(late, limits_ns=[1_000_000_000, 5_000_000_000]) == {}


@pytest.mark.parametrize("lag", ["dispatch_lag", "loop_lag"])
def test_a_lag_is_judged_by_what_is_measured(lag: str) -> None:
    """15 ms are no reason against 4,700 ms, and 2 ms of each request neither."""
    late = _with(generator={lag: {"p50": 0.006, "p99": 0.015}})
    assert _found(late, measured_ns=4.7e9) == {}
    assert _found(late, measured_ns=1e9) == {lag: True}


@pytest.mark.parametrize(("busy", "hint"), [(0.01, "used 1% of a CPU"), (0.7, "CPU of its own")])
def test_the_hint_names_who_uses_the_processor(busy: float, hint: str) -> None:
    """Moving the generator helps only if it is what is busy."""
    (late,) = caveats(_with(generator={"busy": busy, "dispatch_lag": {"p50": 0.0, "p99": 0.1}}))
    assert hint in late.hint


def test_a_limit_on_the_number_in_flight_excuses_the_rate() -> None:
    """The requests waited for the server, which the durations from schedule include."""
    slower = _with(reached_per_s=5.0)
    assert _found(slower, is_limited=True) == {}
    assert _found(slower) == {"rate_not_reached": True}


def test_a_closed_loop_has_no_rate_to_reach() -> None:
    """Its generator can still be late."""
    closed = StepAccount(
        load={"concurrency": 4},
        intended=100,
        generator={"busy": 0.2, "loop_lag": {"p50": 0.001, "p99": 0.02}},
    )
    assert _found(closed) == {"loop_lag": True}


def test_a_changed_cache_invalidates() -> None:
    """The first requests met another server than the last ones."""
    assert _found(_FINE, cached=CachedInput(0.0, 0.3, 0.05)) == {"cache_drifted": True}
    assert _found(_FINE, cached=CachedInput(0.3, 0.0, 0.05)) == {"cache_drifted": True}
    assert _found(_FINE, cached=CachedInput(0.3, 0.25, 0.01)) == {}


def test_a_change_by_chance_does_not_invalidate() -> None:
    """With few requests of different lengths, the cached fractions differ by themselves."""
    assert _found(_FINE, cached=CachedInput(0.5, 0.3, 0.1)) == {}


def test_a_load_that_grew_is_noted() -> None:
    """It does not invalidate: an overloaded server is a result."""
    assert _found(_FINE, in_flight=(3.0, 5.0)) == {"not_stationary": False}


def test_the_text_has_the_number_and_its_limit() -> None:
    """A reader can judge it."""
    lag = {"p50": 0.001, "p99": 0.0123}
    (late,) = caveats(_with(generator={"busy": 0.6, "loop_lag": lag}))
    assert late.text == (
        "the generator was late: the p99 of its event loop's lag is 12.3 ms, above 10.0 ms"
    )
    assert "a CPU of its own" in late.hint
