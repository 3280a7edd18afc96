"""Whole traces as values: what each way of making a call leaves, spans, times and attributes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import latspan
from latspan.testing import Captured, Script
from tests.clients.conftest import Driver, Leave, with_anthropic, with_every_sdk
from tests.support.traces import OUTCOME, call, segment, span

MS = 1_000_000

TIMES = {"connect_ns": 5 * MS, "send_ns": 1 * MS, "network_ns": 1 * MS}
ANSWER = Script.chat(tokens=3, queue_ms=20, prefill_ms=50, gap_ms=10)
PLAIN = Script.chat(tokens=3, prefill_ms=50, gap_ms=10, flavor="plain")


def test_a_streamed_chat_of_openai(driver: Driver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(ANSWER, **TIMES), program)

    assert seen.spans_as_dict() == [
        span(
            "chat m",
            "CLIENT",
            0,
            98,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "m",
                "gen_ai.request.stream": True,
                "gen_ai.response.finish_reasons": ["stop"],
                "gen_ai.response.id": "chatcmpl-0",
                "gen_ai.response.model": "m",
                "gen_ai.response.time_to_first_chunk": 0.078,
                "latspan.attempt.count": 1,
                "latspan.chunk_gap.max": 0.01,
                "latspan.connection.reused": False,
                "latspan.kind": "call",
                "latspan.outcome": "completed",
                "latspan.inference_path": "m",
                "latspan.reported.llama_cpp.cache_n": 0.0,
                "latspan.reported.llama_cpp.predicted_ms": 20.0,
                "latspan.reported.llama_cpp.predicted_n": 3.0,
                "latspan.reported.llama_cpp.predicted_per_second": 150.0,
                "latspan.reported.llama_cpp.predicted_per_token_ms": 6.666666666666667,
                "latspan.reported.llama_cpp.prompt_ms": 50.0,
                "latspan.reported.llama_cpp.prompt_n": 12.0,
                "latspan.reported.llama_cpp.prompt_per_second": 240.0,
                "latspan.reported.llama_cpp.prompt_per_token_ms": 4.166666666666667,
                "latspan.stall.count": 0,
                "latspan.stall.duration": 0.0,
                "latspan.stall.ratio": 0.0,
                "latspan.time_to_first_token": 0.078,
                "latspan.time_to_first_visible_token": 0.078,
                "openai.api.type": "chat_completions",
                "server.address": "model.test",
                "server.port": 443,
            },
            span(
                "connect",
                "INTERNAL",
                0,
                5,
                {"latspan.segment": "connect", "latspan.source": "measured"},
            ),
            span(
                "send", "INTERNAL", 5, 6, {"latspan.segment": "send", "latspan.source": "measured"}
            ),
            span(
                "queue",
                "INTERNAL",
                6,
                28,
                {"latspan.segment": "queue", "latspan.source": "estimated"},
            ),
            span(
                "prefill",
                "INTERNAL",
                28,
                78,
                {"latspan.segment": "prefill", "latspan.source": "server_reported"},
            ),
            span(
                "decode",
                "INTERNAL",
                78,
                98,
                {"latspan.segment": "decode", "latspan.source": "server_reported"},
            ),
        )
    ]


@with_anthropic
def test_a_streamed_message_of_anthropic(driver: Driver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(PLAIN, **TIMES), program)

    assert seen.spans_as_dict() == [
        span(
            "chat m",
            "CLIENT",
            0,
            78,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "anthropic",
                "gen_ai.request.max_tokens": 9,
                "gen_ai.request.model": "m",
                "gen_ai.request.stream": True,
                "gen_ai.response.finish_reasons": ["end_turn"],
                "gen_ai.response.id": "msg_0",
                "gen_ai.response.model": "m",
                "gen_ai.response.time_to_first_chunk": 0.058,
                "gen_ai.usage.cache_read.input_tokens": 0,
                "gen_ai.usage.cache_write.input_tokens": 0,
                "gen_ai.usage.input_tokens": 12,
                "gen_ai.usage.output_tokens": 3,
                "latspan.attempt.count": 1,
                "latspan.buffer_needed": 0.0,
                "latspan.chunk_gap.max": 0.01,
                "latspan.connection.reused": False,
                "latspan.fluidity": 1.0,
                "latspan.kind": "call",
                "latspan.outcome": "completed",
                "latspan.inference_path": "m",
                "latspan.stall.count": 0,
                "latspan.stall.duration": 0.0,
                "latspan.stall.ratio": 0.0,
                "latspan.time_per_output_token": 0.01,
                "latspan.time_to_first_token": 0.058,
                "latspan.time_to_first_visible_token": 0.058,
                "latspan.token_source": "provider",
                "server.address": "model.test",
                "server.port": 443,
            },
            span(
                "connect",
                "INTERNAL",
                0,
                5,
                {"latspan.segment": "connect", "latspan.source": "measured"},
            ),
            span(
                "send", "INTERNAL", 5, 6, {"latspan.segment": "send", "latspan.source": "measured"}
            ),
            span(
                "server_wait",
                "INTERNAL",
                6,
                58,
                {"latspan.segment": "server_wait", "latspan.source": "measured"},
            ),
            span(
                "decode",
                "INTERNAL",
                58,
                78,
                {"latspan.segment": "decode", "latspan.source": "measured"},
            ),
        )
    ]


def test_an_answer_that_does_not_stream(driver: Driver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        await driver.create(client)

    driver.run(driver.transport(PLAIN, **TIMES), program)

    assert seen.spans_as_dict(attributes=OUTCOME) == [
        call(
            0,
            78,
            "completed",
            segment("connect", 0, 5),
            segment("send", 5, 6),
            segment("server_wait", 6, 78),
        )
    ]


def test_a_bare_http_request(driver: Driver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        sent = client._client.get("https://tool.test/search?q=secret")
        if driver.asynchronous:
            await sent

    driver.run(driver.transport(Script.refused(404, after_ms=20), **TIMES), program)

    assert seen.spans_as_dict() == [
        span(
            "GET",
            "CLIENT",
            0,
            8,
            {
                "error.type": "404",
                "http.request.method": "GET",
                "http.response.status_code": 404,
                "latspan.attempt.count": 1,
                "latspan.connection.reused": False,
                "latspan.kind": "http",
                "latspan.outcome": "error",
                "server.address": "tool.test",
                "server.port": 443,
                "url.full": "https://tool.test:443/search",
            },
            span(
                "connect",
                "INTERNAL",
                0,
                5,
                {"latspan.segment": "connect", "latspan.source": "measured"},
            ),
            span(
                "send", "INTERNAL", 5, 6, {"latspan.segment": "send", "latspan.source": "measured"}
            ),
            span(
                "server_wait",
                "INTERNAL",
                6,
                8,
                {"latspan.segment": "server_wait", "latspan.source": "measured"},
            ),
            status="ERROR",
        )
    ]


def _at_once(*_: object) -> int:
    return 0


def test_a_retry(driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    monkeypatch.setattr(
        driver.sdk.module._base_client.BaseClient, "_calculate_retry_timeout", _at_once
    )
    scripts = [Script.refused(503, after_ms=30), PLAIN]
    driver.run(driver.transport(scripts, **TIMES), program, max_retries=1)

    kept = (*OUTCOME, "http.request.resend_count", "http.response.status_code")
    assert seen.spans_as_dict(attributes=kept) == [
        call(
            0,
            116,
            "completed",
            span(
                "POST",
                "CLIENT",
                0,
                38,
                {"error.type": "503", "http.response.status_code": 503},
                status="ERROR",
            ),
            span(
                "POST",
                "CLIENT",
                38,
                46,
                {"http.request.resend_count": 1, "http.response.status_code": 200},
            ),
            segment("connect", 38, 43),
            segment("send", 43, 44),
            segment("server_wait", 44, 96),
            segment("decode", 96, 116),
        )
    ]


def test_a_request_with_stages(driver: Driver, seen: Captured) -> None:
    async def program(client: Any) -> None:
        with latspan.request("answer"):
            with latspan.stage("rerank", kind="retrieve"):
                driver.clock.advance(8 * MS)
            await driver.read(await driver.create(client, stream=True))
            driver.clock.advance(4 * MS)

    driver.run(driver.transport(PLAIN, **TIMES), program)

    assert seen.spans_as_dict(attributes=OUTCOME) == [
        span(
            "answer",
            "INTERNAL",
            0,
            90,
            {"latspan.outcome": "completed"},
            span("rerank", "INTERNAL", 0, 8, {"latspan.outcome": "completed"}),
            call(
                8,
                86,
                "completed",
                segment("connect", 8, 13),
                segment("send", 13, 14),
                segment("server_wait", 14, 66),
                segment("decode", 66, 86),
            ),
        )
    ]


def _in_after(driver: Driver, seen: Captured, leave: Any, script: Script = PLAIN) -> Any:
    """Return the trace of a stream that ``leave`` leaves after its first chunk with text."""

    def visit(_chunk: Any) -> None:
        if driver.clock.monotonic_ns() >= began_ns + 50 * MS:
            raise Leave

    async def program(client: Any) -> None:
        await leave(client, visit)

    began_ns = driver.clock.monotonic_ns()
    driver.run(driver.transport(script), program)
    return seen.spans_as_dict(attributes=OUTCOME)


@with_every_sdk
def test_a_stream_left_by_break(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        await driver.read(await driver.create(client, stream=True), visit)

    assert _in_after(driver, seen, leave) == [
        call(0, 50, "closed_early", segment("server_wait", 0, 50))
    ]


@with_every_sdk
def test_a_stream_left_by_close(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, visit)
        driver.clock.advance(7 * MS)
        await driver.close(stream)

    assert _in_after(driver, seen, leave) == [
        call(0, 57, "closed_early", segment("server_wait", 0, 50))
    ]


@with_every_sdk
def test_a_stream_left_by_the_end_of_with(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        stream = await driver.create(client, stream=True)
        async with driver.entered(stream) as inside:
            await driver.read(inside, visit)
            driver.clock.advance(7 * MS)

    assert _in_after(driver, seen, leave) == [
        call(0, 57, "closed_early", segment("server_wait", 0, 50))
    ]


@with_every_sdk
def test_a_stream_that_is_never_read(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        del visit
        await driver.create(client, stream=True)
        gc.collect()

    assert _in_after(driver, seen, leave) == [call(0, 0, "abandoned")]


@with_every_sdk
def test_a_stream_whose_body_is_cut(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        del visit
        with pytest.raises((driver.errors.APIConnectionError, driver.http.RemoteProtocolError)):
            await driver.read(await driver.create(client, stream=True))

    script = Script.chat(tokens=3, prefill_ms=50, gap_ms=10, flavor="plain", ending="cut")
    (trace,) = _in_after(driver, seen, leave, script)
    # The SDKs differ in which exception they raise, and so do their releases.
    error_type = trace["attributes"]["error.type"]
    assert trace == call(
        0,
        70,
        "error",
        segment("server_wait", 0, 50),
        segment("decode", 50, 70),
        error_type=error_type,
    )


@with_every_sdk
def test_a_stream_without_its_end_mark(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        del visit
        await driver.read(await driver.create(client, stream=True))

    script = Script.chat(tokens=3, prefill_ms=50, gap_ms=10, flavor="plain", ending="truncated")
    assert _in_after(driver, seen, leave, script) == [
        call(
            0,
            70,
            "truncated",
            segment("server_wait", 0, 50),
            segment("decode", 50, 70),
            error_type="_OTHER",
        )
    ]


@with_every_sdk
def test_a_stream_that_ends_in_an_error(driver: Driver, seen: Captured) -> None:
    error_types: list[str] = []

    async def leave(client: Any, visit: Any) -> None:
        del visit
        with pytest.raises(driver.errors.APIError) as raised:
            await driver.read(await driver.create(client, stream=True))
        error_types.append(f"{driver.sdk.name}.{raised.type.__name__}")

    script = Script.chat(tokens=3, prefill_ms=50, gap_ms=10, flavor="plain", ending="error")
    trace = _in_after(driver, seen, leave, script)
    (error_type,) = error_types
    assert trace == [
        call(
            0,
            70,
            "error",
            segment("server_wait", 0, 50),
            segment("decode", 50, 70),
            error_type=error_type,
        )
    ]


@with_every_sdk
def test_a_call_that_is_refused(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        del visit
        with pytest.raises(driver.errors.RateLimitError):
            await driver.create(client, stream=True)

    script = Script.refused(429, after_ms=30, retry_after_s=2)
    assert _in_after(driver, seen, leave, script) == [
        call(0, 30, "rejected", segment("server_wait", 0, 30), error_type="429")
    ]


@with_every_sdk
def test_a_server_that_is_not_there(driver: Driver, seen: Captured) -> None:
    async def leave(client: Any, visit: Any) -> None:
        del visit
        with pytest.raises(driver.errors.APIConnectionError):
            await driver.create(client, stream=True)

    assert _in_after(driver, seen, leave, Script(unreachable=True)) == [
        call(0, 0, "error", error_type=f"{driver.sdk.name}.APIConnectionError")
    ]
