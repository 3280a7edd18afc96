"""
Work that is measured in the process of one subject: chunks, calls, many streams, slow calls.

Each function does its work once, and returns its figures by name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import cache
from itertools import islice
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final

from _openai import MESSAGES, async_client_over, client, stream_of
from _timed import AsyncTimed, paced, slow_client

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from rivals._switches import On

_CHUNKS: Final = 3_000
_EVENTS_A_READ: Final = 20
_CALLS: Final = 20
_STREAMS: Final = 200
_STREAMS_BEGIN_S: Final = 2.0
"""Period over which the starts of the many streams are distributed, in seconds."""
_TOKENS: Final = 20
_GAP_S: Final = 0.2
_SLOW_CALLS: Final = 40

Figures = Mapping[str, float]


def chunks(on: On) -> Figures:
    """Read one long stream, and return CPU times in microseconds per chunk."""
    openai = _chunks_client()
    process, thread = time.process_time_ns(), time.thread_time_ns()
    stream = iter(_ask(openai))
    next(stream)
    first = time.thread_time_ns()
    for _ in islice(stream, _CHUNKS - 1):
        pass
    last = time.thread_time_ns()
    for _ in stream:
        pass
    ended = time.thread_time_ns()
    on.settle()
    settled = time.process_time_ns()
    return {
        "streaming": (last - first) / 1000 / (_CHUNKS - 1),
        "thread": (ended - thread) / 1000 / _CHUNKS,
        "process": (settled - process) / 1000 / _CHUNKS,
    }


def calls(on: On) -> Figures:
    """Make short calls, and return CPU times in microseconds per call."""
    openai = _calls_client()
    process, thread = time.process_time_ns(), time.thread_time_ns()
    for _ in range(_CALLS):
        for _ in _ask(openai):
            pass
    ended = time.thread_time_ns()
    on.settle()
    settled = time.process_time_ns()
    return {
        "thread": (ended - thread) / 1000 / _CALLS,
        "process": (settled - process) / 1000 / _CALLS,
    }


def streams(on: On) -> Figures:
    """
    Read many streams at once.

    Return the lateness of chunks in milliseconds, and the CPU time in microseconds per chunk.
    """
    late_s: list[float] = []
    process = time.process_time_ns()
    _runner().run(_all_streams(_streams_client(), late_s))
    on.settle()
    settled = time.process_time_ns()
    if len(late_s) != _STREAMS * _TOKENS:
        raise RuntimeError(f"{len(late_s)} chunks of {_STREAMS * _TOKENS} came")
    late_s.sort()
    return {
        "process": (settled - process) / 1000 / len(late_s),
        "late p50": 1000 * late_s[len(late_s) // 2],
        "late p95": 1000 * late_s[len(late_s) * 95 // 100],
    }


async def _all_streams(openai: AsyncOpenAI, late_s: list[float]) -> None:
    await asyncio.gather(
        *(_one_stream(openai, late_s, _STREAMS_BEGIN_S * n / _STREAMS) for n in range(_STREAMS))
    )


async def _one_stream(openai: AsyncOpenAI, late_s: list[float], begin_s: float) -> None:
    await asyncio.sleep(begin_s)
    async for chunk in await _ask(openai):
        now_s = time.perf_counter()
        if due := chunk.choices[0].delta.content:
            late_s.append(now_s - float(due))


def slow_calls(_: On) -> Figures:
    """Make calls that take about 8 ms, and return percentiles of their durations in ms."""
    openai = _slow_client()
    took: list[float] = []
    while len(took) < _SLOW_CALLS:
        before = time.perf_counter_ns()
        for _chunk in _ask(openai):
            pass
        took.append((time.perf_counter_ns() - before) / 1e6)
    cuts = quantiles(took, n=20, method="inclusive")
    return {"p50": cuts[9], "p95": cuts[18]}


WORKLOADS: Final[Mapping[str, Callable[[On], Figures]]] = {
    work.__name__: work for work in (chunks, calls, streams, slow_calls)
}


def _ask(openai: OpenAI | AsyncOpenAI) -> Any:
    """Return the client's stream; with an asynchronous client, an awaitable of it."""
    return openai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)


@cache
def _chunks_client() -> OpenAI:
    return client(stream_of(_CHUNKS, events_a_read=_EVENTS_A_READ))


@cache
def _calls_client() -> OpenAI:
    return client(stream_of(3))


@cache
def _streams_client() -> AsyncOpenAI:
    return async_client_over(AsyncTimed([paced(_TOKENS, _GAP_S, _GAP_S)]))


@cache
def _slow_client() -> OpenAI:
    return slow_client()


@cache
def _runner() -> asyncio.Runner:
    return asyncio.Runner()
