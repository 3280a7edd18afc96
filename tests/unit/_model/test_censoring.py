"""What is known of each metric of a request that was given up or failed, and of percentiles."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterator

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIError, AsyncOpenAI, OpenAI, Stream
from openai.types.chat import ChatCompletionChunk

import latspan
from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.censoring import (
    CensoredValue,
    ValueState,
    open_gap_ns,
    percentile_bounds,
    waited_ns,
)
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome, Segment
from latspan.testing import Captured, ManualClock, Script, capture, scripted_transport

Chunks = Stream[ChatCompletionChunk]

_WAITS = ("time_to_first_chunk", "time_to_first_token", "time_to_first_visible_token")
_OF_STREAMS = ("time_per_output_token", "fluidity", "stall_ratio")
_GROWING = ("chunk_gap_max", "stall_count", "stall_duration", "buffer_needed")

_VALUES = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["exact", "cut", "never"]), st.integers(1, 5)),
    min_size=1,
    max_size=30,
)


def _percentile(values: list[float], weights: list[int], percentile: float) -> float:
    """Return the percentile of known values: a value counts as often as it weighs."""
    ordered = sorted(
        value for value, weight in zip(values, weights, strict=True) for _ in range(weight)
    )
    return ordered[max(1, math.ceil(round(percentile * len(ordered) / 100, 9))) - 1]


@given(_VALUES, st.sampled_from([1, 25, 50, 90, 95, 99, 100]), st.data())
def test_every_completion_of_the_cuts_lies_in_the_interval(
    values: list[tuple[int, str, int]], percentile: float, data: st.DataObject
) -> None:
    """A request that was given up may have taken any longer time, and both ends are reached."""
    weights = [weight for _, _, weight in values]
    known = {"exact": ValueState.EXACT, "cut": ValueState.AT_LEAST, "never": ValueState.NEVER}
    intervals = [CensoredValue.of(known[state], value) for value, state, _ in values]
    low, high = percentile_bounds([each for each in intervals if each], percentile, weights)

    def completed(cut: Callable[[int], float]) -> float:
        def value_of(value: int, state: str) -> float:
            if state == "cut":
                return cut(value)
            return math.inf if state == "never" else value

        return _percentile(
            [value_of(value, state) for value, state, _ in values], weights, percentile
        )

    longer = st.one_of(st.integers(0, 60), st.just(math.inf))
    assert low <= completed(lambda value: value + data.draw(longer)) <= high
    assert completed(float) == low
    assert completed(lambda _: math.inf) == high


def _recorded(
    use: Callable[[OpenAI, ManualClock], object], *scripts: Script, requested: bool = False
) -> Captured:
    """Return what is recorded while a client is used in virtual time; errors are the client's."""
    clock = ManualClock()
    latspan.auto_instrument()
    try:
        with capture(clock=clock) as captured:
            http_client = httpx2.Client(transport=scripted_transport(scripts, clock))
            client = OpenAI(
                api_key="k", base_url="http://model/v1", http_client=http_client, max_retries=0
            )
            try:
                if requested:
                    with latspan.request("r"):
                        use(client, clock)
                else:
                    use(client, clock)
            except APIError:
                assert captured.records
    finally:
        latspan.uninstrument()
    return captured


def _record(
    use: Callable[[OpenAI, ManualClock], object], script: Script, kind: Kind = Kind.CALL
) -> RequestRecord:
    captured = _recorded(use, script, requested=kind is Kind.REQUEST)
    [record] = [each for each in captured.records if each.kind is kind]
    return record


def _stream(client: OpenAI) -> Chunks:
    return client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "?"}], stream=True
    )


def _read(client: OpenAI, _: ManualClock) -> None:
    for _chunk in _stream(client):
        pass


def _ask(client: OpenAI, _: ManualClock) -> None:
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}])


def _states(record: RequestRecord, *metrics: str) -> set[str]:
    return {record.state(metric).value for metric in metrics}


