"""However a body is read over aiohttp and left, its exchange ends once and rightly."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from latspan import Kind
from latspan.integrations import Outcome
from tests.clients.aiohttp_site import MS, World, aiohttp, chat_events, only, totals, web, world

# aiohttp's own word for a response that nobody closed, said by its connection's finaliser.
DROPPED = pytest.mark.filterwarnings("ignore:Unclosed connection:ResourceWarning")

REQUEST = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


async def _lines(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    async for line in response.content:
        got += line
        if line == b"\n":
            go()
    return got


async def _any(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    async for data in response.content.iter_any():
        got += data
        go()
    return got


async def _chunked(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    async for data in response.content.iter_chunked(4096):
        got += data
        go()
    return got


async def _chunks(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    async for data, _ in response.content.iter_chunks():
        got += data
        if data:
            go()
    return got


async def _readline(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    while line := await response.content.readline():
        got += line
        if line == b"\n":
            go()
    return got


async def _readuntil(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    while event := await response.content.readuntil(b"\n\n"):
        got += event
        go()
    return got


async def _readany(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    while data := await response.content.readany():
        got += data
        go()
    return got


async def _some(response: Any, go: Callable[[], None]) -> bytes:
    got = b""
    go()
    while data := await response.content.read(4096):
        got += data
        go()
    return got


WAYS = pytest.mark.parametrize(
    "read", [_lines, _any, _chunked, _chunks, _readline, _readuntil, _readany, _some]
)


@WAYS
async def test_a_model_servers_stream_is_a_call_however_it_is_read(
    read: Callable[[Any, Callable[[], None]], Awaitable[bytes]],
) -> None:
    """Every read is stamped once, so every way of reading sees the same arrivals."""
    events = chat_events("a", "b", "c")
    with world() as here:
        async with (
            here.site(here.streaming(*events)) as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            assert await read(response, here.turns.release) == b"".join(events)
        record = only(here.seen)
        assert (record.kind, record.name) == (Kind.CALL, "chat m")
        assert record.outcome is Outcome.COMPLETED
        assert record.metrics["time_to_first_token"].value == (7 + 10) * MS
        assert [gap.value for gap in record.chunk_gaps] == [10 * MS, 10 * MS]
        assert totals(record) == {
            "dns": 7,
            "server_wait": 10,
            "decode": 20,
            "stream_close": 20,
        }


@pytest.mark.parametrize("read", ["read", "text", "json"])
async def test_a_body_that_is_read_in_one_piece(read: str) -> None:
    """It ends when the last byte has been read."""
    with world() as here:

        async def handle(request: Any) -> Any:
            return web.json_response({"an": "answer"})

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.get(url) as response,
        ):
            await getattr(response, read)()
            assert only(here.seen).outcome is Outcome.COMPLETED
            here.clock.advance(50 * MS)
        assert only(here.seen).duration_ns == 7 * MS


async def test_a_stream_that_is_read_whole_has_the_arrivals_of_its_pieces() -> None:
    """``response.read()`` reads piece by piece."""
    with world() as here:
        for _ in range(10):
            here.turns.release()
        events = chat_events("a", "b")
        async with (
            here.site(here.streaming(*events)) as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            assert await response.read() == b"".join(events)
        record = only(here.seen)
        assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)


@pytest.mark.parametrize("read", ["readexactly", "read_nowait"])
async def test_who_has_read_every_byte_has_the_whole_answer(read: str) -> None:
    """Also without the read that would find the end."""
    with world() as here:

        async def handle(request: Any) -> Any:
            return web.Response(body=b"0123456789")

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.get(url) as response,
        ):
            if read == "read_nowait":
                await response.content.wait_eof()
                assert response.content.read_nowait() == b"0123456789"
            else:
                assert await response.content.readexactly(10) == b"0123456789"
        assert only(here.seen).outcome is Outcome.COMPLETED


async def _read_one(here: World, response: Any) -> None:
    here.turns.release()
    await response.content.readuntil(b"\n\n")


@pytest.mark.parametrize("leave", ["close", "release"])
async def test_an_explicit_close_is_the_end(leave: str) -> None:
    """Of a stream that is not over."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            await _read_one(here, response)
            here.clock.advance(40 * MS)
            getattr(response, leave)()
            record = only(here.seen)
            assert record.outcome is Outcome.CLOSED_EARLY
            assert totals(record) == {"dns": 7, "server_wait": 10, "consumer": 40}


