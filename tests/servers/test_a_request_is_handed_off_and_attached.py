"""Where a context does not reach: threads, queues, other processes, and items that are lost."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import gc
import multiprocessing
import pickle
import queue
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import pytest

import latspan
from latspan import Kind, Source
from latspan._base import log as _log
from latspan._live.operations import LocalScope
from latspan._live.process.runtime import current_runtime, override_runtime
from latspan._model.timeline import KEPT_ONE_BY_ONE
from latspan.integrations import Outcome
from latspan.testing import Captured, ManualClock, RequestRecord, Segment, Side, capture
from tests.servers.conftest import MS, App, Server, answering

DEADLINE_S = 30.0


def _answering_after(work: Any) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await work()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": False})

    return app


def _request(seen: Captured) -> RequestRecord:
    (record,) = [each for each in seen.records if each.kind is Kind.REQUEST]
    return record


def _stages(seen: Captured) -> dict[str, RequestRecord]:
    return {each.name: each for each in seen.records if each.kind is Kind.STAGE}


def test_a_thread_that_goes_on_with_it_ends_its_wait(server: Server) -> None:
    """One queue, one worker; what it names is the request's, on the server's side."""
    items: queue.Queue[latspan.Handoff] = queue.Queue()
    clock = server.clock

    def worker() -> None:
        handoff = items.get(timeout=DEADLINE_S)
        clock.advance(30 * MS)
        with latspan.attach(handoff) as same:
            assert same is handoff
            with latspan.stage("prefill"):
                clock.advance(20 * MS)

    async def work() -> None:
        clock.advance(5 * MS)
        items.put(latspan.handoff())
        with ThreadPoolExecutor(1) as pool:
            pool.submit(worker).result(DEADLINE_S)
        clock.advance(1 * MS)

    with latspan.attributes(tenant="acme"):
        server.serve(_answering_after(work))
    request = _request(server.seen)
    assert request.segments == (
        Segment("application", 0, 5 * MS),
        Segment("queue", 5 * MS, 35 * MS, Source.MEASURED),
        Segment("prefill", 35 * MS, 55 * MS, Source.MEASURED),
        Segment("application", 55 * MS, 56 * MS),
    )
    stages = _stages(server.seen)
    assert {each.side for each in stages.values()} == {Side.SERVER}
    assert stages["prefill"].attributes["tenant"] == "acme"
    spans = {span.name: span for span in server.seen.spans}
    for stage in ("queue", "prefill"):
        parent = spans[stage].parent
        assert parent is not None
        assert parent.span_id == request.span_id
        assert (spans[stage].attributes or {})["latspan.source"] == "measured"
        assert (spans[stage].attributes or {})["latspan.stage.kind"] == stage
    assert stages["queue"].outcome is Outcome.COMPLETED


def test_it_is_resumed_in_many_places_and_more_than_once(server: Server) -> None:
    """The wait ends with the first."""
    clock = server.clock

    async def work() -> None:
        handoff = latspan.handoff(waits="route")
        clock.advance(2 * MS)
        for _ in range(3):
            with latspan.attach(handoff):
                clock.advance(1 * MS)
        clock.advance(4 * MS)

    server.serve(_answering_after(work))
    assert [(each.name, each.duration_ns) for each in _request(server.seen).segments] == [
        ("route", 2 * MS),
        ("application", 7 * MS),
    ]


def test_there_is_no_wait_if_none_is_requested(server: Server) -> None:
    """The code that carries it works on meanwhile."""
    clock = server.clock

    async def work() -> None:
        handoff = latspan.handoff(waits=None)
        clock.advance(2 * MS)
        with latspan.attach(handoff):
            clock.advance(1 * MS)

    server.serve(_answering_after(work))
    assert [each.name for each in _request(server.seen).segments] == ["application"]


def test_an_item_that_was_dropped_waited_until_the_end(server: Server) -> None:
    """One span of the wait, `abandoned`; the request ends in the way it ended."""
    dropped: list[latspan.Handoff] = []

    async def work() -> None:
        dropped.append(latspan.handoff())
        server.clock.advance(8 * MS)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        server.serve(_answering_after(work))
    assert _request(server.seen).outcome is Outcome.TIMEOUT
    assert _request(server.seen).segments == (Segment("queue", 0, 8 * MS, Source.MEASURED),)
    assert _stages(server.seen)["queue"].outcome is Outcome.ABANDONED
    assert sorted(span.name for span in server.seen.spans) == ["POST", "queue"]
    # Found at last, it has nothing to go on with, and changes nothing.
    with latspan.attach(dropped[0]):
        server.clock.advance(1 * MS)
    assert len(server.seen.spans) == 2


def test_what_was_carried_out_of_a_stage_goes_on_beneath_the_request(server: Server) -> None:
    """The stage is over by then, and what follows is no part of it."""

    async def work() -> None:
        with latspan.stage("route"):
            handoff = latspan.handoff()
        server.clock.advance(1 * MS)
        with latspan.attach(handoff), latspan.stage("prefill"):
            server.clock.advance(1 * MS)

    server.serve(_answering_after(work))
    spans = {span.name: span for span in server.seen.spans}
    for stage in ("route", "queue", "prefill"):
        parent = spans[stage].parent
        assert parent is not None
        assert parent.span_id == _request(server.seen).span_id


def test_a_task_of_another_context_goes_on(server: Server) -> None:
    """As the items of an `asyncio.Queue` do, whose reader was there before the request."""
    clock = server.clock

    async def serve() -> None:
        items: asyncio.Queue[tuple[latspan.Handoff, asyncio.Future[None]]] = asyncio.Queue()

        async def reader() -> None:
            while True:
                handoff, done = await items.get()
                clock.advance(3 * MS)
                with latspan.attach(handoff), latspan.stage("decode"):
                    clock.advance(4 * MS)
                done.set_result(None)

        reading = asyncio.create_task(reader())

        async def one() -> None:
            with latspan.request("ask"):
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                await items.put((latspan.handoff(), done))
                await done

        await one()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(serve())
    request = _request(server.seen)
    assert [(each.name, each.duration_ns) for each in request.segments] == [
        ("queue", 3 * MS),
        ("decode", 4 * MS),
    ]
    assert request.side is Side.CLIENT


def test_text_carries_it_to_another_process(server: Server) -> None:
    """Stages there hang beneath the request, and it hears of them: by durations alone."""
    clock = server.clock
    elsewhere = ManualClock(9_000_000 * MS)

    async def work() -> None:
        clock.advance(2 * MS)
        handoff = latspan.handoff()
        headers = handoff.headers()
        assert latspan.handoff(waits=None).headers().keys() == headers.keys()
        with capture(clock=elsewhere) as there:
            told = _do_a_part(headers, elsewhere)
        parts.append(there)
        clock.advance(50 * MS)
        handoff.merge_remote(told)
        clock.advance(1 * MS)

    parts: list[Captured] = []
    with latspan.attributes(route="/c h/ü", traffic_class="batch"):
        server.serve(_answering_after(work))
    request = _request(server.seen)
    assert request.segments == (
        Segment("application", 0, 2 * MS),
        Segment("queue", 2 * MS, 22 * MS, Source.ESTIMATED),
        Segment("tokenize", 22 * MS, 32 * MS, Source.SERVER_REPORTED),
        Segment("prefill", 32 * MS, 52 * MS, Source.SERVER_REPORTED),
        Segment("application", 52 * MS, 53 * MS),
    )
    # Each process counts what it did itself.
    assert set(_stages(server.seen)) == {"queue"}
    (there,) = parts
    stages = _stages(there)
    assert set(stages) == {"tokenize", "prefill"}
    for span in there.spans:
        assert span.parent is not None
        assert span.parent.span_id == request.span_id
    for stage in stages.values():
        assert stage.side is Side.SERVER
        assert stage.trace_id == request.trace_id
        assert stage.attributes["route"] == "/c h/ü"
        assert stage.attributes["traffic_class"] == "batch"


def _do_a_part(headers: Mapping[str, str], clock: ManualClock) -> str:
    with latspan.attach({name.title(): value for name, value in headers.items()}) as handoff:
        with latspan.stage("tokenize"):
            clock.advance(10 * MS)
        clock.advance(0)
        with latspan.stage("prefill"):
            clock.advance(20 * MS)
    return handoff.server_timing()


@pytest.mark.parametrize(
    "told",
    ["prefill;dur=90", "prefill;dur=-1", "prefill;dur=20000", "prefill;dur=999999999999999"],
    ids=["longer", "negative", "far longer", "thirty thousand years"],
)
def test_what_cannot_have_been_is_not_believed(server: Server, told: str) -> None:
    """It took 50 ms in all; the wait is unknown then, and the refusal counted."""

    async def work() -> None:
        handoff = latspan.handoff()
        handoff.headers()
        server.clock.advance(50 * MS)
        handoff.merge_remote(told)

    server.serve(_answering_after(work))
    assert [each.name for each in _request(server.seen).segments] == ["application"]
    assert server.seen.snapshot().metric("evidence_rejected", kind="request").count() == 1


def test_a_rejected_report_counts_for_the_request_of_every_stage(server: Server) -> None:
    """The stage may be over by then."""

    async def work() -> None:
        with latspan.stage("route"):
            handoff = latspan.handoff()
            handoff.headers()
        server.clock.advance(50 * MS)
        handoff.merge_remote("prefill;dur=90")
        handoff.merge_remote("prefill;dur=10")

    server.serve(_answering_after(work))
    assert server.seen.snapshot().metric("evidence_rejected", kind="request").count() == 1


def test_who_does_a_part_has_a_part_done_elsewhere_itself(server: Server) -> None:
    """What came back to it, it tells on: twice told is laid once."""
    with latspan.attach({}) as part:
        handoff = latspan.handoff()
        server.clock.advance(50 * MS)
        handoff.merge_remote("prefill;dur=30")
        handoff.merge_remote("prefill;dur=30")
    assert part.server_timing() == "queue;dur=20.000, prefill;dur=30.000"


@pytest.mark.parametrize("told", ["", "nonsense;;;=", "\x00", "x" * 1_000_000])
def test_without_reported_stages_the_whole_time_is_the_wait(server: Server, told: str) -> None:
    """An estimate that says what it holds: the way there and back, and what nobody named."""

    async def work() -> None:
        handoff = latspan.handoff()
        server.clock.advance(50 * MS)
        handoff.merge_remote(told)

    server.serve(_answering_after(work))
    assert _request(server.seen).segments == (Segment("queue", 0, 50 * MS, Source.ESTIMATED),)


def test_copies_are_the_same_and_pickles_go_elsewhere(server: Server) -> None:
    """A pickle may be read by anybody."""

    async def work() -> None:
        handoff = latspan.handoff()
        assert copy.copy(handoff) is handoff
        assert copy.deepcopy({"a": handoff})["a"] is handoff
        there = pickle.loads(pickle.dumps(handoff))  # noqa: S301 - our own
        assert there.headers() == handoff.headers()

    server.serve(_answering_after(work))
    # Given away and never heard of again: nobody knows how long it waited.
    assert [each.name for each in _request(server.seen).segments] == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": "nonsense", "latspan-side": "nowhere", "latspan-": "x"},
        {"latspan-route": "%ff%zz", "latspan-nobody-knows-this": "x"},
    ],
)
def test_hostile_headers_belong_to_no_request(server: Server, headers: dict[str, str]) -> None:
    """What comes with a message may be anybody's."""
    with latspan.attach(headers), latspan.stage("prefill"):
        server.clock.advance(1 * MS)
    (stage,) = server.seen.records
    assert (stage.name, stage.side) == ("prefill", Side.SERVER)
    assert server.seen.snapshot().segment("prefill", kind="stage").count() == 1


