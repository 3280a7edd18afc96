"""Percentiles of a load test, with and without its failures."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from latspan._study.measurement import Latency, Origin


def _latency(values: list[int], failed: int = 0) -> Latency:
    return Latency.of("duration", Origin.START, values, failed)


def test_a_percentile_is_the_value_of_its_rank() -> None:
    """The p95 of 20 values is the nineteenth."""
    latency = _latency(list(range(20, 0, -1)))
    assert [latency.completed(p) for p in (50, 95)] == [10, 19]
    assert [latency.all(p) for p in (50, 95)] == [10, 19]


def test_a_percentile_needs_values() -> None:
    """20 for p95 and 100 for p99; failed requests are values of p(all)."""
    latency = _latency([1] * 19, failed=1)
    assert latency.completed(95) is None
    assert latency.all(95) == 1
    assert latency.all(99) is None


def test_failures_count_as_unbounded() -> None:
    """A server that fails its slowest tenth has no p95, although the others were quick."""
    latency = _latency([1] * 90, failed=10)
    assert latency.completed(95) == 1
    assert latency.all(95) == math.inf
    assert latency.all(90) == 1


def test_a_failure_misses_every_limit() -> None:
    """A value that equals the limit does not miss it."""
    assert _latency([10, 20, 30], failed=2).misses(20) == 3


@given(st.lists(st.integers(0, 10**12), min_size=20, max_size=200), st.integers(0, 50))
def test_failures_never_make_a_percentile_smaller(values: list[int], failed: int) -> None:
    """Without failures, both percentiles are equal."""
    latency = _latency(values, failed)
    completed, of_all = latency.completed(95), latency.all(95)
    assert completed is not None
    assert of_all is not None
    assert of_all >= completed
    assert failed or of_all == completed
