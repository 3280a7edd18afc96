"""A function that blocks the loop of a call is neither the network's time nor the server's."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from statistics import median
from typing import Any, Final, NamedTuple

import pytest

from latspan._model.segments import totals
from latspan.testing import RequestRecord, Script, ScriptedServer, ServedRequest, _capture, capture
from tests.clients.conftest import MESSAGES, openai
from tests.clients.contract.conftest import Runs
from tests.conftest import Measured
from tests.support.stillness import when_still

CALLS: Final = 50
BLOCK_MS: Final = 40
_OWN_MS: Final = 60
"""Longer than what a new client computes for its first call."""
_PREFILL_MS: Final = 20
_SCRIPT: Final = Script.chat(tokens=3, prefill_ms=_PREFILL_MS, gap_ms=1, flavor="plain")
_ASKED: Final[dict[str, Any]] = {"model": "m", "messages": MESSAGES, "stream": True}

# A block may begin up to one period of the timer, 10 ms, before the tick that detects it.
_SEND_LIMIT_MS: Final = 12
_ERROR_LIMIT_MS: Final = 15
_NOTICED_NS: Final = 5_000_000


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Watch event loops, which other tests do not."""
    monkeypatch.setattr(_capture, "watches_loops", True)


_Chat = Callable[[], Awaitable[None]]
ClientOf = Callable[[str], AbstractAsyncContextManager[_Chat]]


@asynccontextmanager
async def _over_openai(url: str) -> AsyncGenerator[_Chat]:
    async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:

        async def chat() -> None:
            async for _ in await client.chat.completions.create(**_ASKED):
                pass

        yield chat


@asynccontextmanager
async def _over_aiohttp(url: str) -> AsyncGenerator[_Chat]:
    aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    async with aiohttp.ClientSession() as session:

        async def chat() -> None:
            async with session.post(f"{url}/chat/completions", json=_ASKED) as response:
                async for _ in response.content:
                    pass

        yield chat


EACH_CLIENT = pytest.mark.parametrize(
    "client", [_over_openai, _over_aiohttp], ids=["openai", "aiohttp"]
)


class _Block(NamedTuple):
    """Begin and end of a block by the clock of its own function, in nanoseconds."""

    begin_ns: int
    end_ns: int

    @property
    def duration_ms(self) -> float:
        """How long the loop was blocked."""
        return (self.end_ns - self.begin_ns) / 1e6


class Seen(NamedTuple):
    """Records of the calls, the blocks, and for each block the requests that it may delay."""

    records: tuple[RequestRecord, ...]
    blocks: tuple[_Block, ...] = ()
    served: tuple[tuple[ServedRequest, ...], ...] = ()

    @property
    def surely_delayed(self) -> int:
        """Number of calls that a block delayed by the clock of the server."""
        return sum(
            _is_delayed(request, block)
            for block, requests in zip(self.blocks, self.served, strict=True)
            for request in requests
        )

    def times_ms(self, segment: str) -> list[float]:
        """Return the time of a segment in the calls that have it."""
        return [
            total.duration_ns / 1e6
            for record in self.records
            for total in totals(record.segments)
            if total.name == segment
        ]


def _is_delayed(request: ServedRequest, block: _Block) -> bool:
    """Return whether a request was sent after a block, or answered clearly before its end."""
    if request.accepted_ns > block.end_ns:
        return True
    latest_ns = block.end_ns - _NOTICED_NS
    return any(block.begin_ns < write.instant_ns < latest_ns for write in request.writes)