def test_a_completed_stream_is_exact() -> None:
    """Nothing of it is open."""
    record = _record(_read, Script.chat(tokens=5))

    assert record.outcome is Outcome.COMPLETED
    assert _states(record, "duration", *_WAITS, *_GROWING[:3]) == {"exact"}
    assert (record.open_segments, record.open_gap_ns) == (frozenset(), None)


def test_a_completed_stream_without_a_token_never_has_a_first_one() -> None:
    """Its first chunk is exact, its first token never came, and it has no pace."""
    record = _record(_read, Script.chat(tokens=0))

    assert record.outcome is Outcome.COMPLETED
    assert _states(record, "time_to_first_chunk") == {"exact"}
    assert _states(record, *_WAITS[1:]) == {"never"}
    assert _states(record, "time_per_output_token", "chunk_gap_max") == {"not_applicable"}


@pytest.mark.parametrize("ending", ["truncated", "cut", "reset", "error"])
def test_a_stream_that_breaks_never_counts_with_its_first_token(ending: str) -> None:
    """A failed request misses every limit, also if its first token came early."""
    record = _record(_read, Script.chat(tokens=5, ending=ending))

    assert record.outcome.failed
    assert _states(record, "duration", *_WAITS, "time_per_output_token", *_GROWING) == {"never"}
    assert _states(record, "fluidity") == {"unknown"}
    assert record.open_segments == {"decode"}
    assert record.open_gap_ns == 0


def test_a_rejected_call_that_does_not_stream_has_no_first_token() -> None:
    """Only its duration and its segments exist."""
    record = _record(_ask, Script.refused(429, after_ms=50))

    assert record.outcome is Outcome.REJECTED
    assert _states(record, "duration") == {"never"}
    assert _states(record, *_WAITS, *_OF_STREAMS, *_GROWING) == {"not_applicable"}


def test_a_stream_left_between_two_tokens_keeps_its_first_token() -> None:
    """The caller was not waiting when it left, so the open gap is 0, and decode is a bound."""

    def use(client: OpenAI, clock: ManualClock) -> None:
        stream = _stream(client)
        chunks = iter(stream)
        for _ in range(3):
            next(chunks)
        clock.advance(500 * NS_PER_MS)
        stream.close()

    record = _record(use, Script.chat(tokens=5, prefill_ms=100, gap_ms=10))

    assert record.outcome is Outcome.CLOSED_EARLY
    assert _states(record, *_WAITS) == {"exact"}
    assert _states(record, "duration", *_GROWING[:3]) == {"at_least"}
    assert _states(record, "time_per_output_token", "fluidity") == {"unknown"}
    assert record.lower_bound("duration") == record.duration_ns
    assert (record.open_segments, record.open_gap_ns) == ({"decode"}, 0)


def test_time_in_which_nobody_read_is_no_wait_for_the_first_token() -> None:
    """The first token may have arrived while the caller did not read the stream."""

    def use(client: OpenAI, clock: ManualClock) -> None:
        stream = _stream(client)
        clock.advance(30_000 * NS_PER_MS)
        stream.close()

    record = _record(use, Script.chat(queue_ms=40, prefill_ms=100))

    assert record.duration_ns == 30_040 * NS_PER_MS
    assert _states(record, *_WAITS) == {"at_least"}
    assert record.lower_bound("time_to_first_token") == 40 * NS_PER_MS
    assert record.lower_bound("duration") == record.duration_ns


def test_a_request_is_exact_if_it_completed_after_it_left_a_call() -> None:
    """The state follows from the request's own outcome, not from its call's."""

    def use(client: OpenAI, clock: ManualClock) -> None:
        stream = _stream(client)
        next(iter(stream))
        stream.close()
        clock.advance(5 * NS_PER_MS)

    record = _record(use, Script.chat(), Kind.REQUEST)

    assert record.outcome is Outcome.COMPLETED
    assert _states(record, "duration") == {"exact"}
    assert _states(record, "time_to_first_token") == {"not_applicable"}


