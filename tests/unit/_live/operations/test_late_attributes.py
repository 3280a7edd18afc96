"""Attributes that are set when a latency is known already are marked, and group no requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

import latspan
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan._model.recording.folder._lines import line_of, record_of
from latspan._model.segments import Kind, Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan._study.table import table_of_records
from latspan._study.table._columns import Columns
from latspan._study.table._reading import finished
from latspan.testing import Captured, ManualClock, RequestRecord, capture

MS = 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    """The clock that latspan reads."""
    return ManualClock()


@pytest.fixture
def seen(clock: ManualClock) -> Iterator[Captured]:
    """What latspan records on that clock."""
    with capture(clock=clock) as captured:
        yield captured


def _call(*, streamed: bool = False) -> ModelCall:
    call = open_call(
        operation="chat",
        provider="openai",
        model="m",
        api_format=OPENAI_CHAT,
        streamed=streamed,
    )
    assert isinstance(call, ModelCall)
    return call


def _end(call: ModelCall, clock: ManualClock) -> None:
    clock.advance(MS)
    call.returned()
    call.end(Outcome.COMPLETED)
    clock.advance(MS)


def _request(seen: Captured) -> RequestRecord:
    (record,) = [each for each in seen.records if each.kind is Kind.REQUEST]
    return record


def test_what_is_set_after_a_call_is_late(seen: Captured, clock: ManualClock) -> None:
    """Before it and during it, the latency is not known."""
    with latspan.request("answer") as request:
        request.set_attribute("documents", 3)
        call = _call()
        latspan.annotate({"arm": "a"}, traffic_class="interactive")
        _end(call, clock)
        request.set_attribute("slo", "violated")
        latspan.annotate({"retried": True}, tenant="acme")
    assert _request(seen).late == ("retried", "slo", "tenant")


def test_what_is_set_between_two_calls_is_late(seen: Captured, clock: ManualClock) -> None:
    """A second call may be the consequence of the first one."""
    with latspan.request("answer") as request:
        _end(_call(), clock)
        request.set_attribute("retried", True)
        _end(_call(), clock)
    assert _request(seen).late == ("retried",)


def test_a_value_that_changes_late_is_late(seen: Captured, clock: ManualClock) -> None:
    """A value that is only set again is not, nor is one of the surrounding code."""
    with latspan.attributes({"arm": "a"}, tenant="acme"), latspan.request("answer") as request:
        request.set_attribute("documents", 3)
        request.set_attribute("slo", "met")
        _end(_call(), clock)
        request.set_attribute("documents", 3)
        request.set_attribute("slo", "violated")
        latspan.annotate({"arm": "a"}, tenant="acme")
    assert _request(seen).late == ("slo",)


def test_after_the_first_visible_token_the_latency_is_known(
    seen: Captured, clock: ManualClock
) -> None:
    """The stream of the call goes on."""
    with latspan.request("answer") as request:
        call = _call(streamed=True)
        call.returned()
        reads = call.reads
        assert reads is not None
        clock.advance(MS)
        request.set_attribute("waiting", True)
        reads.add(clock.monotonic_ns(), clock.monotonic_ns() + MS, 2)
        clock.advance(2 * MS)
        request.set_attribute("slow", True)
        call.end(Outcome.COMPLETED)
    assert _request(seen).late == ("slow",)


def test_a_call_that_is_still_open_makes_nothing_late(seen: Captured, clock: ManualClock) -> None:
    """Nothing is known of it."""
    with latspan.request("answer") as request:
        call = _call()
        clock.advance(MS)
        request.set_attribute("arm", "a")
    _end(call, clock)
    assert _request(seen).late == ()


def test_without_a_call_the_first_tracked_token_counts(seen: Captured, clock: ManualClock) -> None:
    """A server generates the response itself."""
    with latspan.request("answer") as request:
        with latspan.stage("tokenize"):
            clock.advance(MS)
        request.set_attribute("length", "long")
        clock.advance(MS)
        for _ in latspan.track_tokens(["a", "b"]):
            clock.advance(MS)
        request.set_attribute("slo", "violated")
    assert _request(seen).late == ("slo",)


def test_without_a_token_the_first_stage_counts(seen: Captured, clock: ManualClock) -> None:
    """Its time is all that is known."""
    with latspan.request("answer") as request:
        request.set_attribute("length", "long")
        with latspan.stage("retrieve"):
            request.set_attribute("index", "main")
            clock.advance(MS)
        request.set_attribute("slow", True)
        clock.advance(MS)
    assert _request(seen).late == ("slow",)


def test_without_anything_inside_nothing_is_late(seen: Captured, clock: ManualClock) -> None:
    """No latency of a part is known."""
    with latspan.request("answer") as request:
        clock.advance(MS)
        request.set_attribute("arm", "a")
    assert _request(seen).late == ()


def _record(number: int, *late: str) -> RequestRecord:
    return RequestRecord(
        name="answer",
        kind=Kind.REQUEST,
        outcome=Outcome.COMPLETED,
        start_epoch_ns=number,
        duration_ns=1,
        segments=(),
        scope_id=number,
        attributes={"tenant": "acme"},
        details={"slo": "met", "arm": "a"},
        late=late,
    )


def test_a_line_states_late_attributes() -> None:
    """A line without them has no such field, as lines of older releases."""
    record = _record(1, "slo", "tenant")
    line = line_of(record)
    assert json.loads(line)["late"] == ["slo", "tenant"]
    assert record_of(line).late == record.late
    assert "late" not in json.loads(line_of(replace(record, late=())))
    assert record_of(line_of(replace(record, late=()))).late == ()


@pytest.mark.parametrize("late", ["slo", [5], {"slo": 1}, None])
def test_a_damaged_line_is_refused(late: object) -> None:
    """Another program may have written it."""
    line = json.dumps({**json.loads(line_of(_record(1))), "late": late})
    with pytest.raises((TypeError, ValueError)):
        record_of(line)


def test_an_attribute_that_is_late_once_groups_no_requests() -> None:
    """The values of the other requests may follow from their latency too."""
    table = table_of_records([_record(1), _record(2, "slo", "tenant"), _record(3)])
    assert {"slo", "tenant"} == table.late
    assert table.groups.keys() == {"arm"}


def test_a_late_attribute_groups_requests_if_it_is_asked_for() -> None:
    """The reader of the result knows what it means."""
    columns = Columns(Kind.REQUEST, attributes=("slo",))
    columns.add([json.loads(line_of(_record(1, "slo")))])
    assert "slo" in finished(columns, {}).groups
