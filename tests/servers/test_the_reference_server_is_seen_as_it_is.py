"""Sixteen clients of the documentation's server, in processes whose clocks are minutes apart."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest
from openai import AsyncOpenAI

import latspan
from latspan import Kind, Source
from latspan.integrations import Outcome
from latspan.testing import LlamaServer, RequestRecord, capture
from tests.conftest import Measured
from tests.support.programs import PROGRAMS
from tests.support.stillness import when_still

_MS: Final = 1_000_000
_LIMIT_MS: Final = 3.0
_CLIENTS: Final = 16
_CHATS_EACH: Final = 4
_TOKENS: Final = 5
_STAGES: Final = ("auth", "parse", "route", "tokenize", "safety", "queue", "prefill", "decode")
_WAIT: Final = frozenset({"server_wait", "network", "gateway", "queue", "prefill", "decode"})
"""What lies between the last byte sent and the last token."""
_ENOUGH: Final = 50
"""Requests that a median is of."""
_DEADLINE_S: Final = 120

ServerRequest = dict[str, Any]


async def _chats(url: str) -> None:
    async def one(client: AsyncOpenAI, number: int) -> None:
        for turn in range(_CHATS_EACH):
            stream = await client.chat.completions.create(
                model="smollm2",
                messages=[{"role": "user", "content": f"Count from {number} to {turn}."}],
                stream=True,
                max_tokens=_TOKENS,
                temperature=0,
            )
            assert [each async for each in stream][-1].choices[0].finish_reason == "stop"

    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0) as client:
        await asyncio.gather(*(one(client, number) for number in range(_CLIENTS)))


def _asked_and_served(model: str) -> tuple[list[RequestRecord], dict[str, Any]]:
    program = [sys.executable, str(PROGRAMS / "serves_the_reference.py"), model]
    with (
        subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
        capture() as seen,
    ):
        assert server.stdout is not None
        latspan.auto_instrument()
        try:
            asyncio.run(_chats(f"http://127.0.0.1:{int(server.stdout.readline())}"))
        finally:
            latspan.uninstrument()
            told, _ = server.communicate(timeout=_DEADLINE_S)
    return [each for each in seen.records if each.kind is Kind.CALL], json.loads(told)


def _ns(segments: Iterable[Mapping[str, Any]], *names: str) -> int:
    return sum(each["end_ns"] - each["start_ns"] for each in segments if each["name"] in names)


def _client_ns(call: RequestRecord, *names: str) -> int:
    return sum(each.duration_ns for each in call.segments if each.name in names)


@pytest.mark.llama
def test_both_sides_are_what_the_server_wrote_down(measured: Measured) -> None:
    """Each stage, network and what nobody named, by the server's own monotonic stamps."""
    with LlamaServer() as llama:
        calls, told = when_still(lambda: _asked_and_served(llama.url))
    truth: dict[str, dict[str, int]] = told["stamps"]
    records: list[ServerRequest] = told["records"]
    served = {
        each["trace"]: each
        for each in records
        if (each["kind"], each["side"]) == ("request", "server")
    }
    assert len(calls) == len(served) == _CLIENTS * _CHATS_EACH

    for trace, request in served.items():
        assert request["name"] == "POST /v1/chat/completions"
        assert request["outcome"] == Outcome.COMPLETED
        assert (
            _ns(request["segments"], *{each["name"] for each in request["segments"]})
            == (request["duration_ns"])
        ), trace
    for stage in _STAGES:
        errors = [
            abs(each["duration_ns"] - truth[each["trace"]][stage]) / _MS
            for each in records
            if each["kind"] == "stage" and each["name"] == stage
        ]
        assert len(errors) == len(served)
        assert measured(f"error of the server's {stage}", errors) <= _LIMIT_MS
    unnamed = [
        abs(
            _ns(request["segments"], "application", "send_stream")
            - (truth[trace]["all"] - sum(truth[trace][each] for each in (*_STAGES[:6], "tokens")))
        )
        / _MS
        for trace, request in served.items()
    ]
    assert measured("error of what the server named nothing", unnamed) <= _LIMIT_MS

    for call in calls:
        assert call.outcome is Outcome.COMPLETED
        assert sum(each.duration_ns for each in call.segments) == call.duration_ns
        sources = {each.name: each.source for each in call.segments}
        assert sources["queue"] is sources["prefill"] is Source.SERVER_REPORTED
    by_trace = {f"{call.trace_id:032x}": call for call in calls}
    # A server that was held up behind its first token leaves open what was the network's.
    told_apart = [
        trace
        for trace, call in by_trace.items()
        if Source.ESTIMATED in {each.source for each in call.segments if each.name == "network"}
    ]
    assert len(told_apart) >= _ENOUGH
    for segment in ("queue", "prefill"):
        errors = [
            abs(_client_ns(by_trace[trace], segment) - truth[trace][segment]) / _MS
            for trace in served
        ]
        assert measured(f"error of the client's {segment}", errors) <= _LIMIT_MS
    # While a write is held up nothing is decoded: that is the network's.
    errors = [
        abs(
            _client_ns(by_trace[trace], "decode")
            - (truth[trace]["decode"] - truth[trace].get("held_up", 0))
        )
        / _MS
        for trace in told_apart
    ]
    assert measured("error of the client's decode", errors) <= _LIMIT_MS
    errors = [
        abs(
            _client_ns(by_trace[trace], "server_wait")
            - (
                truth[trace]["until_last_token"]
                + truth[trace].get("held_up", 0)
                - sum(truth[trace][each] for each in ("queue", "prefill", "decode"))
            )
        )
        / _MS
        for trace in told_apart
    ]
    assert measured("error of the client's server_wait", errors) <= _LIMIT_MS
    errors = [
        abs(
            _client_ns(by_trace[trace], "network")
            - (_client_ns(by_trace[trace], *_WAIT) - truth[trace]["until_last_token"])
        )
        / _MS
        for trace in told_apart
    ]
    assert measured("error of the client's network", errors) <= _LIMIT_MS
    measured(
        "the client's network",
        [_client_ns(by_trace[trace], "network") / _MS for trace in told_apart],
    )
    apart = [
        abs(request["start_epoch_ns"] - by_trace[trace].start_epoch_ns) / _MS
        for trace, request in served.items()
    ]
    assert min(apart) > 20 * 60 * 1000
