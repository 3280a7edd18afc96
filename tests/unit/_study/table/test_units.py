"""Tables: several goals in one pass, and which kind of unit counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latspan import Kind
from latspan._model.segments import Segment, Side, Source
from latspan._study.diagnose import Goal, RequestTable, parse_goal, table_of, units_of
from latspan._study.table import table_of_records
from latspan.integrations import Outcome
from latspan.testing import MetricValue, RequestRecord
from support.simulation import records_of, requests_of, scenario_of

_GOALS = (Goal(), parse_goal("p95 ttft"))


def _records() -> list[RequestRecord]:
    """Return calls of which some have no token, some failed, and some only have a tenant."""
    scenario = scenario_of(("retries", 0.9))
    records = list(records_of(requests_of(scenario, 3), scenario))
    for number, record in enumerate(records):
        if number % 11 == 0:
            records[number] = replace(record, metrics={"duration": MetricValue(record.duration_ns)})
        elif number % 13 == 0:
            records[number] = replace(record, outcome=Outcome.ERROR)
        elif number % 3 == 0:
            records[number] = replace(record, attributes={"tenant": str(number % 2)})
    return records


def _assert_equal(one: RequestTable, other: RequestTable) -> None:
    assert (one.goal, one.kind, one.left_out) == (other.goal, other.kind, other.left_out)
    assert one.reported == other.reported
    for name in ("value_ns", "failed", "start_ns", "duration_ns", "chains"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert set(one.names) == set(other.names)
    for name in one.names:
        np.testing.assert_array_equal(one.segment(name), other.segment(name))
    assert one.numbers.keys() >= other.numbers.keys()
    for name in one.numbers:
        np.testing.assert_array_equal(one.number(name), other.number(name))
    for name, (codes, values) in other.groups.items():
        mine, names = one.groups[name]
        assert [names[code] for code in mine] == [values[code] for code in codes]


def test_two_goals_have_the_tables_that_each_has_alone() -> None:
    """Units without the metric of one goal are left out of its table only."""
    records = _records()
    table = table_of_records(records, [goal.metric for goal in _GOALS], gaps=True)

    tables = [units_of(table, goal) for goal in _GOALS]

    assert len(tables[0]) > len(tables[1]) > 0
    assert tables[1].left_out > 0
    for units, goal in zip(tables, _GOALS, strict=True):
        _assert_equal(units, table_of(records, goal))


def _unit(kind: Kind, side: Side, *, parent: int = 0, number: int = 0) -> RequestRecord:
    return RequestRecord(
        name=kind.value,
        kind=kind,
        side=side,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=number,
        duration_ns=1_000,
        segments=(),
        scope_id=number if kind is Kind.REQUEST else 0,
        parent_id=parent,
    )


_CALL = _unit(Kind.CALL, Side.CLIENT)
_SERVED = _unit(Kind.REQUEST, Side.SERVER, number=7)
_INNER = _unit(Kind.CALL, Side.CLIENT, parent=9)
_OUTER = _unit(Kind.REQUEST, Side.SERVER, number=9)
_JOB = _unit(Kind.REQUEST, Side.CLIENT, number=11)


@pytest.mark.parametrize(
    ("records", "kind", "units"),
    [
        ([_CALL, _CALL], Kind.CALL, 2),
        ([_CALL, _SERVED], Kind.REQUEST, 1),
        ([_SERVED, _SERVED, _INNER, _OUTER, _SERVED], Kind.REQUEST, 1),
        ([_JOB, _JOB, _INNER, _OUTER], Kind.REQUEST, 1),
        ([_JOB, _JOB, _SERVED], Kind.REQUEST, 2),
    ],
    ids=[
        "calls",
        "a served request",
        "requests with calls before those without",
        "served requests before background jobs",
        "jobs before health checks",
    ],
)
def test_the_outermost_kind_with_calls_counts(
    records: list[RequestRecord], kind: Kind, units: int
) -> None:
    """Served requests without a call, such as health checks, count only if there are no others."""
    table = table_of(records, Goal())
    assert (table.kind, len(table)) == (kind, units)


def test_units_without_the_metric_are_counted_if_there_are_no_others() -> None:
    """The answer states how many have none."""
    table = table_of([_unit(Kind.REQUEST, Side.CLIENT)] * 3, parse_goal("p95 ttft"))
    assert (len(table), table.left_out) == (0, 3)


def test_a_goal_on_requests_is_named_as_what_it_is() -> None:
    """A request has no first token of its own, but the first visible one of its calls."""
    record = replace(
        _JOB, metrics={"time_to_first_visible_token": MetricValue(877_000_000)}, streamed=True
    )
    table = table_of([record], parse_goal("p95 ttft"))
    assert (table.goal.metric, table.low_ns.tolist()) == (
        "time_to_first_visible_token",
        [877_000_000],
    )


def test_every_served_request_without_a_call_counts() -> None:
    """Not only the first 100,000."""
    assert len(table_of([_SERVED] * 100_001, Goal())) == 100_001


def test_an_attribute_with_the_name_of_a_label_has_one_value_per_unit() -> None:
    """The attribute counts, and the rows after it are not moved."""
    tenants = ("north", "south", "north", "south")
    records = [
        replace(
            _CALL,
            start_epoch_ns=number,
            attributes={"tenant": "label"} if number else {},
            details={"tenant": tenant},
        )
        for number, tenant in enumerate(tenants)
    ]

    codes, values = table_of(records, Goal()).groups["tenant"]

    assert [values[code] for code in codes] == list(tenants)


def test_a_server_that_goes_on_does_not_delay_a_first_token() -> None:
    """The block of the loop holds it back, whatever the server writes meanwhile."""
    segments = (
        Segment("prefill", 0, 60),
        Segment("decode", 60, 160, Source.SERVER_REPORTED),
        Segment("event_loop", 160, 180),
        Segment("decode", 180, 220, Source.SERVER_REPORTED),
    )
    record = replace(
        _records()[1],
        outcome=Outcome.COMPLETED,
        duration_ns=220,
        segments=segments,
        metrics={
            "duration": MetricValue(220),
            "time_to_first_token": MetricValue(180),
            "time_to_first_visible_token": MetricValue(180),
        },
    )
    found = {}
    for goal in _GOALS:
        table = table_of([record], goal)
        found[goal.metric] = dict(zip(table.names, table.segments_ns[0].tolist(), strict=True))

    assert found["time_to_first_token"] == {"prefill": 60, "decode": 0, "event_loop": 120}
    assert found["duration"] == {"prefill": 60, "decode": 140, "event_loop": 20}
