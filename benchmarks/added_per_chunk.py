"""
What latspan adds to each chunk of a streamed answer, on the caller's thread.

How: the real OpenAI client 3 reads long streams through a transport that ``latspan_httpx`` patches
(a subclass of ``httpx2.HTTPTransport`` over bytes in this process, see ``_openai.py``), with no
delays. Two streams are open side by side: one requested with latspan on (``auto_instrument()`` and
``configure(export_enabled=False)``), and one requested with it off (``uninstrument()``), whose
iterator is the client's own. A hundred chunks of the one are read, then the same hundred of the
other, and so on; CPU time of the thread. Who reads looks at the text of each, as a program does.
Beginning and end of a stream are not counted. A third stream, without latspan like the first, takes
its turns too: what it "adds" is the error of this measurement, and a figure that is not well above
it only shows "less than that".

Where a process happens to have its memory is worth as much as latspan costs: two streams without
it differ by up to 0.5 µs a chunk, the same way as long as the process lives. So fresh processes are
asked, each with other memory in use, and in each the stream with latspan is opened first, second
and last.

A second pair leaves the client out: the hook over chunks that were parsed before, against the same
loop without it. It has 1/100 of the noise, and none of what the hook does to the client's caches.

The last row is what a chunk costs after the call's end: its share of timeline, attributes and
histograms. That is spent on latspan's worker thread, or on the caller's under an application's
provider.

Caveats: the client takes 100 times as long for a chunk as latspan adds, so the difference needs
thousands of repeats, and even then is off by what the control shows. Twenty chunks come in one
read, which makes the client faster than over a network and the difference easier to see. Every
chunk bears text; role-only and tool-call chunks take a slower branch of the content test.

Reproduce: ``make bench ARGS=added_per_chunk``
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final

import latspan
from _bench import Row, Scale, Target, added, figure, interleaved, scattered_heap, settled_heap
from _openai import MESSAGES, async_client, client, stream_of
from latspan import _runtime
from latspan._clock import SystemClock
from latspan._instrument import aiter_tracked, iter_tracked, open_call, track_stream
from latspan._operations import ModelCall
from latspan._recording import Recorder
from latspan._runtime import Runtime
from latspan._spans import NoSink
from latspan._wire.openai_chat import OPENAI_CHAT

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletionChunk

__all__ = ["measure"]

_BATCH: Final = 100
"""Chunks in a turn: few enough for the machine to stay the same, and the change is spread over."""
_BATCHES: Final = 33
_WARM: Final = 3
"""The first batches of a stream, which do not count."""
_STREAMS: Final = 3
_LOOP: Final = 400
_TARGET: Final = Target(most=0.5)
_ANSWER: Final = stream_of(_BATCH * _BATCHES + 100, events_a_read=20)

Results = tuple[list[float], list[float], list[float]]
"""Microseconds a chunk, batch by batch: without latspan, without it again, with it."""


def measure(scale: Scale) -> Iterator[Row]:
    """Yield the rows of this benchmark."""
    for what, read in (("sync", _read_in_turns), ("async", _aread_in_turns)):
        bare, control, traced = _in_fresh_processes(read, scale.of(20))
        yield Row(
            what=f"control: nothing added, {what}",
            latspan=added(bare, control),
            rival=figure(bare),
            rival_name="the client alone",
        )
        yield Row(
            what=f"per chunk, OpenAI client, {what}",
            latspan=added(bare, traced),
            rival=figure(bare),
            rival_name="the client alone",
            target=_TARGET,
        )
    latspan.configure(export_enabled=False)
    chunks: list[Any] = list(islice(_ask(client(stream_of(_LOOP))), 1, _LOOP + 1))
    with asyncio.Runner() as runner:
        for what, bare_loop, traced_loop in (
            ("sync", _plain_loop(chunks), _hooked_loop(chunks)),
            ("async", _plain_async_loop(chunks, runner), _hooked_async_loop(chunks, runner)),
        ):
            bare, traced = interleaved([bare_loop, traced_loop], scale.of(1000))
            yield Row(
                what=f"the hook alone over parsed chunks, {what}",
                latspan=added(bare, traced),
                rival=figure(bare),
                rival_name="the loop alone",
                target=_TARGET,
            )
    latspan.shutdown()
    yield _after_the_end(chunks, scale.of(100))


def _ask(openai: Any) -> Any:
    """Return the stream of either client, of the one still to be awaited."""
    return openai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)


def _in_fresh_processes(read: Callable[[], list[Results]], times: int) -> Results:
    """Return the results of that many processes, each of which calls ``read``."""
    with ProcessPoolExecutor(
        max_workers=1,
        mp_context=get_context("spawn"),
        initializer=scattered_heap,
        max_tasks_per_child=1,
    ) as processes:
        asked = [processes.submit(read) for _ in range(times)]
        results = [each for process in asked for each in process.result()]
    bare, control, traced = (
        [us for each in stream for us in each] for stream in zip(*results, strict=True)
    )
    return bare, control, traced


class _Turns:
    """
    Streams that are read turn and turn about, a hundred chunks a turn.

    Args:
        streams: What the client answered, iterators of chunks.
    """

    def __init__(self, streams: Sequence[Any]) -> None:
        self._turns = [(stream, list[float]()) for stream in streams]
        self._results = [results for _, results in self._turns]

    def __iter__(self) -> Iterator[tuple[Any, list[float]]]:
        """Yield each stream and where its results go, until every stream had all its turns."""
        for _ in range(_BATCHES):
            yield from self._turns
            self._turns.append(self._turns.pop(0))

    def results(self) -> Results:
        """Return the results of each stream, those of its first turns left out."""
        bare, control, traced = (results[_WARM:] for results in self._results)
        return bare, control, traced


def _read_in_turns() -> list[Results]:
    """Read streams in this process, those with latspan in each place once."""
    latspan.configure(export_enabled=False)
    openai = client(_ANSWER)
    _read(openai, 0)
    settled_heap()
    return [_read(openai, place) for place in range(_STREAMS)]


def _aread_in_turns() -> list[Results]:
    """Do the same with asynchronous streams."""
    latspan.configure(export_enabled=False)
    openai = async_client(_ANSWER)
    with asyncio.Runner() as runner:
        runner.run(_aread(openai, 0))
        settled_heap()
        return [runner.run(_aread(openai, place)) for place in range(_STREAMS)]


def _text_of(chunk: ChatCompletionChunk) -> str | None:
    return chunk.choices[0].delta.content


def _instrumented_at(place: int) -> Iterator[None]:
    """Go once through for each stream, with latspan on at ``place`` alone."""
    for index in range(_STREAMS):
        if index == place:
            latspan.auto_instrument()
        yield
        latspan.uninstrument()


def _read(openai: OpenAI, place: int) -> Results:
    """Read two streams that latspan does not follow and one that it does, opened at ``place``."""
    streams = [iter(_ask(openai)) for _ in _instrumented_at(place)]
    streams.append(streams.pop(place))
    turns = _Turns(streams)
    for chunks, results in turns:
        before = time.thread_time_ns()
        for chunk in islice(chunks, _BATCH):
            _text_of(chunk)
        results.append((time.thread_time_ns() - before) / _BATCH / 1000)
    for chunks in streams:
        for _ in chunks:
            pass
    return turns.results()


async def _aread(openai: AsyncOpenAI, place: int) -> Results:
    """Do the same with asynchronous streams."""
    streams = [aiter(await _ask(openai)) for _ in _instrumented_at(place)]
    streams.append(streams.pop(place))
    turns = _Turns(streams)
    for chunks, results in turns:
        step = chunks.__anext__
        before = time.thread_time_ns()
        for _ in range(_BATCH):
            _text_of(await step())
        results.append((time.thread_time_ns() - before) / _BATCH / 1000)
    for chunks in streams:
        async for _ in chunks:
            pass
    return turns.results()


def _us_a_chunk(before_ns: int, after_ns: int) -> float:
    return (after_ns - before_ns) / _LOOP / 1000


def _after_the_end(chunks: list[Any], repeats: int) -> Row:
    clock, sink = SystemClock(), NoSink()
    recorder = Recorder(clock)
    concluding = Runtime(clock=clock, recorder=recorder, sink=lambda: sink)

    def measured() -> float:
        with _runtime.overridden(concluding):
            watching, stream = _watched()
            before = 0
            for _ in iter_tracked(iter(chunks), watching, stream):
                before = time.thread_time_ns()
            recorder.swap_interval()
            return _us_a_chunk(before, time.thread_time_ns())

    def nothing() -> float:
        before = 0
        for _ in chunks:
            before = time.thread_time_ns()
        return _us_a_chunk(before, time.thread_time_ns())

    bare, ended = interleaved([nothing, measured], repeats)
    return Row(
        what=f"a chunk's share of the call's end, {_LOOP} chunks",
        latspan=added(bare, ended),
    )


class _Stream:
    """What is iterated stands for the client's stream object."""


