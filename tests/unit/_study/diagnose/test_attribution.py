"""Shares of segments near a percentile, on tables with exact answers."""

from __future__ import annotations

import numpy as np
import pytest

from latspan._study.diagnose import attribute
from support.tables import table_in_ms


def test_shares_are_means_over_the_slowest_tenth() -> None:
    """At p95, the slowest tenth is explained, and not the average request."""
    queue = [0.0] * 360 + [900.0] * 40
    found = attribute(table_in_ms({"queue": queue, "decode": [100.0] * 400}))
    assert found is not None
    assert [(share.name, share.share) for share in found.shares] == [
        ("queue", pytest.approx(0.9)),
        ("decode", pytest.approx(0.1)),
    ]
    assert found.tail_ns == pytest.approx(1_000e6)


def test_shares_sum_to_one() -> None:
    """Shares are parts of one whole, whatever the segments are."""
    random = np.random.default_rng(1)
    columns = {name: random.lognormal(3, 1, 300).tolist() for name in ("a", "b", "c")}
    found = attribute(table_in_ms(columns))
    assert found is not None
    assert sum(share.share for share in found.shares) == pytest.approx(1)


def test_excess_is_the_difference_from_the_middle_fifth() -> None:
    """The excess of a segment shows why slow requests differ from typical ones."""
    queue = [10.0] * 360 + [500.0] * 40
    found = attribute(table_in_ms({"queue": queue, "decode": [100.0] * 400}))
    assert found is not None
    assert found.shares[0].excess_ns == pytest.approx(490e6)
    assert found.shares[1].excess_ns == pytest.approx(0)


def test_fewer_than_twenty_requests_are_not_attributed() -> None:
    """A p95 does not exist below 20 values."""
    assert attribute(table_in_ms({"decode": [1.0] * 19})) is None
    assert attribute(table_in_ms({"decode": [1.0] * 20})) is not None


def test_failed_requests_rank_last_and_are_in_no_band() -> None:
    """A failure has no latency, but it counts in the percentile."""
    failed = [False] * 180 + [True] * 20
    found = attribute(table_in_ms({"decode": [100.0] * 200}, failed=failed))
    assert found is not None
    assert np.isinf(found.value_ns)
    assert not set(found.tail.tolist()) & set(range(180, 200))


def test_equal_segments_have_no_leader() -> None:
    """Two segments that differ by chance only do not have a real leader."""
    random = np.random.default_rng(2)
    columns = {name: random.exponential(100, 400).tolist() for name in ("a", "b")}
    found = attribute(table_in_ms(columns))
    assert found is not None
    assert found.lead <= 0


def test_a_clear_leader_has_a_positive_lead() -> None:
    """The lead is the lower end of an interval, so a clear leader stays above zero."""
    random = np.random.default_rng(3)
    columns = {
        "a": random.normal(300, 20, 400).tolist(),
        "b": random.normal(100, 20, 400).tolist(),
    }
    found = attribute(table_in_ms(columns))
    assert found is not None
    assert 0 < found.lead < found.shares[0].share - found.shares[1].share


def test_an_interval_contains_its_share() -> None:
    """Ends of intervals are in [0, 1] and on both sides of the share."""
    random = np.random.default_rng(4)
    columns = {name: random.lognormal(3, 1.5, 120).tolist() for name in ("a", "b", "c")}
    found = attribute(table_in_ms(columns))
    assert found is not None
    for share in found.shares:
        assert 0 <= share.low <= share.share <= share.high <= 1


def test_long_queues_have_wider_intervals_than_independent_waits() -> None:
    """Waits that resemble their neighbours for hundreds of requests are less evidence."""
    random = np.random.default_rng(5)
    waits = random.exponential(300, 600)
    decode = random.normal(100, 10, 600).tolist()
    independent = attribute(table_in_ms({"queue": waits.tolist(), "decode": decode}))
    together = attribute(table_in_ms({"queue": np.sort(waits).tolist(), "decode": decode}))
    assert independent is not None
    assert together is not None
    widths = [found.shares[0].high - found.shares[0].low for found in (independent, together)]
    assert widths[1] > 1.5 * widths[0]


def _slow_and_fast(seed: int, *, fast_ms: float) -> dict[str, list[float]]:
    """Return a queue that changes slowly, and a segment that differs from request to request."""
    random = np.random.default_rng(seed)
    level = np.empty(600)
    level[0] = random.normal()
    for index, step in enumerate(random.normal(0, (1 - 0.99**2) ** 0.5, 599)):
        level[index + 1] = 0.99 * level[index] + step
    fast = fast_ms * random.lognormal(0, 0.3, 600)
    return {"queue": (100 * np.exp(0.6 * level)).tolist(), "format": fast.tolist()}


def test_a_queue_that_changes_slowly_is_few_independent_values() -> None:
    """Whether it is the largest segment in a longer recording is unknown, unless it is short."""
    found = attribute(table_in_ms(_slow_and_fast(3, fast_ms=250)))
    assert found is not None
    queue = next(share for share in found.shares if share.name == "queue")
    assert 2 < queue.independent < 20
    assert found.lead > 0
    assert found.rival is queue
    clear = attribute(table_in_ms(_slow_and_fast(3, fast_ms=2_500)))
    assert clear is not None
    assert clear.rival is None


def test_two_segments_that_change_slowly_grow_together() -> None:
    """The queues of an overloaded system: the larger one is named."""
    columns = _slow_and_fast(4, fast_ms=100)
    pool = [0.5 * wait for wait in columns["queue"]]
    found = attribute(table_in_ms({"queue": columns["queue"], "pool_wait": pool}))
    assert found is not None
    assert found.lead > 0
    assert found.rival is None


def test_equal_values_do_not_resemble_one_another() -> None:
    """Most requests have no retry, which is no similarity of neighbours."""
    random = np.random.default_rng(8)
    retries = np.where(random.random(600) < 0.1, 500.0, 0.0)
    columns = {"retry": retries.tolist(), "decode": random.normal(100, 10, 600).tolist()}
    found = attribute(table_in_ms(columns))
    assert found is not None
    assert all(np.isinf(share.independent) for share in found.shares)


def test_the_same_table_has_the_same_answer() -> None:
    """Random draws have a fixed seed, so that a diagnosis can be repeated."""
    random = np.random.default_rng(6)
    columns = {name: random.exponential(100, 200).tolist() for name in ("a", "b")}
    first, second = (attribute(table_in_ms(columns)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.shares == second.shares
