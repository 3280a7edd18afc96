"""Percentiles of a load test, with and without failures and given-up requests."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latspan._study.measurement import Latency, Origin
from latspan._study.stats import Verdict


def _latency(values: list[int], failed: int = 0, cut: list[int] | None = None) -> Latency:
    bounds = cut or []
    low = np.array([*values, *[math.inf] * failed, *bounds], dtype=np.float64)
    high = np.array([*values, *[math.inf] * (failed + len(bounds))], dtype=np.float64)
    completed = np.array([True] * len(values) + [False] * (failed + len(bounds)))
    return Latency("duration", Origin.START, low, high, np.ones(len(low)), completed)


def test_a_percentile_is_the_value_of_its_rank() -> None:
    """The p95 of 20 values is the nineteenth."""
    latency = _latency(list(range(20, 0, -1)))
    assert [latency.completed(p) for p in (50, 95)] == [10, 19]
    assert [latency.all(p) for p in (50, 95)] == [(10, 10), (19, 19)]


def test_a_percentile_needs_values() -> None:
    """20 for p95 and 100 for p99; failed requests are values of p(all)."""
    latency = _latency([1] * 19, failed=1)
    assert latency.completed(95) is None
    assert latency.all(95) == (1, 1)
    assert latency.all(99) is None


def test_failures_count_as_unbounded() -> None:
    """A server that fails its slowest tenth has no p95, although the others were quick."""
    latency = _latency([1] * 90, failed=10)
    assert latency.completed(95) == 1
    assert latency.all(95) == (math.inf, math.inf)
    assert latency.all(90) == (1, 1)


def test_given_up_requests_leave_an_interval() -> None:
    """Of 100 requests, ten were given up after 7: the p95 is at least 7, and the p90 is known."""
    latency = _latency([1] * 90, cut=[7] * 10)
    assert (latency.count, latency.cut, latency.failed) == (100, 10, 0)
    assert latency.all(95) == (7, math.inf)
    assert latency.all(90) == (1, 1)
    assert latency.completed(95) == 1


def test_a_failure_misses_every_limit() -> None:
    """A value that equals the limit does not miss it."""
    found = _latency([10, 20, 30], failed=2).verdict(20, 95)
    assert (found.requests, found.misses, found.undecided) == (5, 3, 0)


def test_a_request_that_was_left_before_the_limit_is_neither() -> None:
    """Of 100, 6 left before the limit: the p95 is neither met nor missed."""
    found = _latency([1] * 94, cut=[2] * 6).verdict(5, 95)
    assert found.verdict is Verdict.UNDECIDED
    assert (found.misses, found.undecided) == (0, 6)
    assert str(found) == "6 of 100 were left before the limit"
    assert _latency([1] * 80, cut=[6] * 20).verdict(5, 95).verdict is Verdict.MISSED


@given(st.lists(st.integers(0, 10**12), min_size=20, max_size=200), st.integers(0, 50))
def test_failures_never_make_a_percentile_smaller(values: list[int], failed: int) -> None:
    """Without failures, both percentiles are equal."""
    latency = _latency(values, failed)
    completed, of_all = latency.completed(95), latency.all(95)
    assert completed is not None
    assert of_all is not None
    assert of_all.low >= completed
    assert failed or of_all.high == completed