def test_without_latspan_it_is_carried_for_nothing() -> None:
    """An application that switched nothing on runs the same code."""
    handoff = latspan.handoff()
    with latspan.attach(handoff), latspan.stage("prefill"):
        pass
    with latspan.attach(pickle.loads(pickle.dumps(handoff))):  # noqa: S301 - our own
        pass
    handoff.merge_remote("prefill;dur=1")
    assert handoff.server_timing() == ""


def _serve_a_part(items: Connection, *, dies: bool) -> None:
    with capture() as there:
        headers = items.recv()
        with latspan.attach(headers) as handoff, latspan.stage("prefill"):
            threading.Event().wait(0.02)
            if dies:
                multiprocessing.current_process().kill()
                threading.Event().wait(DEADLINE_S)
        items.send((handoff.server_timing(), [each.trace_id for each in there.records]))


@pytest.mark.parametrize("dies", [False, True])
def test_a_worker_of_another_process(dies: bool) -> None:
    """Answered or killed in the middle: the request is one span, and ends as its handler says."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    worker = multiprocessing.get_context("spawn").Process(
        target=_serve_a_part, args=(there,), kwargs={"dies": dies}
    )
    worker.start()
    there.close()
    with capture() as seen:
        try:
            with latspan.request("ask"):
                handoff = latspan.handoff()
                here.send(handoff.headers())
                told, traces = here.recv()
                handoff.merge_remote(told)
        except (EOFError, ConnectionResetError):
            assert dies
        else:
            assert not dies
            assert traces == [_request(seen).trace_id]
    worker.join(DEADLINE_S)
    request = _request(seen)
    assert len([span for span in seen.spans if span.name == "ask"]) == 1
    if dies:
        assert request.outcome is Outcome.ERROR
        assert [each.name for each in request.segments] == ["application"]
    else:
        assert request.outcome is Outcome.COMPLETED
        by_name = {each.name: each for each in request.segments}
        assert by_name["prefill"].source is Source.SERVER_REPORTED
        assert by_name["prefill"].duration_ns >= 20 * MS
        assert by_name["queue"].source is Source.ESTIMATED
    assert sum(each.duration_ns for each in request.segments) == request.duration_ns


def test_a_generator_that_goes_on_with_it_is_closed_elsewhere(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """As frameworks take each part of an answer in a context of its own."""

    def parts(handoff: latspan.Handoff) -> Iterator[str]:
        with latspan.attach(handoff):
            yield "a"
            yield "b"

    with latspan.request("ask"):
        given = parts(latspan.handoff())
        assert contextvars.copy_context().run(next, given) == "a"
        assert [*given] == ["b"]
    assert caplog.records == []
    assert len(server.seen.spans) == 2


@pytest.fixture
def lax(server: Server) -> Iterator[Server]:
    """Give a server whose latspan logs what fails, as it does for users."""
    runtime = current_runtime()
    assert runtime is not None
    with override_runtime(replace(runtime, strict=False)):
        yield server


@pytest.mark.parametrize(
    "told",
    [
        None,
        b"x",
        [("a", "b")],
        {5: 5},
        {"traceparent": 5, "baggage": 5, "latspan-inference-path": 5},
        {"traceparent": b"00-11111111111111111111111111111111-1111111111111111-01"},
    ],
)
def test_invalid_headers_belong_to_no_request(lax: Server, told: Any) -> None:
    """What came with a message is not the application's fault."""
    with latspan.attach(told), latspan.stage("prefill"):
        pass
    assert [(each.name, each.side) for each in lax.seen.records] == [("prefill", Side.SERVER)]


