"""Batches, the state of the server, what was spared, who was turned away; stages as decorators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan._base import log as _log
from latspan.errors import UnknownNameError
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord
from tests.servers.conftest import MS, App, Server, answering


@pytest.fixture(autouse=True)
def nothing_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests were warned of."""
    monkeypatch.setattr(_log, "_given", set[str]())


def _of(seen: Captured, kind: Kind) -> list[RequestRecord]:
    return [each for each in seen.records if each.kind is kind]


def _attributes(seen: Captured, name: str) -> dict[str, Any]:
    (span,) = [each for each in seen.spans if each.name == name]
    return dict(span.attributes or {})


def _saying(say: Any, app: App) -> App:
    async def saying(scope: Any, receive: Any, send: Any) -> None:
        say()
        await app(scope, receive, send)

    return saying


def test_one_pass_serves_many_requests(server: Server) -> None:
    """Each has the stage, as long, in its own trace, with the size of the batch."""
    clock = server.clock
    handoffs: list[latspan.Handoff] = []

    async def ask(name: str, done: asyncio.Event) -> None:
        with latspan.request(name):
            handoffs.append(latspan.handoff())
            await done.wait()

    async def serve() -> None:
        done = asyncio.Event()
        asking = [asyncio.create_task(ask(name, done)) for name in ("one", "two", "three")]
        await asyncio.sleep(0)
        clock.advance(4 * MS)
        with latspan.batch("prefill", handoffs, window_s=0.004):
            clock.advance(20 * MS)
        done.set()
        await asyncio.gather(*asking)

    asyncio.run(serve())
    requests = _of(server.seen, Kind.REQUEST)
    assert sorted(each.name for each in requests) == ["one", "three", "two"]
    for request in requests:
        assert [(each.name, each.duration_ns) for each in request.segments] == [
            ("queue", 4 * MS),
            ("prefill", 20 * MS),
        ]
    prefills = [each for each in server.seen.spans if each.name == "prefill"]
    assert len({each.context.trace_id for each in prefills if each.context}) == 3
    for prefill in prefills:
        attributes = prefill.attributes or {}
        assert attributes["latspan.batch.size"] == 3
        assert attributes["latspan.batch.window"] == 0.004
        assert attributes["latspan.stage.kind"] == "prefill"


def test_a_batch_that_fails_fails_for_all(server: Server) -> None:
    """The exception is the application's own."""
    with latspan.request("one"):
        handoff = latspan.handoff()
        with pytest.raises(MemoryError), latspan.batch("forward", [handoff], kind="prefill"):
            raise MemoryError
    (stage,) = [each for each in _of(server.seen, Kind.STAGE) if each.name == "forward"]
    assert stage.outcome is Outcome.ERROR
    assert _attributes(server.seen, "forward")["error.type"] == "MemoryError"


def test_a_batch_of_no_standard_kind_is_refused() -> None:
    """Whether latspan is on or not."""
    refused = pytest.raises(UnknownNameError, match="no standard stage 'nonsense'")
    with refused, latspan.batch("forward", [], kind="nonsense"):
        pass


def test_the_state_of_the_server_is_on_the_requests_span(server: Server) -> None:
    """Wherever inside it is said, and the last word counts."""

    def say() -> None:
        latspan.annotate(requests_waiting=9, kv_usage=0.1)
        with latspan.stage("queue"):
            latspan.annotate(
                batch_size=8,
                batch_window_s=0.01,
                requests_running=4,
                requests_waiting=2,
                cache_hit_ratio=0.5,
                kv_usage=1.0,
                speculative_acceptance=0.0,
                input_tokens=12,
                cached_tokens=6,
            )

    server.serve(_saying(say, answering(b"a")))
    said = _attributes(server.seen, "POST")
    assert {name: value for name, value in said.items() if name.startswith("gen_ai")} == {
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.cache_read.input_tokens": 6,
    }
    assert said["latspan.batch.size"] == 8
    assert said["latspan.batch.window"] == 0.01
    assert said["latspan.requests.running"] == 4
    assert said["latspan.requests.waiting"] == 2
    assert said["latspan.cache.hit_ratio"] == 0.5
    assert said["latspan.kv.usage"] == 1.0
    assert said["latspan.speculative.acceptance"] == 0.0
    assert "latspan.kv.usage" not in _attributes(server.seen, "queue")


