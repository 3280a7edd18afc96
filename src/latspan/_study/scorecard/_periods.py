"""Weeks and months, in UTC: a scorecard compares like with like, whatever the size of a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from latspan._base.nanoseconds import NS_PER_S

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Cycle(StrEnum):
    """Length of the periods of a scorecard."""

    WEEK = "week"
    """From Monday to Sunday, numbered as in ISO 8601: operational drift."""
    MONTH = "month"
    """A calendar month: direction."""


class Period(NamedTuple):
    """
    One week or month, in UTC.

    Args:
        label: ``2026-W48`` or ``2026-11``.
        start_ns: Unix time of its start, in nanoseconds.
        end_ns: Unix time of the start of the next period, in nanoseconds.
    """

    label: str
    start_ns: int
    end_ns: int


def period_of(epoch_ns: int, cycle: Cycle) -> Period:
    """
    Return the week or month that contains an instant.

    Args:
        epoch_ns: Unix time in nanoseconds.
        cycle: Whether to return the week or the month.
    """
    at = _EPOCH + timedelta(seconds=epoch_ns // NS_PER_S)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if cycle is Cycle.WEEK:
        start = day - timedelta(days=day.weekday())
        end = start + timedelta(days=7)
        year, week, _ = start.isocalendar()
        return Period(f"{year}-W{week:02}", _ns(start), _ns(end))
    start = day.replace(day=1)
    end = (start + timedelta(days=31)).replace(day=1)
    return Period(f"{start:%Y-%m}", _ns(start), _ns(end))


def _ns(at: datetime) -> int:
    return round((at - _EPOCH).total_seconds()) * NS_PER_S
