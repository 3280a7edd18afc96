"""A `latspan.request` inside another request is the inner part of that one unit of work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import SpanKind

import latspan
from latspan import Kind
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan.errors import EmptyHistogramError, UnknownNameError
from latspan.integrations import Outcome
from latspan.integrations.formats import OPENAI_CHAT
from latspan.testing import RequestRecord, Side
from tests.servers.conftest import MS, App, Server, answering


def _call(server: Server, ms: int) -> None:
    """Make a call of a model that takes so many milliseconds."""
    call = open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    server.clock.advance(ms * MS)
    call.returned()
    call.end(Outcome.COMPLETED)


def _handled(handle: Callable[[], None]) -> App:
    """Return an application that answers after `handle`."""
    answer = answering(b"hi")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        handle()
        await answer(scope, receive, send)

    return app


def _durations(record: RequestRecord) -> list[tuple[str, int]]:
    return [(name, ns // MS) for name, ns, _ in record.segment_totals]


def _assistant(server: Server) -> Callable[[], None]:
    """Return a handler: 5 ms, then `answer` of 7 ms of its own, 20 of retrieval and a call."""

    def handle() -> None:
        server.clock.advance(5 * MS)
        with latspan.attributes(inference_path="chat"), latspan.request("answer"):
            server.clock.advance(3 * MS)
            with latspan.stage("retrieve"):
                server.clock.advance(20 * MS)
            _call(server, 40)
            server.clock.advance(4 * MS)
        server.clock.advance(2 * MS)

    return handle


def test_sixty_chats_are_sixty(server: Server) -> None:
    """A snapshot counts the request that the user waits for, and not its inner part too."""
    for _ in range(60):
        server.serve(_handled(_assistant(server)))

    snapshot = server.seen.snapshot()
    assert snapshot.count() == 60
    assert snapshot.count(kind="request") == 60
    assert snapshot.count(kind="call") == 60
    assert snapshot.percentile("duration", 95) == pytest.approx(74, rel=1e-3)
    assert snapshot.segment("application").count() == 60


def test_the_outer_request_has_the_whole_timeline(server: Server) -> None:
    """Its stages and its calls, wherever they were opened, tile its duration."""
    server.serve(_handled(_assistant(server)))

    (outer,) = [each for each in server.seen.records if each.kind is Kind.REQUEST]
    assert outer.side is Side.SERVER
    assert _durations(outer) == [
        ("application", 14),
        ("retrieve", 20),
        ("unattributed", 40),
    ]


def test_the_inner_request_stays_in_the_trace(server: Server) -> None:
    """Its span is between the served request and the call, and its own timeline is complete."""
    server.serve(_handled(_assistant(server)))

    (served,) = [each for each in server.seen.spans if each.kind is SpanKind.SERVER]
    (inner,) = [each for each in server.seen.spans if each.name == "answer"]
    (call,) = [each for each in server.seen.spans if each.name == "chat m"]
    assert inner.parent is not None
    assert call.parent is not None
    assert served.context is not None
    assert inner.context is not None
    assert (inner.parent.span_id, call.parent.span_id) == (
        served.context.span_id,
        inner.context.span_id,
    )
    assert inner.attributes is not None
    assert inner.attributes["latspan.kind"] == "inner_request"
    (record,) = [each for each in server.seen.records if each.kind is Kind.INNER_REQUEST]
    assert record.side is Side.SERVER
    assert _durations(record) == [
        ("application", 7),
        ("retrieve", 20),
        ("unattributed", 40),
    ]


def test_the_inner_request_is_found_by_its_kind_or_attribute(server: Server) -> None:
    """It has its own duration; its segments are those of the outer request, recorded once."""
    for _ in range(20):
        server.serve(_handled(_assistant(server)))

    snapshot = server.seen.snapshot()
    assert snapshot.count(kind="inner_request") == 20
    assert snapshot.percentile("duration", 95, kind="inner_request") == pytest.approx(67, rel=1e-3)
    assert snapshot.count(inference_path="chat") == 20
    assert snapshot.percentile("duration", 95, inference_path="chat") == pytest.approx(67, rel=1e-3)
    with pytest.raises(UnknownNameError, match="inner_request"):
        snapshot.count(inference_path="chat", kind="request")
    with pytest.raises(EmptyHistogramError):
        snapshot.segment("application", kind="inner_request").percentile(50)


def test_no_instant_is_counted_twice(server: Server) -> None:
    """The segments of the request sum to what the user waited."""
    server.serve(_handled(_assistant(server)))

    snapshot = server.seen.snapshot()
    total = sum(
        series.histogram.sum_ns
        for key, series in snapshot.series.items()
        if key.metric == "segment" and key.kind is Kind.REQUEST
    )
    assert total == 74 * MS


def test_a_request_inside_a_request_of_the_application(server: Server) -> None:
    """Also without a server, at any depth."""
    with latspan.request("outer"):
        with latspan.request("middle"), latspan.stage("rerank"), latspan.request("innermost"):
            server.clock.advance(3 * MS)
        with latspan.request("second"):
            server.clock.advance(4 * MS)

    snapshot = server.seen.snapshot()
    assert (snapshot.count(), snapshot.count(kind="inner_request")) == (1, 3)
    kinds = {each.name: (each.kind, each.side) for each in server.seen.records}
    assert kinds["outer"] == (Kind.REQUEST, Side.CLIENT)
    assert kinds["innermost"] == (Kind.INNER_REQUEST, Side.CLIENT)


def test_a_request_inside_a_stage_alone_is_counted(server: Server) -> None:
    """A stage is a part of a request and not a unit of work."""
    with latspan.stage("batch"), latspan.request("one"):
        server.clock.advance(3 * MS)

    assert server.seen.snapshot().count(kind="request") == 1


def test_a_request_after_the_response_is_a_unit_of_its_own(server: Server) -> None:
    """No user waits for work in the background, so it is not a part of the response."""
    answer = answering(b"hi")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answer(scope, receive, send)
        with latspan.request("summarize"):
            server.clock.advance(30 * MS)

    server.serve(app)

    counted = {each.name: each.kind for each in server.seen.records}
    assert counted == {"POST": Kind.REQUEST, "summarize": Kind.REQUEST}


def test_a_task_that_outlives_its_request_opens_requests_of_its_own(server: Server) -> None:
    """A task has the context in which it was created, though that request has ended."""
    answer = answering(b"hi")
    tasks: list[asyncio.Task[None]] = []

    async def works() -> None:
        with latspan.request("later"):
            server.clock.advance(30 * MS)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        tasks.append(asyncio.create_task(works()))
        await answer(scope, receive, send)
        await tasks[0]

    server.serve(app)

    (later,) = [each for each in server.seen.records if each.name == "later"]
    assert later.kind is Kind.REQUEST


def test_a_request_continued_elsewhere_is_still_the_same_unit(server: Server) -> None:
    """A handoff to a thread carries the request; one to another process begins a unit there."""
    with latspan.request("ask"):
        here = latspan.handoff()
        headers = latspan.handoff(waits=None).headers()
        with latspan.attach(here), latspan.request("in a thread"):
            server.clock.advance(3 * MS)
    with latspan.attach(headers), latspan.request("in another process"):
        server.clock.advance(3 * MS)

    kinds = {each.name: each.kind for each in server.seen.records}
    assert kinds["in a thread"] is Kind.INNER_REQUEST
    assert kinds["in another process"] is Kind.REQUEST


def test_annotations_inside_belong_to_the_outer_request(server: Server) -> None:
    """The model, a degradation and the tokens are those of the request that is counted."""

    def handle() -> None:
        with latspan.request("answer"):
            latspan.annotate(model="m", provider="acme")
            latspan.mark_degraded("feature_off")
            for _ in latspan.track_tokens(iter("ab")):
                server.clock.advance(10 * MS)

    server.serve(_handled(handle))

    (outer,) = [each for each in server.seen.records if each.kind is Kind.REQUEST]
    assert outer.attributes["model"] == "m"
    assert {"degraded", "time_to_first_token"} <= set(outer.metrics)
    assert server.seen.snapshot().metric("degraded", kind="request").count() == 1


def test_a_wait_inside_lasts_until_it_is_attached(server: Server) -> None:
    """A handoff waits for as long as its unit is open, though the inner request has ended."""
    with latspan.request("outer"):
        with latspan.request("inner"):
            carried = latspan.handoff()
            server.clock.advance(2 * MS)
        server.clock.advance(3 * MS)
        with latspan.attach(carried):
            server.clock.advance(4 * MS)

    (outer,) = [each for each in server.seen.records if each.kind is Kind.REQUEST]
    assert _durations(outer) == [("queue", 5), ("application", 4)]
