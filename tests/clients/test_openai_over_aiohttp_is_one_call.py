"""The OpenAI client over aiohttp: one span, tries counted once, and aiohttp's phases inside."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import latspan
from latspan import Kind
from latspan.integrations import Outcome
from latspan.testing import RequestRecord
from tests.clients.aiohttp_site import MS, World, chat_events, only, totals, web, world
from tests.clients.conftest import LIBRARY, MESSAGES, openai

pytest.importorskip(
    "aiohttp" if LIBRARY == "httpx2" else "httpx_aiohttp",
    reason="what openai sits on aiohttp with is not installed",
)

LAYERS = pytest.mark.parametrize("httpx_layer", [True, False], ids=["with httpx", "without httpx"])


@asynccontextmanager
async def _client(
    here: World, handle: Any, *, httpx_layer: bool, max_retries: int = 0
) -> AsyncGenerator[Any]:
    """Give a client over aiohttp, the httpx layer between them instrumented or not."""
    if not httpx_layer:
        latspan.uninstrument(f"latspan_{LIBRARY}")
    try:
        async with here.site(handle) as url:
            client = openai.AsyncOpenAI(
                base_url=url.replace("model.test", "127.0.0.1").removesuffix("/chat/completions"),
                api_key="none",
                http_client=openai.DefaultAioHttpClient(),
                max_retries=max_retries,
            )
            async with client:
                yield client
    finally:
        latspan.auto_instrument()


async def _stream(here: World, client: Any) -> None:
    here.turns.release()
    stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    async for _ in stream:
        here.turns.release()


def _call(here: World) -> RequestRecord:
    record = only(here.seen)
    assert (record.kind, record.name) == (Kind.CALL, "chat m")
    return record


@LAYERS
async def test_a_stream(httpx_layer: bool) -> None:
    """Opened once by the SDK's layer, and laid by aiohttp's events to the nanosecond."""
    with world() as here:
        handle = here.streaming(*chat_events("a", "b"))
        async with _client(here, handle, httpx_layer=httpx_layer) as client:
            await _stream(here, client)
        record = _call(here)
        assert record.outcome is Outcome.COMPLETED
        assert totals(record) == {"server_wait": 10, "decode": 10, "stream_close": 20}
        (span,) = [span for span in here.seen.spans if span.parent is None]
        attributes = span.attributes or {}
        assert attributes["latspan.attempt.count"] == 1
        assert attributes["latspan.connection.reused"] is False


@LAYERS
async def test_an_answer_in_one_piece_on_a_connection_that_is_used_again(
    httpx_layer: bool,
) -> None:
    """Its trace context names the call's span, and is sent once."""
    with world() as here:
        sent: list[list[str]] = []

        async def handle(request: Any) -> Any:
            sent.append(request.headers.getall("traceparent"))
            await request.read()
            here.clock.advance(20 * MS)
            message = {"role": "assistant", "content": "hello"}
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            return web.json_response(
                {"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]}
            )

        async with _client(here, handle, httpx_layer=httpx_layer) as client:
            for _ in range(2):
                await client.chat.completions.create(model="m", messages=MESSAGES)
        for record, traceparents in zip(here.seen.records, sent, strict=True):
            (traceparent,) = traceparents
            assert traceparent.split("-")[2] == f"{record.span_id:016x}"
            assert totals(record) == {"server_wait": 20}
        *_, span = [span for span in here.seen.spans if span.parent is None]
        assert (span.attributes or {})["latspan.connection.reused"] is True


@LAYERS
async def test_a_retry_is_a_try_of_the_same_call(httpx_layer: bool) -> None:
    """Each try is a child of the call's span, with its status."""
    with world() as here:
        tries: list[int] = []

        async def handle(request: Any) -> Any:
            tries.append(len(tries))
            if len(tries) == 1:
                headers = {"retry-after-ms": "1"}
                return web.json_response({"error": {}}, status=503, headers=headers)
            return await here.streaming(*chat_events("a"))(request)

        async with _client(here, handle, httpx_layer=httpx_layer, max_retries=1) as client:
            await _stream(here, client)
        record = _call(here)
        assert record.outcome is Outcome.COMPLETED
        (span,) = [span for span in here.seen.spans if span.parent is None]
        assert (span.attributes or {})["latspan.attempt.count"] == 2
        posts = [span for span in here.seen.spans if span.name == "POST"]
        statuses = [(post.attributes or {})["http.response.status_code"] for post in posts]
        assert statuses == [503, 200]


@LAYERS
async def test_a_lost_connection_fails_the_call(httpx_layer: bool) -> None:
    """The SDK's own exception, and one span."""
    with world() as here:

        async def handle(request: Any) -> Any:
            request.transport.abort()

        async with _client(here, handle, httpx_layer=httpx_layer) as client:
            with pytest.raises(openai.APIConnectionError) as raised:
                await client.chat.completions.create(model="m", messages=MESSAGES)
        # Some versions of the transport between call a lost connection a timeout, and so does
        # the SDK: what the caller is told is what is recorded.
        timed_out = isinstance(raised.value, openai.APITimeoutError)
        assert _call(here).outcome is (Outcome.TIMEOUT if timed_out else Outcome.ERROR)
