"""The work of a program for its requests, in threads or in tasks."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, aclosing, closing, contextmanager, nullcontext
from random import Random
from typing import Protocol

from _setting import SETTING, Background, Call, Request, Step

import latspan

Errors = tuple[type[Exception], ...]
"""Exceptions of a client library that end a call."""


class Send(Protocol):
    """Sends a call to a model, and yields the text of the answer."""

    def __call__(self, call: Call, request: Request, model: str) -> Generator[str]: ...


class AsyncSend(Protocol):
    """The same in a task."""

    def __call__(self, call: Call, request: Request, model: str) -> AsyncGenerator[str]: ...


def _compute(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(500))


@contextmanager
def _opened(request: Request) -> Generator[None]:
    start = time.perf_counter()
    scope = nullcontext() if SETTING.name is None else latspan.request(SETTING.name)
    with (
        latspan.attributes(request.others, route=request.route, tenant=request.tenant),
        scope,
    ):
        yield
        if SETTING.slo_ms is not None:
            late = time.perf_counter() - start > SETTING.slo_ms / 1000
            latspan.annotate({"slo": "violated" if late else "met"})


def _stage(step: Step) -> AbstractContextManager[object]:
    return nullcontext() if step.stage is None else latspan.stage(step.stage, kind=step.kind)


def _runs(request: Request) -> Iterator[Step]:
    for step in SETTING.steps:
        if request.takes(step):
            yield from itertools.repeat(step, round(request.between(step.times)))


def answer(request: Request, send: Send, errors: Errors) -> Iterator[str]:
    """Do the steps of a request, and yield the text that its user receives."""
    with _opened(request):
        for step in _runs(request):
            gate: AbstractContextManager[object] = _GATES[step.gate] if step.gate else nullcontext()
            with _stage(step), gate:
                seconds = request.between(step.ms) / 1000
                if step.work == "compute":
                    _compute(seconds)
                else:
                    time.sleep(seconds)
                if step.call is not None:
                    yield from _sent(step.call, request, send, errors)


def _sent(call: Call, request: Request, send: Send, errors: Errors) -> Iterator[str]:
    try:
        yield from _read(call, send(call, request, call.model))
    except errors:
        if call.fallback is None:
            raise
        yield from _read(call, send(call, request, call.fallback))


def _read(call: Call, texts: Generator[str]) -> Iterator[str]:
    with closing(texts):
        for received, text in enumerate(texts, start=1):
            if call.chunk_ms:
                time.sleep(call.chunk_ms / 1000)
            if not call.hidden:
                yield text
            if received == call.close_after:
                return


async def answer_async(request: Request, send: AsyncSend, errors: Errors) -> AsyncIterator[str]:
    """Do the same in a task."""
    with _opened(request):
        for step in _runs(request):
            gate = _ASYNC_GATES[step.gate] if step.gate else nullcontext()
            with _stage(step):
                async with gate:
                    await _work(step.work, request.between(step.ms) / 1000)
                    if step.call is not None:
                        async for text in _sent_async(step.call, request, send, errors):
                            yield text


async def _work(work: str, seconds: float) -> None:
    if work == "compute":
        _compute(seconds)
    elif work == "block":
        time.sleep(seconds)  # noqa: ASYNC251 - the fault
    elif work == "thread":
        await asyncio.to_thread(time.sleep, seconds)
    elif seconds:
        await asyncio.sleep(seconds)


async def _sent_async(
    call: Call, request: Request, send: AsyncSend, errors: Errors
) -> AsyncIterator[str]:
    try:
        async for text in _read_async(call, send(call, request, call.model)):
            yield text
    except errors:
        if call.fallback is None:
            raise
        async for text in _read_async(call, send(call, request, call.fallback)):
            yield text


async def _read_async(call: Call, texts: AsyncGenerator[str]) -> AsyncIterator[str]:
    received = 0
    async with aclosing(texts):
        async for text in texts:
            received += 1
            if call.chunk_ms:
                await asyncio.sleep(call.chunk_ms / 1000)
            if not call.hidden:
                yield text
            if received == call.close_after:
                return


def ask(send: Send, errors: Errors) -> None:
    """Let each user send its requests from a thread of its own."""
    numbers = iter(range(SETTING.requests))

    def user(start: float) -> None:
        time.sleep(start)
        for turn, number in enumerate(numbers):
            request = SETTING.request(number, turn)
            try:
                for _ in answer(request, send, errors):
                    pass
            except errors:
                pass
            time.sleep(request.between(SETTING.think_ms) / 1000)

    threads = [threading.Thread(target=user, args=(start,)) for start in _starts()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def ask_async(send: AsyncSend, errors: Errors) -> None:
    """Let each user send its requests from a task of its own."""
    numbers = iter(range(SETTING.requests))

    async def user(start: float) -> None:
        await asyncio.sleep(start)
        for turn, number in enumerate(numbers):
            request = SETTING.request(number, turn)
            try:
                async for _ in answer_async(request, send, errors):
                    pass
            except errors:
                pass
            await asyncio.sleep(request.between(SETTING.think_ms) / 1000)

    background = start_background()
    await asyncio.gather(*(user(start) for start in _starts()))
    for task in background:
        task.cancel()


def _starts() -> list[float]:
    """Return when each user begins, spread over half a second."""
    return [0.5 * number / SETTING.users for number in range(SETTING.users)]


def start_background() -> list[asyncio.Task[None]]:
    """Start the work beside the requests, and set the size of the thread pool."""
    if SETTING.threads is not None:
        pool = ThreadPoolExecutor(SETTING.threads)
        asyncio.get_running_loop().set_default_executor(pool)
    return [asyncio.create_task(_beside(each)) for each in SETTING.background]


async def _beside(background: Background) -> None:
    random = Random(SETTING.seed)  # noqa: S311 - a benchmark
    while True:
        await asyncio.sleep(random.uniform(*background.every_ms) / 1000)
        seconds = random.uniform(*background.ms) / 1000
        if background.work == "hold":
            await asyncio.to_thread(_hold, seconds)
        else:
            await _work(background.work, seconds)


def _hold(seconds: float) -> None:
    """Run one function in C that does not release the interpreter's lock."""
    sum(range(round(seconds * _ADDITIONS_PER_SECOND)))


def _additions_per_second() -> float:
    start = time.perf_counter()
    sum(range(1_000_000))
    return 1_000_000 / (time.perf_counter() - start)


_ADDITIONS_PER_SECOND = _additions_per_second()
_GATES: dict[str, threading.Semaphore] = {
    name: threading.Semaphore(places) for name, places in SETTING.gates.items()
}
_ASYNC_GATES: dict[str, asyncio.Semaphore] = {
    name: asyncio.Semaphore(places) for name, places in SETTING.gates.items()
}
