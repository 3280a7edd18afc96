"""An answer's tokens as a server generates them: stages, times and counts, and the same tokens."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from dataclasses import replace
from typing import Any

import pytest

import latspan
from latspan import Kind, semconv
from latspan._live.process.runtime import current_runtime, override_runtime
from latspan._model.evidence.gen_ai_latency import read_span
from latspan.integrations import Outcome
from latspan.testing import Captured, ManualClock, RequestRecord, Segment, Side
from tests.servers.conftest import MS, App, Client, Server, answering

EVENTS = (b"content-type", b"text/event-stream")


class Model:
    """
    Gives tokens, by a script.

    Args:
        clock: Goes on while it generates.
        fails: Raises instead of the token at this place.
    """

    def __init__(self, clock: ManualClock, *, fails: int | None = None) -> None:
        self.clock = clock
        self.fails = fails
        self.closed = 0

    def tokens(self, *words: str) -> Iterator[str]:
        """Give one each 10 ms, the first after 30 ms."""
        try:
            for at, word in enumerate(words):
                self.clock.advance(10 * MS if at else 30 * MS)
                if at == self.fails:
                    raise ConnectionError("secret")
                yield word
        finally:
            self.closed += 1

    async def atokens(self, *words: str) -> AsyncIterator[str]:
        """Give the same, asynchronously."""
        try:
            for at, word in enumerate(words):
                await asyncio.sleep(0)
                self.clock.advance(10 * MS if at else 30 * MS)
                if at == self.fails:
                    raise ConnectionError("secret")
                yield word
        finally:
            self.closed += 1


def _sending(tokens: Callable[[], AsyncGenerator[str]]) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        latspan.annotate(model="m", provider="vllm")
        await send({"type": "http.response.start", "status": 200, "headers": [EVENTS]})
        async with aclosing(tokens()) as given:
            async for word in given:
                body = f"data: {word}\n\n".encode()
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


def _of(seen: Captured, kind: Kind) -> list[RequestRecord]:
    return [each for each in seen.records if each.kind is kind]


def test_a_streamed_answer_is_a_models(server: Server) -> None:
    """Stages, the two times, the count; and the conventions' metrics of a server."""
    model = Model(server.clock)

    async def tokens() -> AsyncGenerator[str]:
        server.clock.advance(5 * MS)
        async for word in latspan.track_tokens(model.atokens("a", "b", "c")):
            yield word
        server.clock.advance(1 * MS)

    client = server.serve(_sending(tokens))
    assert client.body == b"data: a\n\ndata: b\n\ndata: c\n\n"
    (request,) = _of(server.seen, Kind.REQUEST)
    assert [(each.name, each.duration_ns) for each in request.segments] == [
        ("application", 5 * MS),
        ("prefill", 30 * MS),
        ("decode", 20 * MS),
        ("application", 1 * MS),
    ]
    assert request.metrics["time_to_first_token"].value == 35 * MS
    assert request.metrics["time_per_output_token"].value == 10 * MS
    assert request.attributes["model"] == "m"
    served = server.seen.snapshot().where(kind="request", model="m", provider="vllm")
    assert served.metric(semconv.METRIC_SERVER_REQUEST_DURATION).percentile(100, unit="ms") == 56
    first = served.metric(semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN)
    assert first.percentile(100, unit="ms") == 35
    pace = served.metric(semconv.METRIC_SERVER_TIME_PER_OUTPUT_TOKEN)
    assert pace.percentile(100, unit="ms") == pytest.approx(10.5)
    (span,) = [each for each in server.seen.spans if each.name == "POST"]
    attributes = span.attributes or {}
    assert attributes["gen_ai.usage.output_tokens"] == 3
    assert attributes["latspan.time_to_first_token"] == 0.035
    assert attributes["latspan.time_per_output_token"] == 0.01
    assert "gen_ai.response.time_to_first_chunk" not in attributes
    assert attributes["gen_ai.request.model"] == "m"
    assert attributes["gen_ai.provider.name"] == "vllm"
    assert attributes["gen_ai.operation.name"] == "chat"


def test_dashboards_made_for_vllm_find_what_they_look_for(server: Server) -> None:
    """Only where it is asked for; in seconds, as doubles."""
    model = Model(server.clock)

    def tokens() -> AsyncGenerator[str]:
        return latspan.track_tokens(model.atokens("a", "b", "c"))

    runtime = current_runtime()
    assert runtime is not None
    with override_runtime(replace(runtime, emit_gen_ai_latency=True)):
        server.serve(_sending(tokens))
        server.serve(answering(b"no model's"))
    server.serve(_sending(tokens))
    asked, other, unasked = (
        {
            name.removeprefix("gen_ai.latency."): value
            for name, value in (span.attributes or {}).items()
            if name.startswith("gen_ai.latency.")
        }
        for span in server.seen.spans
        if span.name == "POST"
    )
    assert asked == {
        "time_in_model_prefill": 0.03,
        "time_in_model_decode": 0.02,
        "time_in_model_inference": 0.05,
        "time_to_first_token": 0.03,
        "e2e": 0.05,
    }
    assert other == unasked == {}
    reported = read_span({f"gen_ai.latency.{name}": value for name, value in asked.items()})
    assert reported is not None
    assert (reported.decode_ns, reported.total_ns) == (20 * MS, 50 * MS)


