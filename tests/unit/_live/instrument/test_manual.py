"""What people say in their own code: requests, stages and what they are about."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

import latspan
from latspan import semconv
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan._live.operations._enclosing import Scope, current_scope
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.errors import UnknownNameError
from latspan.testing import Captured, ManualClock

MS = 1_000_000


def _open(model: str = "m") -> ModelCall:
    call = open_call(operation="chat", provider="openai", model=model, api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    return call


def _call(clock: ManualClock, ms: int, model: str = "m") -> None:
    """Make a call that takes so many milliseconds."""
    call = _open(model)
    clock.advance(ms * MS)
    call.returned()
    call.end(Outcome.COMPLETED)


def _record(seen: Captured, kind: Kind) -> RequestRecord:
    (record,) = [record for record in seen.records if record.kind is kind]
    return record


def _segments(record: RequestRecord) -> list[tuple[str, int]]:
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return [(segment.name, segment.duration_ns // MS) for segment in record.segments]


def test_a_request_splits_its_time_between_the_application_and_its_calls(
    clock: ManualClock, seen: Captured
) -> None:
    """Preparation, the earlier call as one segment, the last call's own, and what followed."""
    with latspan.request("answer"):
        clock.advance(5 * MS)
        _call(clock, 30)
        clock.advance(7 * MS)
        _call(clock, 40)
        clock.advance(3 * MS)

    assert _segments(_record(seen, Kind.REQUEST)) == [
        ("application", 5),
        ("unattributed", 30),
        ("application", 7),
        ("unattributed", 40),
        ("application", 3),
    ]
    (span,) = [span for span in seen.spans if span.name == "answer"]
    attributes = dict(span.attributes or {})
    assert {name for name in attributes if name.endswith(".duration")} == {
        "latspan.application.duration"
    }
    assert attributes["latspan.application.duration"] == 0.015
    assert attributes["latspan.application.before"] == 0.005
    assert attributes["latspan.application.between"] == 0.007
    assert attributes["latspan.application.after"] == 0.003


def test_the_segments_of_a_call_are_those_of_its_request_too(
    clock: ManualClock, seen: Captured
) -> None:
    """A question without a kind is about the request, which its user waits for."""
    with latspan.request("answer"):
        clock.advance(5 * MS)
        _call(clock, 30)

    snapshot = seen.snapshot()
    assert snapshot.count(kind="request") == 1
    assert snapshot.count(kind="call") == 1
    assert snapshot.segment("application").count() == 1
    assert snapshot.segment("unattributed").count() == 1
    assert snapshot.segment("unattributed", kind="call").count() == 1
    assert snapshot.percentile("duration", 0) == 35
    assert snapshot.percentile("duration", 0, kind="call") == 30


def test_parallel_calls_keep_their_overlap(clock: ManualClock, seen: Captured) -> None:
    """The request waited for the first one until the second began, and then for that one."""
    with latspan.request("answer"):
        first = _open("first")
        clock.advance(10 * MS)
        second = _open("second")
        clock.advance(20 * MS)
        first.end(Outcome.COMPLETED)
        clock.advance(30 * MS)
        second.returned()
        second.end(Outcome.COMPLETED)

    assert _segments(_record(seen, Kind.REQUEST)) == [
        ("unattributed", 10),
        ("unattributed", 50),
    ]
    calls = {record.name: record for record in seen.records if record.kind is Kind.CALL}
    assert calls["chat first"].start_epoch_ns < calls["chat second"].start_epoch_ns
    spans = {span.name: span for span in seen.spans}
    request = spans["answer"].context
    assert request is not None
    for name in calls:
        parent = spans[name].parent
        assert parent is not None
        assert parent.span_id == request.span_id


def test_a_call_that_outlives_its_request_was_not_waited_for(
    clock: ManualClock, seen: Captured
) -> None:
    """Its own record is whole."""
    with latspan.request("answer"):
        clock.advance(5 * MS)
        call = _open()
        clock.advance(10 * MS)
    clock.advance(20 * MS)
    call.end(Outcome.COMPLETED)

    assert _segments(_record(seen, Kind.REQUEST)) == [("application", 15)]
    assert _record(seen, Kind.CALL).duration_ns == 30 * MS


def test_a_tool_is_a_stage_of_its_kind(clock: ManualClock, seen: Captured) -> None:
    """As a block, as a decorator, and as a decorator with a name."""

    @latspan.tool
    def search() -> None:
        clock.advance(4 * MS)

    @latspan.tool("look_up")
    def find() -> None:
        clock.advance(6 * MS)

    with latspan.request("answer"):
        search()
        find()
        with latspan.tool("compute"):
            clock.advance(8 * MS)

    assert _segments(_record(seen, Kind.REQUEST)) == [("search", 4), ("look_up", 6), ("compute", 8)]
    spans = {span.name: dict(span.attributes or {}) for span in seen.spans}
    stages = {each.name: each.details for each in seen.records if each.kind is Kind.STAGE}
    for name in ("search", "look_up", "compute"):
        assert spans[name][semconv.LATSPAN_STAGE_KIND] == "tool"
        assert stages[name] == {semconv.LATSPAN_STAGE_KIND: "tool"}


def test_a_tool_never_has_the_name_of_a_segment_of_calls(
    clock: ManualClock, seen: Captured
) -> None:
    """Its time would be added to theirs. A stage of a server keeps its name: it is its kind."""
    with latspan.request("answer"):
        with latspan.tool("decode"):
            clock.advance(4 * MS)
        with latspan.stage("retry", kind="retrieve"):
            clock.advance(6 * MS)
        with latspan.stage("prefill"):
            clock.advance(8 * MS)

    assert _segments(_record(seen, Kind.REQUEST)) == [
        ("decode (tool)", 4),
        ("retry (retrieve)", 6),
        ("prefill", 8),
    ]


