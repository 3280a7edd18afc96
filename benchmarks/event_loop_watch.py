"""
Cost of the timer that watches an event loop while calls are open.

Method: a loop in the main thread has 1 or 200 streams: tasks that repeatedly wait for 50 ms and
then parse a chunk of a model's stream. The CPU time of the thread is measured over periods of one
second. Periods with a watch for each stream take turns with periods without watches. A row is the
difference between two periods of the same round, in percent of a CPU. The row also shows the share
of a CPU without watches.

The last rows are work on the caller's thread: a call or request starts a watch of the loop and ends
it, and a stage reports two steps.

Caveats: the timer wakes the loop 100 times per second. If the loop is awake anyway, a tick costs
less, because it needs no separate wake-up.

Reproduce: ``make bench ARGS=event_loop_watch``
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from typing import Final

from _bench import Row, Scale, Target, figure, settled_heap, yardstick
from latspan._live.process.event_loop import EventLoops

_CHUNK_EVERY_S: Final = 0.05
_WINDOW_S: Final = 1.0
_CALLS: Final = 1_000
_CHUNK: Final = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": {"content": " word"}, "finish_reason": None}],
    }
)


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    for streams in (1, 200):
        without, watched = _shares(streams, scale.of(15))
        yield Row(
            what=f"added share of a CPU, {streams} open stream{'s' if streams > 1 else ''}",
            latspan=figure([a - b for a, b in zip(watched, without, strict=True)]),
            rival=figure(without),
            rival_name="the streams alone",
            unit="%",
        )
    costs: list[float] = []
    steps: list[float] = []
    sticks: list[float] = []
    for _ in range(scale.of(100)):
        for times in (costs, steps):
            times.append(asyncio.run(_watch(steps=times is steps)))
        sticks += yardstick(repeats=1)
    yield Row(
        what="watch a loop, per call, caller's thread",
        latspan=figure(costs),
        target=Target(most=2),
        stick=figure(sticks),
    )
    yield Row(
        what="two steps, per stage, caller's thread",
        latspan=figure(steps),
        target=Target(most=1),
        stick=figure(sticks),
    )


def _shares(streams: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the shares of a CPU in percent, one per round: without watches, and with them."""
    shares: tuple[list[float], list[float]] = [], []
    orders = random.Random(1)  # noqa: S311 - the same orders each run
    for _ in range(rounds):
        order = [False, True]
        orders.shuffle(order)
        for watches in order:
            settled_heap()
            shares[watches].append(asyncio.run(_share(streams, watches=watches)))
    return shares


async def _share(streams: int, *, watches: bool) -> float:
    reading = [asyncio.create_task(_read_stream(number / streams)) for number in range(streams)]
    loops = EventLoops(time.perf_counter_ns)
    watching = [loops.watch() for _ in range(streams)] if watches else []
    await asyncio.sleep(0.2)
    before_ns, since_ns = time.thread_time_ns(), time.perf_counter_ns()
    await asyncio.sleep(_WINDOW_S)
    share = (time.thread_time_ns() - before_ns) / (time.perf_counter_ns() - since_ns)
    watching.clear()
    for task in reading:
        task.cancel()
    await asyncio.gather(*reading, return_exceptions=True)
    return share * 100


async def _read_stream(phase: float) -> None:
    await asyncio.sleep(phase * _CHUNK_EVERY_S)
    text: list[str] = []
    while True:
        await asyncio.sleep(_CHUNK_EVERY_S)
        text.append(json.loads(_CHUNK)["choices"][0]["delta"]["content"])


async def _watch(*, steps: bool) -> float:
    """Return the CPU time of starting and ending one watch, or of two steps, in microseconds."""
    loops = EventLoops(time.perf_counter_ns)
    open_call = loops.watch()
    if open_call is None:
        raise SystemExit("the loop was not watched")
    before_ns = time.thread_time_ns()
    for at_ns in range(_CALLS):
        if steps:
            open_call.report_step(at_ns)
            open_call.report_step(at_ns)
        else:
            watch = loops.watch()
            if watch is not None:
                watch.end()
    taken_ns = time.thread_time_ns() - before_ns
    return taken_ns / _CALLS / 1000