@pytest.mark.parametrize(
    "impossible",
    [
        {"kv_usage": 1.5},
        {"kv_usage": -0.1},
        {"cache_hit_ratio": float("nan")},
        {"batch_size": -1},
        {"requests_waiting": "many"},
        {"requests_running": True},
        {"batch_window_s": float("inf")},
        {"input_tokens": 2**70},
    ],
)
def test_a_value_that_cannot_be_is_not_recorded(
    server: Server, impossible: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The request is served, and latspan says once what it left out."""
    with caplog.at_level(logging.WARNING, logger="latspan"):
        server.serve(_saying(lambda: latspan.annotate(**impossible), answering(b"a")))
    said = _attributes(server.seen, "POST")
    assert not any((value is None) for value in said.values())
    assert not {"latspan.kv.usage", "latspan.cache.hit_ratio", "latspan.batch.size"} & said.keys()
    assert "not recorded: " in caplog.text


def test_annotations_in_another_process_are_on_the_stage(server: Server) -> None:
    """The request is in another process; here only its stages are."""
    with latspan.attach({}):
        latspan.annotate(batch_size=1)
        with latspan.stage("prefill"):
            latspan.annotate(batch_size=2)
    assert _attributes(server.seen, "prefill")["latspan.batch.size"] == 2


def test_a_degraded_answer_is_an_answer(server: Server) -> None:
    """An attribute, a count, and no outcome."""

    def say() -> None:
        latspan.mark_degraded("fallback_model")
        latspan.mark_degraded("output_cut", "fallback_model")

    server.serve(_saying(say, answering(b"a")))
    server.serve(answering(b"a"))
    assert _of(server.seen, Kind.REQUEST)[0].outcome is Outcome.COMPLETED
    (said,) = [
        dict(span.attributes or {})["latspan.degraded"]
        for span in server.seen.spans
        if "latspan.degraded" in (span.attributes or {})
    ]
    assert said == ("fallback_model", "output_cut")
    assert server.seen.snapshot().metric("degraded", kind="request").count() == 1


def test_no_other_way_to_degrade() -> None:
    """The hint names those there are."""
    with pytest.raises(UnknownNameError, match="fallback_model, feature_off, output_cut"):
        latspan.mark_degraded("tired")  # type: ignore[arg-type]


def test_who_is_turned_away_in_a_stream_is_rejected(server: Server) -> None:
    """The status said 200 by then."""
    server.serve(_saying(lambda: latspan.mark_rejected(retry_after_s=2.5), answering(b"busy")))
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.outcome is Outcome.REJECTED
    assert _attributes(server.seen, "POST")["latspan.retry_after"] == 2.5


@pytest.mark.parametrize(
    ("status", "said", "retry_after"),
    [(429, b"3", 3.0), (503, b"1.5", 1.5), (429, b"Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_a_response_with_retry_after(
    server: Server, status: int, said: bytes, retry_after: float | None
) -> None:
    """In seconds; a date is one of a wall clock, and is not recorded."""
    app = answering(b"busy", status=status, headers=[(b"retry-after", said)])
    server.serve(app)
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.outcome is Outcome.REJECTED
    assert _attributes(server.seen, "POST").get("latspan.retry_after") == retry_after


def test_a_stage_around_a_function(server: Server) -> None:
    """Each run of it is one."""
    clock = server.clock

    @latspan.stage("tokenize")
    def tokenize(text: str) -> list[str]:
        """Split."""
        clock.advance(2 * MS)
        return text.split()

    @latspan.stage("rerank", kind="retrieve")
    async def rerank(words: list[str]) -> list[str]:
        with latspan.stage("safety"):
            clock.advance(1 * MS)
        clock.advance(3 * MS)
        return words[::-1]

    @latspan.stage("decode")
    def decode(words: list[str]) -> Iterator[str]:
        for word in words:
            clock.advance(1 * MS)
            yield word

    @latspan.stage("send")
    async def send(words: Iterator[str]) -> AsyncIterator[str]:
        for word in words:
            yield word

    async def serve() -> list[str]:
        with latspan.request("ask"):
            words = await rerank(tokenize("a b"))
            return [word async for word in send(decode(words))]

    assert tokenize.__doc__ == "Split."
    assert asyncio.run(serve()) == ["b", "a"]
    (request,) = _of(server.seen, Kind.REQUEST)
    assert [(each.name, each.duration_ns) for each in request.segments] == [
        ("tokenize", 2 * MS),
        ("safety", 1 * MS),
        ("rerank", 3 * MS),
        ("send", 0),
        ("decode", 2 * MS),
    ]
    assert len(_of(server.seen, Kind.STAGE)) == 5
    tokenize("c")
    assert len(_of(server.seen, Kind.STAGE)) == 6


def test_a_decorated_function_that_fails(server: Server) -> None:
    """Its own exception, one finished span."""

    @latspan.stage("auth")
    def check() -> None:
        raise PermissionError("secret")

    with pytest.raises(PermissionError, match="secret"):
        check()
    (stage,) = server.seen.records
    assert (stage.name, stage.outcome) == ("auth", Outcome.ERROR)
    assert _attributes(server.seen, "auth")["error.type"] == "PermissionError"


def test_a_request_around_a_function(server: Server) -> None:
    """As `with` has it."""

    @latspan.request("answer")
    def answer() -> int:
        server.clock.advance(1 * MS)
        return 1

    assert answer() == 1
    (request,) = _of(server.seen, Kind.REQUEST)
    assert (request.name, request.duration_ns) == ("answer", 1 * MS)


@pytest.mark.parametrize(
    "said", [{"model": 5}, {"model": ["a"], "provider": 3}, {"model": "m", "operation": 1}]
)
def test_values_that_are_not_text_are_converted(server: Server, said: dict[str, Any]) -> None:
    """A library's own type of a model, say; the request is a span whatever it is."""
    with latspan.request("answer"):
        latspan.annotate(**said)
    (span,) = server.seen.spans
    assert (span.attributes or {})["gen_ai.request.model"] == str(said["model"])


def test_values_that_are_not_recorded_are_logged_once(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """However many different values cannot be, and however long they are."""
    with caplog.at_level(logging.WARNING, logger="latspan"), latspan.request("answer"):
        for impossible in (2.5, 3.5, "x" * 9_999, 4.5):
            latspan.annotate(speculative_acceptance=impossible)  # type: ignore[arg-type]
    (record,) = caplog.records
    assert len(record.getMessage()) < 200