def calls(
    client: ClientOf,
    *,
    block_ms: float,
    latest_ms: float,
    at_once: int = 1,
    runs: Runs = asyncio.run,
) -> Seen:
    """Make some calls at a time, with one block that begins up to ``latest_ms`` later."""
    moments = random.Random(1)  # noqa: S311 - the same moments each run
    blocks: list[_Block] = []

    async def rerank() -> None:
        await asyncio.sleep(moments.uniform(0, latest_ms) / 1e3)
        begin_ns = now_ns = time.perf_counter_ns()
        while now_ns - begin_ns < block_ms * 1e6:
            now_ns = time.perf_counter_ns()
        blocks.append(_Block(begin_ns, now_ns))

    async def main(url: str) -> tuple[RequestRecord, ...]:
        async with client(url) as chat:
            await asyncio.gather(*(chat() for _ in range(at_once)))
            with capture() as seen:
                for _ in range(CALLS // at_once):
                    await asyncio.gather(*(chat() for _ in range(at_once)), rerank())
                return seen.records

    with ScriptedServer(_SCRIPT) as server:
        records = runs(main(server.base_url))
        served = server.served_requests()[at_once:]
    assert len(records) == CALLS
    rounds = [served[number : number + at_once] for number in range(0, CALLS, at_once)]
    return Seen(records, tuple(blocks), tuple(map(tuple, rounds)))


@pytest.mark.parametrize("latest_ms", [0, _PREFILL_MS - 10], ids=["at the start", "at random"])
@EACH_CLIENT
def test_a_block_is_a_segment_of_the_calls_that_it_delays(
    client: ClientOf, latest_ms: float, measured: Measured
) -> None:
    """
    Each block begins before the server answers, and ends after it.

    An answer that the machine delays past a block is not delayed by the block.
    """
    seen = when_still(lambda: calls(client, block_ms=BLOCK_MS, latest_ms=latest_ms, at_once=2))

    delayed = len(seen.times_ms("event_loop"))
    assert delayed >= seen.surely_delayed > CALLS // 2
    measured("event_loop", seen.times_ms("event_loop"))
    error_ms = median(seen.times_ms("event_loop")) - median(b.duration_ms for b in seen.blocks)
    assert abs(error_ms) < _ERROR_LIMIT_MS
    for name in ("pool_wait", "connect", "send", "decode", "consumer", "stream_close"):
        # The machine may delay a call in twenty; a call without the segment is not delayed in it.
        slow_ms = [each for each in seen.times_ms(name) if each >= _SEND_LIMIT_MS]
        assert len(slow_ms) <= CALLS // 20, (name, slow_ms)


@pytest.mark.alone
@EACH_CLIENT
def test_without_a_block_there_is_no_such_segment(client: ClientOf) -> None:
    """Nothing but the call itself runs on the loop; other programs may delay a few."""
    seen = when_still(lambda: calls(client, block_ms=0, latest_ms=_PREFILL_MS - 10))

    assert len(seen.times_ms("event_loop")) <= CALLS // 10


def test_a_synchronous_call_on_a_loop_waits_for_the_server() -> None:
    """It blocks the loop itself, so that the loop is not what it waits for."""

    async def main(url: str) -> None:
        client = openai.OpenAI(base_url=url, api_key="none")
        for _ in client.chat.completions.create(**_ASKED):
            pass
        client.close()

    with ScriptedServer(_SCRIPT) as server, capture() as seen:
        asyncio.run(main(server.base_url))
        (record,) = seen.records
    found = {total.name: total.duration_ns for total in totals(record.segments)}
    assert "event_loop" not in found
    # The server may have the request before the client's write returns.
    assert found["send"] + found["server_wait"] >= _PREFILL_MS * 1_000_000


def _first_calls(*, block_ms: float, own_ms: float) -> Seen:
    """Make the first call of new clients; the SDK waits for a thread in it before it sends."""

    def compute(duration_ms: float) -> None:
        until_s = time.perf_counter() + duration_ms / 1e3
        while time.perf_counter() < until_s:
            pass

    sdk: Any = openai.AsyncOpenAI

    class Client(sdk):
        async def _prepare_options(self, options: Any) -> Any:
            compute(own_ms)
            return await sdk._prepare_options(self, options)

    new_client: Any = Client

    async def rerank() -> None:
        compute(block_ms)

    async def main(url: str) -> tuple[RequestRecord, ...]:
        with capture() as seen:
            for _ in range(CALLS // 5):
                async with new_client(base_url=url, api_key="none") as client:
                    call = client.chat.completions.create(**{**_ASKED, "stream": False})
                    await asyncio.gather(call, rerank())
            return seen.records

    with ScriptedServer(_SCRIPT) as server:
        return Seen(asyncio.run(main(server.base_url)))


@pytest.mark.alone
def test_a_block_before_the_first_attempt_is_not_the_calls_own_time() -> None:
    """The SDK awaits a thread in the first call of a client, while another task computes."""
    seen = when_still(lambda: _first_calls(block_ms=_OWN_MS, own_ms=0))

    assert abs(median(seen.times_ms("event_loop")) - _OWN_MS) < _ERROR_LIMIT_MS
    assert median(seen.times_ms("prepare")) < 40


@pytest.mark.alone
def test_own_work_before_the_first_attempt_is_the_calls() -> None:
    """It blocks the loop too, and is ``prepare`` because the call does not wait in it."""
    seen = when_still(lambda: _first_calls(block_ms=0, own_ms=_OWN_MS))

    assert _OWN_MS <= median(seen.times_ms("prepare")) < _OWN_MS + 40
    # What became ready in the block is processed after it.
    assert max(seen.times_ms("event_loop"), default=0) < _OWN_MS / 2