def _watched() -> tuple[Any, _Stream]:
    call = open_call(
        operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT, streamed=True
    )
    assert isinstance(call, ModelCall)  # noqa: S101 - configured above
    call.returned()
    stream = _Stream()
    return track_stream(call, OPENAI_CHAT, stream), stream


def _plain_loop(chunks: list[Any]) -> Callable[[], float]:
    def measured() -> float:
        before = time.thread_time_ns()
        for _ in islice(chunks, _LOOP):
            pass
        return _us_a_chunk(before, time.thread_time_ns())

    return measured


def _hooked_loop(chunks: list[Any]) -> Callable[[], float]:
    def measured() -> float:
        hooked = iter_tracked(iter(chunks), *_watched())
        before = time.thread_time_ns()
        for _ in islice(hooked, _LOOP):
            pass
        after = time.thread_time_ns()
        hooked.close()
        return _us_a_chunk(before, after)

    return measured


async def _served(chunks: list[Any]) -> AsyncIterator[Any]:
    for chunk in chunks:
        yield chunk


async def _timed(chunks: AsyncIterator[Any]) -> float:
    count, after = 0, 0
    before = time.thread_time_ns()
    async for _ in chunks:
        count += 1
        if count == _LOOP:
            after = time.thread_time_ns()
    return _us_a_chunk(before, after)


def _plain_async_loop(chunks: list[Any], runner: asyncio.Runner) -> Callable[[], float]:
    return lambda: runner.run(_timed(_served(chunks)))


def _hooked_async_loop(chunks: list[Any], runner: asyncio.Runner) -> Callable[[], float]:
    return lambda: runner.run(_timed(aiter_tracked(_served(chunks), *_watched())))
