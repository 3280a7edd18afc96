"""
Cost that latspan adds to each chunk of a streamed response, on the caller's thread.

Method: the real OpenAI client 3 reads long streams without delays. Its transport is a subclass of
``httpx2.HTTPTransport`` over bytes in this process (see ``_openai.py``), and
``latspan_instrumentation.httpx`` patches it. Three streams are open at the same time. One was
requested with latspan on (``auto_instrument()`` and ``configure(export_enabled=False)``). The other
two were requested with latspan off (``uninstrument()``), so their iterators are the client's own.
The streams take turns: a hundred chunks are read from each, then the next hundred, and so on. The
figure is the CPU time of the thread. The reader accesses the text of each chunk, as a program does.
The start and the end of a stream are not counted. The difference between the two streams without
latspan is the control: it shows the error of this measurement. If a figure is not well above the
control, it only shows that the cost is not larger than the error.

The addresses of a process's objects affect the figures as much as latspan does: two streams without
latspan differ by up to 0.5 µs per chunk, in the same direction for the lifetime of the process. So
the benchmark starts new processes, each with different memory in use. In each process, the stream
with latspan is opened first, second and last.

A second comparison leaves out the client: it iterates over parsed chunks with the hook and without
it. It has 1/100 of the noise, but does not show the effect of the hook on the client's caches.

The last row is the cost of a chunk after the end of the call: its share of the timeline, the
attributes and the histograms. latspan's worker thread does this work. The caller's thread does it
under an application's provider, unless all processors of the provider are the SDK's batch
processors.

Caveats: the client needs 100 times as long for a chunk as latspan adds. So the difference needs
thousands of repeats, and its error is still as large as the control. One read contains twenty
chunks, which makes the client faster than on a network, and the difference easier to see. Every
chunk contains text; chunks with only a role or with a tool call take a slower branch of the content
test.

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
from latspan._base.clock import SystemClock
from latspan._live.instrument import aiter_tracked, iter_tracked, open_call, track_stream
from latspan._live.operations import ModelCall
from latspan._live.otel.spans import NoSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._model.recording import Recorder
from latspan._model.wire.openai_chat import OPENAI_CHAT

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI
    from openai.types.chat import ChatCompletionChunk

_BATCH: Final = 100
"""
Number of chunks per turn: few enough that the machine's speed hardly changes during a round, and
enough to spread the cost of switching between streams.
"""
_BATCHES: Final = 33
_WARM: Final = 3
"""Number of batches at the start of a stream that are not counted."""
_STREAMS: Final = 3
_LOOP: Final = 400
_TARGET: Final = Target(most=0.5)
_ANSWER: Final = stream_of(_BATCH * _BATCHES + 100, events_a_read=20)

Results = tuple[list[float], list[float], list[float]]
"""
Microseconds per chunk, one value per batch, of three streams: without latspan, without it again
(the control), and with it.
"""


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
    """Return the client's stream; with an asynchronous client, an awaitable of it."""
    return openai.chat.completions.create(model="gpt-4o-mini", messages=MESSAGES, stream=True)


def _in_fresh_processes(read: Callable[[], list[Results]], times: int) -> Results:
    """Return the results of ``times`` new processes, each of which calls ``read`` once."""
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
    Streams that are read in turn, a hundred chunks per turn.

    Args:
        streams: Iterators of chunks, from the client.
    """

    def __init__(self, streams: Sequence[Any]) -> None:
        self._turns = [(stream, list[float]()) for stream in streams]
        self._results = [results for _, results in self._turns]

    def __iter__(self) -> Iterator[tuple[Any, list[float]]]:
        """Yield a stream and the list for its results, until every stream has had all turns."""
        for _ in range(_BATCHES):
            yield from self._turns
            self._turns.append(self._turns.pop(0))

    def results(self) -> Results:
        """Return the results of each stream, without those of its first turns."""
        bare, control, traced = (results[_WARM:] for results in self._results)
        return bare, control, traced


def _read_in_turns() -> list[Results]:
    """Read streams in this process, with the stream of latspan in each position once."""
    latspan.configure(export_enabled=False)
    openai = client(_ANSWER)
    _read(openai, 0)
    settled_heap()
    return [_read(openai, place) for place in range(_STREAMS)]


def _aread_in_turns() -> list[Results]:
    """Read asynchronous streams, otherwise as :func:`_read_in_turns` does."""
    latspan.configure(export_enabled=False)
    openai = async_client(_ANSWER)
    with asyncio.Runner() as runner:
        runner.run(_aread(openai, 0))
        settled_heap()
        return [runner.run(_aread(openai, place)) for place in range(_STREAMS)]


def _text_of(chunk: ChatCompletionChunk) -> str | None:
    return chunk.choices[0].delta.content


def _instrumented_at(place: int) -> Iterator[None]:
    """Iterate once per stream, with latspan on only in the iteration ``place``."""
    for index in range(_STREAMS):
        if index == place:
            latspan.auto_instrument()
        yield
        latspan.uninstrument()


def _read(openai: OpenAI, place: int) -> Results:
    """Read three streams; latspan tracks only one, which is opened at position ``place``."""
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
    """Read asynchronous streams, otherwise as :func:`_read` does."""
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
        with override_runtime(concluding):
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
    """Substitute for the client's stream object."""


def _watched() -> tuple[Any, _Stream]:
    call = open_call(
        operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT, streamed=True
    )
    assert isinstance(call, ModelCall)  # noqa: S101 - configured above
    call.returned()
    stream = _Stream()
    return track_stream(call, stream), stream


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