def test_stages_split_the_applications_time(clock: ManualClock, seen: Captured) -> None:
    """Each under its own name, without the calls inside it, and recorded once."""
    with latspan.request("answer"):
        with latspan.stage("retrieve"):
            clock.advance(10 * MS)
            with latspan.stage("rerank", kind="retrieve"):
                clock.advance(4 * MS)
        _call(clock, 30)
        with latspan.stage("safety"):
            clock.advance(6 * MS)

    assert _segments(_record(seen, Kind.REQUEST)) == [
        ("retrieve", 10),
        ("rerank", 4),
        ("unattributed", 30),
        ("safety", 6),
    ]
    snapshot = seen.snapshot()
    assert snapshot.segment("retrieve").count() == 1
    assert snapshot.segment("retrieve").percentile(0) == 10
    assert snapshot.segment("rerank").percentile(0) == 4
    spans = {span.name: span for span in seen.spans}
    assert (spans["rerank"].attributes or {})["latspan.stage.kind"] == "retrieve"
    rerank, retrieve = spans["rerank"].parent, spans["retrieve"].context
    assert rerank is not None
    assert retrieve is not None
    assert rerank.span_id == retrieve.span_id


def test_a_stage_inside_one_of_its_own_name_hides_nothing(
    clock: ManualClock, seen: Captured
) -> None:
    """A recursive stage reports each level's own time."""
    with latspan.request("answer"):
        clock.advance(5 * MS)
        with latspan.stage("prepare"):
            clock.advance(10 * MS)
            with latspan.stage("prepare"):
                clock.advance(4 * MS)
            clock.advance(2 * MS)
        _call(clock, 30)

    own = [
        sum(segment.duration_ns for segment in record.reports or ()) // MS
        for record in seen.records
        if record.kind is Kind.STAGE
    ]
    assert own == [4, 12]
    assert seen.snapshot().segment("prepare").percentile(0) == 16
    assert seen.snapshot().segment("prepare", kind="stage").count() == 2


def test_a_stage_stands_alone_too(clock: ManualClock, seen: Captured) -> None:
    """Outside any request it is a span and a segment all the same."""
    with latspan.stage("tokenize"):
        clock.advance(8 * MS)

    assert seen.snapshot().segment("tokenize").percentile(0) == 8
    assert [span.name for span in seen.spans] == ["tokenize"]


def test_a_stage_of_an_unknown_kind_is_refused() -> None:
    """A wrong kind would count nowhere."""
    with pytest.raises(UnknownNameError, match="no standard stage 'search'"):
        latspan.stage("rerank", kind="search")


def test_attributes_name_what_the_calls_inside_are_about(
    clock: ManualClock, seen: Captured
) -> None:
    """On spans and series; the inner word wins, what it leaves open stays."""
    with latspan.attributes(inference_path="support", traffic_class="batch"):
        _call(clock, 10)
        with latspan.attributes(traffic_class="interactive", tenant="acme"):
            _call(clock, 20)
    _call(clock, 30)

    outer, inner, bare = seen.records
    assert outer.attributes["inference_path"] == "support"
    assert outer.attributes["traffic_class"] == "batch"
    assert "tenant" not in outer.attributes
    assert dict(inner.attributes) == {
        "inference_path": "support",
        "traffic_class": "interactive",
        "tenant": "acme",
        "model": "m",
        "provider": "openai",
    }
    assert bare.attributes["inference_path"] == "m"
    span = [span for span in seen.spans if span.name == "chat m"][1]
    assert (span.attributes or {})["latspan.inference_path"] == "support"
    assert seen.snapshot().count(traffic_class="interactive") == 1


def test_an_exception_ends_a_request_and_passes_through(clock: ManualClock, seen: Captured) -> None:
    """Its type is told, its message is not."""
    with pytest.raises(LookupError), latspan.request("answer"):
        raise LookupError("a secret")

    record = _record(seen, Kind.REQUEST)
    assert record.outcome is Outcome.ERROR
    (span,) = seen.spans
    assert (span.attributes or {})["error.type"] == "LookupError"
    assert "secret" not in span.to_json()


def test_nothing_happens_until_configured() -> None:
    """Every statement is there and does nothing."""
    with (
        latspan.attributes(inference_path="x"),
        latspan.request("answer"),
        latspan.stage("retrieve"),
    ):
        pass
    assert open_call(operation="chat", provider="p", model="m", api_format=OPENAI_CHAT) is None


def test_one_scope_in_two_contexts_at_once(seen: Captured) -> None:
    """Each ends its own, whichever ends first: an object of a module's that many threads enter."""
    scope = latspan.stage("prefill")
    first, second = contextvars.copy_context(), contextvars.copy_context()
    left: list[Scope | None] = []
    for each in (first, second):
        each.run(scope.__enter__)
    for each in (first, second):
        each.run(scope.__exit__, None, None, None)
        left.append(each.run(current_scope.get))
    assert left == [None, None]
    assert len(seen.spans) == 2


async def test_an_asynchronous_generator_is_closed_inside_its_stage(seen: Captured) -> None:
    """What it does at its end is a part of it, as it is where it is synchronous."""

    @latspan.stage("decode")
    async def tokens() -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            with latspan.stage("postprocess"):
                pass

    given = tokens()
    assert await anext(given) == "a"
    await cast("AsyncGenerator[str]", given).aclose()
    spans = {span.name: span for span in seen.spans}
    parent, stage = spans["postprocess"].parent, spans["decode"].context
    assert parent is not None
    assert stage is not None
    assert parent.span_id == stage.span_id
