"""A request that stays open holds no more of its calls and stages than it says."""

from __future__ import annotations

import gc

import pytest

import latspan
from latspan._live.instrument import open_call
from latspan._live.operations._call import ModelCall
from latspan._live.operations._scope import LocalScope
from latspan._model.segments import Kind, Outcome
from latspan._model.timeline import KEPT_ONE_BY_ONE
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.testing import Captured, ManualClock

MS = 1_000_000
ROUNDS = 3 * KEPT_ONE_BY_ONE


def _round(clock: ManualClock) -> None:
    """Retrieve for 3 ms with 1 ms of them in a call, call for 4 ms more, and think for 2 ms."""
    with latspan.stage("retrieve"):
        clock.advance(2 * MS)
        _call(clock, 1)
    _call(clock, 4)
    clock.advance(2 * MS)


def _call(clock: ManualClock, ms: int) -> None:
    call = open_call(operation="chat", provider="p", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    clock.advance(ms * MS)
    call.returned()
    call.end(Outcome.COMPLETED)


def _alive(kind: type) -> int:
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


@pytest.mark.parametrize("around", [False, True])
def test_a_request_with_many_calls_holds_few_and_sums_up_exactly(
    clock: ManualClock, seen: Captured, *, around: bool
) -> None:
    """Segments sum to the duration, totals are those of all calls, and the span says how many."""
    calls, works = _alive(ModelCall), _alive(LocalScope)
    with latspan.request("answer"):
        clock.advance(5 * MS)
        loop = latspan.stage("loop")
        if around:
            loop.__enter__()
        for _ in range(ROUNDS):
            _round(clock)
        assert _alive(ModelCall) - calls <= KEPT_ONE_BY_ONE
        assert _alive(LocalScope) - works <= KEPT_ONE_BY_ONE + 2
        if around:
            loop.__exit__(None, None, None)
        _call(clock, 40)

    (record,) = [record for record in seen.records if record.kind is Kind.REQUEST]
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    assert {total.name: total.duration_ns // MS for total in record.segment_totals} == {
        "application": 5 if around else 5 + 2 * ROUNDS,
        **({"loop": 2 * ROUNDS} if around else {}),
        "retrieve": 2 * ROUNDS,
        "unattributed": 5 * ROUNDS + 40,
    }
    (span,) = [span for span in seen.spans if span.name == "answer"]
    said = dict(span.attributes or {})
    merged = said["latspan.merged.count"]
    assert isinstance(merged, int)
    assert 3 * ROUNDS - 3 * KEPT_ONE_BY_ONE < merged <= 3 * ROUNDS
    assert said["latspan.application.before"] == 0.005
    assert [child.name for child in seen.spans if child.name == "application"] == []


def test_a_request_with_few_calls_merges_none(clock: ManualClock, seen: Captured) -> None:
    """Its segments are where they were."""
    with latspan.request("answer"):
        for _ in range(10):
            _round(clock)

    (record,) = [record for record in seen.records if record.kind is Kind.REQUEST]
    assert len(record.segments) == 10 * 4
    (span,) = [span for span in seen.spans if span.name == "answer"]
    assert "latspan.merged.count" not in (span.attributes or {})


def test_a_request_that_hands_on_its_work_holds_none_that_came_back(
    clock: ManualClock, seen: Captured
) -> None:
    """An attached handoff has no wait any more."""
    with latspan.request("answer"):
        for _ in range(10):
            handoff = latspan.handoff(waits="queue")
            clock.advance(MS)
            with latspan.attach(handoff):
                pass
        from latspan._live.operations._enclosing import current_scope

        unit = current_scope.get()
        assert isinstance(unit, LocalScope)
        assert unit.waits == []

    (record,) = [record for record in seen.records if record.kind is Kind.REQUEST]
    assert [(segment.name, segment.duration_ns) for segment in record.segment_totals] == [
        ("queue", 10 * MS)
    ]