async def test_leaving_the_block_is_the_end_and_a_break_inside_it_is_not() -> None:
    """Who peeks at the first event may read on."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with (
            site as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            here.turns.release()
            async for _ in response.content:
                break
            assert here.seen.records == ()
            here.clock.advance(40 * MS)
        record = only(here.seen)
        assert record.outcome is Outcome.CLOSED_EARLY
        assert record.duration_ns == 57 * MS


@pytest.mark.parametrize("iterate", ["iter_any", "iter_chunks", "__aiter__"])
async def test_a_break_outside_a_block_ends_the_call_at_once(iterate: str) -> None:
    """With the response still held, and no garbage collected."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            here.turns.release()
            gc.disable()
            try:
                async for _ in getattr(response.content, iterate)():
                    here.clock.advance(3 * MS)
                    break
                record = only(here.seen)
            finally:
                gc.enable()
            response.close()
        assert record.outcome is Outcome.CLOSED_EARLY
        assert record.duration_ns == 17 * MS


@pytest.mark.parametrize("read", [_any, _chunked, _chunks])
async def test_a_body_that_is_left_and_read_on_is_one_call(
    read: Callable[[Any, Callable[[], None]], Awaitable[bytes]],
) -> None:
    """Another iteration goes on where the first one stopped."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            here.turns.release()
            async for _ in response.content.iter_any():
                break
            await read(response, here.turns.release)
        record = only(here.seen)
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 1


@DROPPED
async def test_a_body_is_followed_without_a_reference_to_its_response() -> None:
    """``async for line in (await session.get(url)).content`` is read to its end all the same."""
    with world() as here:
        lines: list[bytes] = []
        site = here.site(here.streaming(b"a\n", b"b\n", b"c\n"))
        async with site as url, here.session() as session:
            here.turns.release()
            async for line in (await session.get(url)).content:
                lines.append(line)
                here.turns.release()
        assert lines == [b"a\n", b"b\n", b"c\n"]
        assert only(here.seen).outcome is Outcome.COMPLETED


async def test_who_stops_at_the_end_mark_has_the_whole_answer() -> None:
    """A reader by lines breaks at ``[DONE]``, before the blank line behind it."""
    with world() as here:
        for _ in range(10):
            here.turns.release()
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with (
            site as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            async for line in response.content:
                if line == b"data: [DONE]\n":
                    break
        assert only(here.seen).outcome is Outcome.COMPLETED


@DROPPED
async def test_a_response_that_is_dropped_unread_is_abandoned() -> None:
    """It was over, for its caller, with the headers."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a")))
        async with site as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            here.clock.advance(5_000 * MS)
            del response
        # An open connection holds the response whose body it brings.
        gc.collect()
        record = only(here.seen)
        assert record.outcome is Outcome.ABANDONED
        assert record.duration_ns == 7 * MS


@DROPPED
async def test_a_response_that_is_dropped_half_read_was_left_at_its_last_read() -> None:
    """Never at the time of garbage collection."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            await _read_one(here, response)
            here.clock.advance(5_000 * MS)
            del response
        # An open connection holds the response whose body it brings.
        gc.collect()
        record = only(here.seen)
        assert record.outcome is Outcome.CLOSED_EARLY
        assert record.duration_ns == 17 * MS


@DROPPED
@pytest.mark.parametrize("held", ["in a block", "by name"])
async def test_a_task_that_is_cancelled_in_a_read(held: str) -> None:
    """Neither an error nor an end of the stream, whatever is closed behind it."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            reading = asyncio.Event()

            async def read() -> None:
                if held == "in a block":
                    async with session.post(url, json=REQUEST) as response:
                        await _read_one(here, response)
                        reading.set()
                        await response.content.readany()
                else:
                    response = await session.post(url, json=REQUEST)
                    await _read_one(here, response)
                    reading.set()
                    async for _ in response.content.iter_any():
                        pass

            task = asyncio.create_task(read())
            await reading.wait()
            here.clock.advance(6 * MS)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # What was raised holds the frames that it came through.
            del task
            gc.collect()
        record = only(here.seen)
        assert record.outcome is Outcome.CANCELLED
        assert record.duration_ns == 23 * MS