def test_a_plain_generator_in_a_request_of_ones_own(server: Server) -> None:
    """No HTTP, no model named: the same times, and none of the conventions' metrics."""
    model = Model(server.clock)
    with latspan.request("answer"):
        assert [*latspan.track_tokens(model.tokens("a", "b", "c", "d"))] == ["a", "b", "c", "d"]
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.segments == (
        Segment("prefill", 0, 30 * MS),
        Segment("decode", 30 * MS, 60 * MS),
    )
    assert request.metrics["time_to_first_token"].value == 30 * MS
    assert request.side is Side.CLIENT
    assert request.convention == {}
    assert server.seen.snapshot().metric(semconv.METRIC_SERVER_REQUEST_DURATION).count() == 0


def test_what_bears_no_token_is_no_first_token(server: Server) -> None:
    """A role, a heartbeat; and a chunk may bear many."""
    model = Model(server.clock)
    with latspan.request("answer"):
        given = latspan.track_tokens(model.tokens("", "ab", "c"), count=len)
        assert [*given] == ["", "ab", "c"]
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.metrics["time_to_first_token"].value == 40 * MS
    assert request.metrics["time_per_output_token"].value == 5 * MS


def test_stages_that_another_names_are_left_to_it(server: Server) -> None:
    """Whoever goes on with the request, or a call of a model server inside."""
    model = Model(server.clock)
    with latspan.request("answer"):
        assert [*latspan.track_tokens(model.tokens("a"), stages=False)] == ["a"]
    assert _of(server.seen, Kind.STAGE) == []
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.metrics["time_to_first_token"].value == 30 * MS
    assert "time_per_output_token" not in request.metrics


def test_two_answers_at_once_have_no_one_pace(server: Server) -> None:
    """The first token of either is the request's."""
    model = Model(server.clock)
    with latspan.request("answer"):
        for _ in range(2):
            assert [*latspan.track_tokens(model.tokens("a", "b"))] == ["a", "b"]
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.metrics["time_to_first_token"].value == 30 * MS
    assert "time_per_output_token" not in request.metrics
    assert [each.name for each in request.segments] == ["prefill", "decode"] * 2


@pytest.mark.parametrize(("fails", "stage"), [(0, "prefill"), (2, "decode")])
def test_an_exception_is_the_models_own(server: Server, fails: int, stage: str) -> None:
    """It is handed on, ends the stage that it came in, and says nothing of its message."""
    model = Model(server.clock, fails=fails)
    error: BaseException | None = None
    with latspan.request("answer"):
        try:
            for _ in latspan.track_tokens(model.tokens("a", "b", "c")):
                pass
        except ConnectionError as raised:
            error = raised
    assert str(error) == "secret"
    last = _of(server.seen, Kind.STAGE)[-1]
    assert (last.name, last.outcome) == (stage, Outcome.ERROR)
    assert "secret" not in "".join(span.to_json() for span in server.seen.spans)


def test_a_generator_that_is_left_early_closes_the_models(server: Server) -> None:
    """At once, with the garbage collector off."""
    model = Model(server.clock)
    gc.disable()
    try:
        with (
            latspan.request("answer"),
            closing(latspan.track_tokens(model.tokens("a", "b", "c"))) as given,
        ):
            assert next(given) == "a"
            server.clock.advance(7 * MS)
    finally:
        gc.enable()
    assert model.closed == 1
    assert [(each.name, each.outcome) for each in _of(server.seen, Kind.STAGE)] == [
        ("prefill", Outcome.COMPLETED),
        ("decode", Outcome.CLOSED_EARLY),
    ]


def test_a_client_that_leaves_ends_it(server: Server) -> None:
    """Asynchronous: the framework closes the generator, and that the model's."""
    model = Model(server.clock)

    def tokens() -> AsyncGenerator[str]:
        return latspan.track_tokens(model.atokens("a", "b", "c"))

    with pytest.raises(OSError, match="gone"):
        server.serve(_sending(tokens), Client(server.clock, leaves_after=1))
    assert model.closed == 1
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.outcome is Outcome.CLOSED_EARLY
    assert [each.outcome for each in _of(server.seen, Kind.STAGE)] == [
        Outcome.COMPLETED,
        Outcome.CLOSED_EARLY,
    ]
    # Of what did not succeed they want the duration alone.
    snapshot = server.seen.snapshot().where(kind="request")
    assert snapshot.metric(semconv.METRIC_SERVER_REQUEST_DURATION).count() == 1
    assert snapshot.metric(semconv.METRIC_SERVER_TIME_TO_FIRST_TOKEN).count() == 0


