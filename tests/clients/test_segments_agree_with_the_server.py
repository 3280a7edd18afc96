"""Over real sockets every segment agrees with what the server wrote down of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from latspan.recording import RequestRecord
from latspan.segments import Outcome, Source
from latspan.testing import Script, ScriptedServer, ServedRequest, capture
from tests.clients.conftest import MESSAGES, openai
from tests.conftest import Measured

MS = 1_000_000

REQUESTS = 60
WARM_UP = 3
MEDIAN_LIMIT_MS = 2.0

PLAN: dict[str, Any] = {"tokens": 8, "queue_ms": 12, "prefill_ms": 25, "gap_ms": 6}


def _send_sync(base_url: str, count: int) -> None:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        for _ in range(count):
            for _chunk in client.chat.completions.create(
                model="m", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
            ):
                pass


def _send_async(base_url: str, count: int) -> None:
    async def body() -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
            for _ in range(count):
                stream = await client.chat.completions.create(
                    model="m",
                    messages=MESSAGES,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async for _chunk in stream:
                    pass

    asyncio.run(body())


def _send_aiohttp(base_url: str, count: int) -> None:
    """Send as a program without an SDK does."""
    from tests.clients.aiohttp_site import aiohttp, instrumented

    asked = {"model": "m", "messages": MESSAGES, "stream": True}
    asked["stream_options"] = {"include_usage": True}

    async def body() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(count):
                async with session.post(f"{base_url}/chat/completions", json=asked) as response:
                    async for _line in response.content:
                        pass

    with instrumented():
        asyncio.run(body())


Sender = Callable[[str, int], None]
SENDERS = pytest.mark.parametrize(
    "send",
    [
        pytest.param(_send_sync, id="sync"),
        pytest.param(_send_async, id="async"),
        pytest.param(_send_aiohttp, id="aiohttp"),
    ],
)


def _measure(send: Sender, script: Script) -> list[tuple[RequestRecord, ServedRequest]]:
    """Return each record beside what the server wrote down of the same request."""
    with ScriptedServer(script) as server:
        send(server.base_url, WARM_UP)
        with capture() as seen:
            send(server.base_url, REQUESTS)
        served = {
            request.request_headers.get("traceparent", "").split("-")[2]: request
            for request in server.truth(requests=WARM_UP + REQUESTS)
            if "traceparent" in request.request_headers
        }
    assert len(seen.records) == REQUESTS
    return [(record, served[f"{record.span_id:016x}"]) for record in seen.records]


def _total(record: RequestRecord, name: str) -> int:
    return sum(segment.duration_ns for segment in record.segments if segment.name == name)


def _check(
    pairs: list[tuple[RequestRecord, ServedRequest]],
    truths: dict[str, Callable[[ServedRequest], int]],
    measured: Measured,
) -> None:
    """Hold the median error of each segment."""
    for name, truth in truths.items():
        errors = [abs(_total(record, name) - truth(served)) / MS for record, served in pairs]
        assert measured(f"error of {name}", errors) <= MEDIAN_LIMIT_MS, name


def _at(instant_ns: int | None) -> int:
    assert instant_ns is not None
    return instant_ns


@SENDERS
def test_with_evidence(send: Sender, measured: Measured) -> None:
    """Queue, prefill, network, decode and the close, from a server that reports its timings."""
    pairs = _measure(send, Script.chat(**PLAN))

    for record, _ in pairs:
        assert record.outcome is Outcome.COMPLETED
        assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
        assert _total(record, "network") >= 0
    _check(
        pairs,
        {
            "queue": lambda served: _at(served.headers_ns) - served.accepted_ns,
            "prefill": lambda served: _at(served.first_token_ns) - _at(served.slot_ns),
            "network": lambda _: 0,
            "decode": lambda served: _at(served.last_token_ns) - _at(served.first_token_ns),
            "stream_close": lambda served: _at(served.end_ns) - _at(served.last_token_ns),
        },
        measured,
    )


@SENDERS
def test_without_evidence(send: Sender, measured: Measured) -> None:
    """The composite wait, the generation, its gaps and pace, from a server that says nothing."""
    pairs = _measure(send, Script.chat(**PLAN, dialect="plain"))

    _check(
        pairs,
        {
            "server_wait": lambda served: _at(served.first_token_ns) - served.accepted_ns,
            "decode": lambda served: _at(served.last_token_ns) - _at(served.first_token_ns),
            "stream_close": lambda served: _at(served.end_ns) - _at(served.last_token_ns),
        },
        measured,
    )

    gap_errors: list[float] = []
    pace_errors: list[float] = []
    for record, served in pairs:
        written = served.token_ns
        truth = [later - earlier for earlier, later in pairwise(written)]
        gap_errors += [
            abs(gap.value - true) / MS
            for gap, true in zip(record.chunk_gaps, truth, strict=True)
            if gap.source is Source.MEASURED
        ]
        pace = record.metrics["time_per_output_token"]
        pace_errors.append(abs(pace.value - (written[-1] - written[0]) / 7) / MS)
    assert len(gap_errors) >= REQUESTS * 7 * 0.9
    assert measured("error of chunk_gap", gap_errors) <= MEDIAN_LIMIT_MS
    assert measured("error of time_per_output_token", pace_errors) <= MEDIAN_LIMIT_MS