def test_what_cannot_be_text_is_carried_as_far_as_it_can(server: Server) -> None:
    """Half a character, out of somebody's bytes."""
    with latspan.attributes(tenant="a\ud800"), latspan.request("ask"):
        handoff = latspan.handoff().headers()
    assert handoff["latspan-tenant"] == "a%3F"


def _works() -> int:
    return sum(isinstance(each, LocalScope) for each in gc.get_objects())


@pytest.mark.parametrize("headers", [None, {"latspan-side": "server"}])
def test_nothing_is_held_when_it_is_over(server: Server, headers: dict[str, str] | None) -> None:
    """With the garbage collector off, as model servers have it; here, and in another process."""
    gc.collect()
    gc.disable()
    try:
        before = _works()
        with (
            latspan.request("ask") if headers is None else nullcontext(),
            latspan.attach(headers or latspan.handoff()),
            latspan.stage("prefill"),
            latspan.stage("tokenize"),
        ):
            pass
        assert _works() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("report", ["prefill;dur=10", "prefill;dur=20000", "prefill;dur=-1"])
def test_a_request_does_not_hold_a_handoff_after_its_wait(server: Server, report: str) -> None:
    """Also if the report of the other process is rejected; a request may hand over many jobs."""
    held: list[int] = []

    def handoffs() -> int:
        return sum(isinstance(each, latspan.Handoff) for each in gc.get_objects())

    async def work() -> None:
        before = handoffs()
        for _ in range(3):
            handoff = latspan.handoff()
            handoff.headers()
            server.clock.advance(50 * MS)
            handoff.merge_remote(report)
            del handoff
        held.append(handoffs() - before)

    gc.collect()
    gc.disable()
    try:
        server.serve(_answering_after(work))
    finally:
        gc.enable()

    assert held == [0]