def test_a_task_that_is_cancelled(server: Server) -> None:
    """While it waits for a token."""

    async def forever() -> AsyncIterator[str]:
        yield "a"
        await asyncio.Event().wait()
        yield "b"

    async def read() -> None:
        with latspan.request("answer"):
            async for _ in latspan.track_tokens(forever()):
                asyncio.get_running_loop().call_soon(task.cancel)

    async def serve() -> None:
        nonlocal task
        task = asyncio.create_task(read())
        with pytest.raises(asyncio.CancelledError):
            await task

    task: asyncio.Task[None]
    asyncio.run(serve())
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.outcome is Outcome.CANCELLED
    assert _of(server.seen, Kind.STAGE)[-1].outcome is Outcome.CANCELLED


@pytest.mark.parametrize("hold", [True, False])
def test_they_are_sent_to_the_client(server: Server, hold: bool) -> None:
    """A head that was held tells the prefill, the comment behind the events all of it."""
    model = Model(server.clock)

    def tokens() -> AsyncGenerator[str]:
        return latspan.track_tokens(model.atokens("a", "b"))

    client = server.serve(_sending(tokens), server_timing=True, hold_headers=hold)
    told = client.headers.get(b"server-timing")
    assert told == (b"prefill;dur=30.000, total;dur=30.000" if hold else None)
    comment = b": server-timing prefill;dur=30.000, decode;dur=10.000, total;dur=40.000\n\n"
    assert client.body.endswith(comment) is hold


def test_without_latspan_tokens_are_tokens() -> None:
    """An application that switched nothing on runs the same code."""

    async def atokens() -> AsyncIterator[int]:
        yield 1
        yield 2

    async def read() -> list[int]:
        return [each async for each in latspan.track_tokens(atokens())]

    assert [*latspan.track_tokens([1, 2])] == [1, 2]
    assert asyncio.run(read()) == [1, 2]
    latspan.annotate(model="m", kv_usage=2)
    latspan.mark_degraded("output_cut")
    latspan.mark_rejected(retry_after_s=1)


def _of_nothing(_: object) -> Any:
    return None


def _failing(_: object) -> int:
    raise KeyError


@pytest.mark.parametrize("count", [_of_nothing, _failing, str])
def test_what_cannot_be_counted_is_given_all_the_same(server: Server, count: Any) -> None:
    """Whoever reads the answer has not asked for the count."""
    runtime = current_runtime()
    assert runtime is not None
    with override_runtime(replace(runtime, strict=False)), latspan.request("answer"):
        assert [*latspan.track_tokens(["a", "b"], count=count)] == ["a", "b"]
    (request,) = _of(server.seen, Kind.REQUEST)
    assert request.outcome is Outcome.COMPLETED
    assert "time_to_first_token" not in request.metrics


def test_a_model_that_fails_as_it_is_closed(server: Server) -> None:
    """Its exception is handed on, and the stage has ended."""

    def tokens() -> Iterator[str]:
        try:
            yield "a"
        finally:
            raise ConnectionError

    async def atokens() -> AsyncIterator[str]:
        try:
            yield "a"
        finally:
            raise ConnectionError

    async def left() -> None:
        given = latspan.track_tokens(atokens())
        assert await anext(given) == "a"
        with pytest.raises(ConnectionError):
            await given.aclose()

    with latspan.request("answer"):
        given = latspan.track_tokens(tokens())
        assert next(given) == "a"
        with pytest.raises(ConnectionError):
            given.close()
        asyncio.run(left())
    assert [each.name for each in _of(server.seen, Kind.STAGE)] == ["prefill", "decode"] * 2


def test_tokens_after_the_end_are_none_of_the_requests(server: Server) -> None:
    """Though what it was is reckoned on latspan's own thread, later."""
    runtime = current_runtime()
    assert runtime is not None
    later: list[Callable[[], None]] = []
    model = Model(server.clock)
    with override_runtime(replace(runtime, enqueue=later.append)):
        with latspan.request("answer"):
            given = latspan.track_tokens(model.tokens("a", "b"))
        assert [*given] == ["a", "b"]
    for each in later:
        each()
    (request,) = _of(server.seen, Kind.REQUEST)
    assert "time_to_first_token" not in request.metrics
    assert request.tokens.output is None
