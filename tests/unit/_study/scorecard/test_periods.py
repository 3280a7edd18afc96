"""Weeks and months in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._study.scorecard import Cycle, period_of

DAY_NS = 86_400 * 10**9


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


@pytest.mark.parametrize(
    ("instant", "week", "month"),
    [
        ("2026-11-23T00:00:00", "2026-W48", "2026-11"),
        ("2026-11-22T23:59:59", "2026-W47", "2026-11"),
        # The first days of January may belong to the last week of the year before, and vice versa.
        ("2027-01-01T12:00:00", "2026-W53", "2027-01"),
        ("2024-12-31T12:00:00", "2025-W01", "2024-12"),
        ("1970-01-01T00:00:00", "1970-W01", "1970-01"),
    ],
)
def test_known_dates(instant: str, week: str, month: str) -> None:
    """Weeks are those of ISO 8601."""
    assert period_of(at(instant), Cycle.WEEK).label == week
    assert period_of(at(instant), Cycle.MONTH).label == month


@given(st.integers(0, at("2200-01-01T00:00:00")), st.sampled_from(Cycle))
def test_a_period_contains_its_instants_and_the_next_one_follows(
    epoch_ns: int, cycle: Cycle
) -> None:
    """No instant is in two periods, or in none."""
    period = period_of(epoch_ns, cycle)

    assert period.start_ns <= epoch_ns < period.end_ns
    assert period_of(period.end_ns - 1, cycle) == period
    assert period_of(period.end_ns, cycle).start_ns == period.end_ns
    if cycle is Cycle.WEEK:
        assert period.end_ns - period.start_ns == 7 * DAY_NS