def test_a_handle_that_is_resumed_for_ever_stays_small(server: Server) -> None:
    """By an engine that keeps it; what it tells is still all of it."""
    with latspan.attach({}) as handoff:
        for _ in range(10_000):
            with latspan.stage("prefill"):
                server.clock.advance(1 * MS)
    with latspan.attach(handoff), latspan.stage("decode"):
        with latspan.stage("tokenize"):
            server.clock.advance(2 * MS)
        told = handoff.server_timing()
    assert told == "prefill;dur=10000.000, tokenize;dur=2.000"
    scope: Any = handoff._scope  # pyright: ignore[reportPrivateUsage]
    assert len(scope._contents.activity.children) <= KEPT_ONE_BY_ONE


def test_wrong_arguments_are_the_applications(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are logged in one line, without a traceback of latspan, and change nothing."""
    monkeypatch.setattr(_log, "_given", set[str]())
    missing: Any = None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        latspan.handoff().merge_remote(missing)
        with latspan.batch("prefill", [latspan.handoff(waits=None), missing]):
            pass
        tokens = latspan.track_tokens(["a"], count=lambda _: missing)
        assert list(tokens) == ["a"]
        await answering(b"a")(scope, receive, send)

    server.serve(app)
    lines = [each.getMessage() for each in caplog.records]
    assert [line.split(":")[0].split(" returns")[0] for line in lines] == [
        "merge_remote",
        "batch",
        "the function 'count' of track_tokens",
    ]
    assert all(each.exc_info is None for each in caplog.records)