class _CancelledBody(httpx2.AsyncByteStream):
    """Body of a stream whose reader is cancelled after some events and a wait."""

    def __init__(self, clock: ManualClock, contents: list[str], wait_ms: int) -> None:
        self._clock, self._contents, self._wait_ms = clock, contents, wait_ms

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for content in self._contents:
            self._clock.advance(100 * NS_PER_MS)
            delta = f'{{"index":0,"delta":{{"content":"{content}"}}}}'
            yield f'data: {{"id":"1","choices":[{delta}]}}\n\n'.encode()
        self._clock.advance(self._wait_ms * NS_PER_MS)
        raise asyncio.CancelledError


def _cancelled(*contents: str, wait_ms: int = 5_000, hold_ms: int = 0) -> RequestRecord:
    """Return the record of a stream that is cancelled while it waits for its next token."""
    clock = ManualClock()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        body = _CancelledBody(clock, list(contents), wait_ms)
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, stream=body, request=request)

    async def ask() -> None:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport) as http_client:
            client = AsyncOpenAI(
                api_key="k", base_url="http://model/v1", http_client=http_client, max_retries=0
            )
            stream = await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "?"}], stream=True
            )
            async for _ in stream:
                clock.advance(hold_ms * NS_PER_MS)

    latspan.auto_instrument()
    try:
        with capture(clock=clock) as captured, pytest.raises(asyncio.CancelledError):
            asyncio.run(ask())
        [record] = captured.records
    finally:
        latspan.uninstrument()
    assert record.outcome is Outcome.CANCELLED
    return record


def test_a_call_cancelled_before_its_first_token_waited_for_it() -> None:
    """The first waits are at least as long; what was not defined yet is unknown."""
    record = _cancelled()

    assert record.duration_ns == 5_000 * NS_PER_MS
    assert _states(record, "duration", *_WAITS, "chunk_gap_max") == {"at_least"}
    assert _states(record, *_OF_STREAMS) == {"unknown"}
    assert {record.lower_bound(metric) for metric in _WAITS} == {record.duration_ns}
    assert record.lower_bound("chunk_gap_max") == 0
    assert record.open_gap_ns is None
    assert len(record.open_segments) == 1


@pytest.mark.parametrize("tokens", [1, 2, 4])
def test_the_open_gap_begins_with_the_last_token(tokens: int) -> None:
    """The wait for the first token is not part of it, also if the stream had only one token."""
    record = _cancelled(*["a"] * tokens)

    assert _states(record, *_WAITS) == {"exact"}
    assert record.open_gap_ns == 5_000 * NS_PER_MS
    assert record.lower_bound("chunk_gap_max") == 5_000 * NS_PER_MS
    assert _states(record, "chunk_gap_max") == {"at_least"}


def test_time_in_which_a_stream_was_held_before_its_last_wait_is_in_the_gap() -> None:
    """Because the caller waited after that, the next token had not arrived while it worked."""
    record = _cancelled("a", "a", wait_ms=1_000, hold_ms=300)

    assert record.open_gap_ns == 1_300 * NS_PER_MS


def _segments(*lengths: tuple[str, int]) -> Iterator[Segment]:
    start_ns = 0
    for name, length_ns in lengths:
        yield Segment(name, start_ns, start_ns + length_ns)
        start_ns += length_ns


def test_a_block_of_the_event_loop_at_the_end_is_no_wait() -> None:
    """A token may have arrived while the loop was blocked."""
    segments = tuple(_segments(("server_wait", 100), ("event_loop", 50), ("consumer", 7)))

    assert waited_ns(segments) == 100
    assert open_gap_ns(segments, Outcome.CANCELLED, first_token_ns=80) == 20
    assert open_gap_ns(segments, Outcome.COMPLETED, first_token_ns=80) is None
    assert open_gap_ns(segments, Outcome.CANCELLED, first_token_ns=None) is None