async def test_a_read_that_the_caller_gave_up_waiting_for_is_not_the_end() -> None:
    """The reader takes no harm from it, and the next read goes on."""
    events = chat_events("a")
    with world() as here:
        async with (
            here.site(here.streaming(*events)) as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            given_up = asyncio.create_task(response.content.readany())
            await asyncio.sleep(0)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            got = await _any(response, here.turns.release)
        assert got == b"".join(events)
        assert only(here.seen).outcome is Outcome.COMPLETED


async def test_a_time_limit_of_aiohttps_in_the_body() -> None:
    """The server stopped writing."""
    with world() as here:
        site = here.site(here.streaming(*chat_events("a", "b")))
        async with site as url, here.session() as session:
            limit = aiohttp.ClientTimeout(sock_read=0.05)
            async with session.post(url, json=REQUEST, timeout=limit) as response:
                await _read_one(here, response)
                with pytest.raises(aiohttp.ServerTimeoutError):
                    await response.content.readany()
        assert only(here.seen).outcome is Outcome.TIMEOUT


@pytest.mark.parametrize("how", ["cut", "reset"])
async def test_a_body_that_breaks_off_is_an_error(how: str) -> None:
    """The caller gets aiohttp's own exception, and the span its type."""
    with world() as here:
        event = chat_events("a")[0]

        async def handle(request: Any) -> Any:
            response = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await response.prepare(request)
            await response.write(event)
            await here.turns.acquire()
            if how == "cut":
                request.transport.close()
            else:
                request.transport.abort()
            return response

        async with (
            here.site(handle) as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            assert await response.content.readuntil(b"\n\n") == event
            here.turns.release()
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.content.readany()
        record = only(here.seen)
        assert (record.kind, record.outcome) == (Kind.CALL, Outcome.ERROR)
        (span,) = [span for span in here.seen.spans if span.parent is None]
        assert (span.attributes or {})["error.type"] == (
            "aiohttp.client_exceptions.ClientPayloadError"
        )


async def test_a_stream_without_its_end_mark_is_truncated() -> None:
    """The client saw nothing wrong."""
    with world() as here:
        events = chat_events("a", "b", done=False)
        async with (
            here.site(here.streaming(*events)) as url,
            here.session() as session,
            session.post(url, json=REQUEST) as response,
        ):
            await _any(response, here.turns.release)
        assert only(here.seen).outcome is Outcome.TRUNCATED


@DROPPED
async def test_nothing_is_held_of_a_body_that_is_over() -> None:
    """Whether it was read, left or dropped."""
    from latspan_instrumentation.aiohttp._bodies import followed

    async def use(session: Any, url: str) -> None:
        async with session.get(url) as response:
            await response.content.read(10)
        await (await session.get(url)).read()
        await session.get(url)

    with world() as here:

        async def handle(request: Any) -> Any:
            return web.Response(body=b"x" * 1000)

        async with here.site(handle) as url, here.session() as session:
            for _ in range(20):
                await use(session, url)
        gc.collect()
        assert followed == {}
        assert len(here.seen.records) == 60


@pytest.mark.parametrize("first", [_lines, _any, _chunks, _readany])
@pytest.mark.parametrize("second", ["__aiter__", "iter_any", "readany"])
async def test_a_reader_that_is_refused_leaves_the_call_to_the_one_that_waits(
    first: Callable[[Any, Callable[[], None]], Coroutine[Any, Any, bytes]], second: str
) -> None:
    """It gets aiohttp's exception, and the first reads on to the end."""
    events = chat_events("a", "b")

    async def ask(content: Any) -> None:
        asked = getattr(content, second)()
        with pytest.raises(RuntimeError, match="already waiting"):
            await (anext(asked) if hasattr(asked, "__anext__") else asked)

    with world() as here:
        async with here.site(here.streaming(*events)) as url, here.session() as session:
            response = await session.post(url, json=REQUEST)
            reading = asyncio.create_task(first(response, lambda: None))
            await asyncio.sleep(0)
            # Before the first byte, between two events, and before the end.
            for _ in range(len(events) + 1):
                await ask(response.content)
                gc.collect()
                assert here.seen.records == ()
                here.turns.release()
                await asyncio.sleep(0.01)
            assert await reading == b"".join(events)
        record = only(here.seen)
    assert (record.kind, record.outcome) == (Kind.CALL, Outcome.COMPLETED)
    assert len(record.chunk_gaps) == 1
