"""Clients that wait in HAProxy: with its word that is `gateway`, without it nobody's fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from latspan.testing import LlamaServer, RequestRecord, Script, ScriptedServer, capture
from support.chats import SLACK_MS, MonotonicClock, ask, duration_ms, most_cut_ms, source_of
from support.haproxy import haproxy_before
from support.stillness import when_still
from tests.conftest import Measured
from tests.gateways.conftest import MODEL

CLIENTS: Final = 4
PROMPTS: Final = [f"{number}: tell me about rivers." for number in range(52)]
TOKENS: Final = 3
MS: Final = 1_000_000

RESOLUTION_MS: Final = 1.0
"""HAProxy counts whole milliseconds."""
QUEUE_ERROR_MS: Final = 20.0
"""How far the end of llama.cpp's queue may be from the truth: what the documentation promises."""


@dataclass(frozen=True, slots=True)
class Waited:
    """
    A chat that waited.

    Args:
        record: What latspan recorded; its calendar time is monotonic.
        gateway_ms: How long it was in the gateway's queue, by the gateway's own log.
    """

    record: RequestRecord
    gateway_ms: int


def _seen(
    server: LlamaServer | ScriptedServer, haproxy: Path, folder: Path, *, reports_wait: bool
) -> list[Waited]:
    with (
        haproxy_before(server.url, haproxy, folder, reports_wait=reports_wait) as gateway,
        capture(clock=MonotonicClock()) as captured,
    ):
        ask(gateway.base_url, PROMPTS, model=MODEL, at_once=CLIENTS, tokens=TOKENS)
        waits = gateway.waits_ms(len(PROMPTS))
    seen = [Waited(record, waits[record.span_id]) for record in captured.records]
    # One at a time goes through, so all but the first clients wait for the others' answers.
    assert median(each.gateway_ms for each in seen) > 2 * QUEUE_ERROR_MS
    for each in seen:
        cuts = [0, *(segment.end_ns for segment in each.record.segments)]
        assert [segment.start_ns for segment in each.record.segments] == cuts[:-1]
        assert cuts[-1] == each.record.duration_ns
    return seen


def _off_ms(seen: Sequence[Waited], segment: str) -> list[float]:
    """Return by how much each segment differs from the gateway's log."""
    return [duration_ms(each.record, segment) - each.gateway_ms for each in seen]


@pytest.mark.undisturbed
def test_with_its_header_the_wait_is_the_gateways(
    model: LlamaServer, haproxy: Path, tmp_path: Path, measured: Measured
) -> None:
    """It is as long as the gateway's log says, and what follows is llama.cpp's."""

    def taken() -> tuple[int, list[Waited]]:
        return len(model.launches()), _seen(model, haproxy, tmp_path, reports_wait=True)

    # A client that another program delays by more than 5 ms rejects what the gateway reports.
    launched_before, seen = when_still(taken)

    off = _off_ms(seen, "gateway")
    measured("gateway less the gateway's log", off)
    assert abs(median(off)) <= RESOLUTION_MS
    for each, error in zip(seen, off, strict=True):
        assert -most_cut_ms(each.record) <= error <= RESOLUTION_MS
    waited = [each.record for each in seen if each.gateway_ms > SLACK_MS]
    assert {source_of(record, "gateway") for record in waited} == {"server_reported"}
    assert {source_of(record, "prefill") for record in waited} == {"server_reported"}
    queues = [duration_ms(record, "queue") for record in waited]
    measured("queue behind the gateway", queues)
    # It lets one through at a time, to a server with two slots.
    assert median(queues) <= QUEUE_ERROR_MS
    assert {source_of(record, "queue") for record in waited} <= {"estimated", None}
    # The gateway's word is one thing; here is the server's: it launches what it is given.
    launches = sorted(instant_ns for instant_ns, _ in model.launches()[launched_before:])
    began = sorted(_prefill_began_ns(each.record) for each in seen)
    late = [(ours - theirs) / MS for ours, theirs in zip(began, launches, strict=True)]
    measured("end of queue less the server's launch", late)
    assert median(map(abs, late)) <= QUEUE_ERROR_MS


def _prefill_began_ns(record: RequestRecord) -> int:
    began_ns = next(each.start_ns for each in record.segments if each.name == "prefill")
    return record.start_epoch_ns + began_ns


def test_without_it_the_wait_for_llama_cpps_headers_is_called_its_queue(
    model: LlamaServer, haproxy: Path, tmp_path: Path, measured: Measured
) -> None:
    """An estimate, and said to be one: a client cannot tell the two queues apart."""
    seen = _seen(model, haproxy, tmp_path, reports_wait=False)

    off = _off_ms(seen, "queue")
    measured("queue less the gateway's log", off)
    assert median(map(abs, off)) <= QUEUE_ERROR_MS
    for each in seen:
        assert source_of(each.record, "gateway") is None
        assert source_of(each.record, "queue") in {"estimated", None}
        # The server reports its prefill: no wait of another's is in it.
        assert source_of(each.record, "prefill") == "server_reported"


PLAIN: Final = Script.chat(tokens=TOKENS, prefill_ms=30, gap_ms=5, flavor="plain")
"""Of a server that sends its headers at once and says nothing of its time."""


def _seen_with_prefills(
    haproxy: Path, folder: Path, *, reports_wait: bool
) -> tuple[list[Waited], list[float]]:
    """Return what was seen, and what the server made each request wait by its own account."""
    with ScriptedServer(PLAIN) as server:
        seen = _seen(server, haproxy, folder, reports_wait=reports_wait)
        truth = server.served_requests(requests=len(PROMPTS))
    return seen, [
        (each.first_token_ns - each.accepted_ns) / MS
        for each in truth
        if each.first_token_ns is not None
    ]


def test_without_it_the_wait_for_another_server_is_not_divided(
    haproxy: Path, tmp_path: Path, measured: Measured
) -> None:
    """It is `server_wait`, all of it: neither the queue's nor the prefill's."""
    seen, prefill_ms = when_still(
        lambda: _seen_with_prefills(haproxy, tmp_path, reports_wait=False)
    )

    off = _off_ms(seen, "server_wait")
    measured("server_wait less the gateway's log", off)
    # What is not the gateway's is the server's own wait, the same for all.
    assert abs(median(off) - median(prefill_ms)) <= SLACK_MS
    for each in seen:
        names = {segment.name for segment in each.record.segments}
        assert names.isdisjoint({"gateway", "queue", "prefill"})


def test_with_it_the_wait_for_another_server_is_split(
    haproxy: Path, tmp_path: Path, measured: Measured
) -> None:
    """The gateway's part is known, the rest stays `server_wait`."""
    seen, prefill_ms = when_still(lambda: _seen_with_prefills(haproxy, tmp_path, reports_wait=True))

    off = _off_ms(seen, "gateway")
    measured("gateway less the gateway's log", off)
    assert abs(median(off)) <= RESOLUTION_MS
    rest = [duration_ms(each.record, "server_wait") for each in seen]
    measured("server_wait beside the gateway", rest)
    assert abs(median(rest) - median(prefill_ms)) <= SLACK_MS
    for each in seen:
        names = {segment.name for segment in each.record.segments}
        assert names.isdisjoint({"queue", "prefill"})
