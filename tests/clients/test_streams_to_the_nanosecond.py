"""On a manual clock every mark, segment and metric of a real client's stream is exact."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from latspan import Kind, Source, TokenSource
from latspan._model.units import BILLIONTHS
from latspan.integrations import Outcome
from latspan.testing import (
    Captured,
    MetricValue,
    PayloadPart,
    RequestRecord,
    Script,
    ScriptStep,
    ServerFlavor,
)
from tests.clients.conftest import MESSAGES, OPENAI, Driver, Visit

MS = 1_000_000

AT_END = {"stream_close", "postprocess", "consumer"}

NETWORK: dict[str, int] = {
    "connect_ns": 7 * MS,
    "tls_ns": 11 * MS,
    "send_ns": 3 * MS,
    "network_ns": 2 * MS,
}


def _only(seen: Captured) -> RequestRecord:
    (record,) = seen.records
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def _totals(record: RequestRecord) -> dict[str, tuple[int, str]]:
    return {total.name: (total.duration_ns, total.source.value) for total in record.segment_totals}


def _event(**fields: Any) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", **fields}
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _stream(
    driver: Driver, script: Script | list[Script], *, visit: Any = None, **client: Any
) -> None:
    async def program(openai_client: Any) -> None:
        stream = await driver.create(
            openai_client, stream=True, stream_options={"include_usage": True}
        )
        await driver.read(stream, visit)

    driver.run(driver.transport(script, **NETWORK), program, **client)


def test_a_stream_from_llama_cpp(driver: Driver, seen: Captured) -> None:
    """Connection, queue, prefill, network and decode are what the script says."""
    _stream(driver, Script.chat(tokens=5, queue_ms=40, prefill_ms=60, gap_ms=10))

    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert record.kind is Kind.CALL
    assert record.name == "chat m"
    assert _totals(record) == {
        "connect": (7 * MS, "measured"),
        "tls": (11 * MS, "measured"),
        "send": (3 * MS, "measured"),
        # The way there and the way back of the headers cannot be told from the queue.
        "queue": (44 * MS, "estimated"),
        "prefill": (60 * MS, "server_reported"),
        "network": (0, "estimated"),
        "decode": (40 * MS, "server_reported"),
    }
    assert record.duration_ns == (7 + 11 + 3 + 44 + 60 + 40) * MS
    assert {name: value.value for name, value in record.metrics.items()} == {
        "duration": 165 * MS,
        "time_to_first_chunk": 125 * MS,
        "time_to_first_token": 125 * MS,
        "time_to_first_visible_token": 125 * MS,
        "time_per_output_token": 10 * MS,
        "chunk_gap_max": 10 * MS,
        "stall_count": 0,
        "stall_duration": 0,
        "stall_ratio": 0,
        "fluidity": BILLIONTHS,
        "buffer_needed": 0,
    }
    assert {value.source for value in record.metrics.values()} == {Source.MEASURED}
    assert [gap.value for gap in record.chunk_gaps] == [10 * MS] * 4
    assert record.tokens.source is TokenSource.PROVIDER
    assert (record.tokens.input, record.tokens.output) == (12, 5)


def test_a_stream_from_a_server_without_time_reports(driver: Driver, seen: Captured) -> None:
    """Without evidence the wait is one composite segment and the generation is measured."""
    _stream(driver, Script.chat(tokens=5, queue_ms=40, prefill_ms=60, gap_ms=10, flavor="plain"))

    assert _totals(_only(seen)) == {
        "connect": (7 * MS, "measured"),
        "tls": (11 * MS, "measured"),
        "send": (3 * MS, "measured"),
        "server_wait": (104 * MS, "measured"),
        "decode": (40 * MS, "measured"),
    }


@pytest.mark.parametrize("driver", [pytest.param((OPENAI, False), id="openai-sync")], indirect=True)
def test_the_sdks_own_work_is_not_a_wait_for_the_end(driver: Driver, seen: Captured) -> None:
    """
    The OpenAI SDK builds the classes of an API when it reads the first stream.

    The arrivals of two streams are recorded, because recording those of each would cost too much.
    """
    pieces = [
        _event(choices=[{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]),
        _event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}]),
        _event(choices=[]),
        b"data: [DONE]\n\n",
    ]

    async def program(client: Any) -> None:
        process = client._process_response_data

        def process_slowly(**arguments: Any) -> Any:
            chunk = process(**arguments)
            if not chunk.choices:
                driver.clock.advance(300 * MS)
            return chunk

        client._process_response_data = process_slowly
        for _ in range(3):
            await driver.read(await driver.create(client, stream=True))

    driver.run(driver.sending(pieces), program)
    ends = [
        {name: length for name, (length, _) in _totals(record).items() if name in AT_END}
        for record in seen.records
    ]
    assert ends == [
        {"stream_close": 30 * MS, "postprocess": 300 * MS},
        {"stream_close": 30 * MS, "postprocess": 300 * MS},
        {"stream_close": 330 * MS},
    ]


def test_a_role_that_comes_early_is_a_chunk_and_no_token(driver: Driver, seen: Captured) -> None:
    """The first chunk and the first token are different instants."""
    _stream(driver, Script.chat(tokens=3, prefill_ms=50, role_ms=10, flavor="plain"))

    metrics = _only(seen).metrics
    assert metrics["time_to_first_chunk"].value == (7 + 11 + 3 + 2 + 10 + 2) * MS
    assert metrics["time_to_first_token"].value == (7 + 11 + 3 + 2 + 50 + 2) * MS


def test_reasoning_is_distinguished_from_the_answer(driver: Driver, seen: Captured) -> None:
    """The user waits for the first visible token; the model's first is earlier."""
    _stream(
        driver,
        Script.chat(tokens=3, reasoning_tokens=4, prefill_ms=50, gap_ms=10, flavor="plain"),
    )

    record = _only(seen)
    assert _totals(record)["reasoning"] == (40 * MS, "measured")
    assert _totals(record)["decode"] == (20 * MS, "measured")
    visible = record.metrics["time_to_first_visible_token"].value
    assert visible - record.metrics["time_to_first_token"].value == 40 * MS


def test_tool_call_arguments_are_tokens(driver: Driver, seen: Captured) -> None:
    """An answer may have no text at all."""
    _stream(
        driver,
        Script.chat(tokens=0, tool_call_tokens=4, prefill_ms=50, gap_ms=10, flavor="plain"),
    )

    record = _only(seen)
    assert record.metrics["time_to_first_visible_token"].value == 75 * MS
    assert _totals(record)["decode"] == (30 * MS, "measured")


def test_the_pace_of_tokens_that_came_at_once_is_not_known(driver: Driver, seen: Captured) -> None:
    """A gateway that buffers leaves nothing between the first token and the last: no zero."""
    _stream(driver, Script.chat(tokens=6, tokens_per_chunk=6, flavor="plain"))
    assert "time_per_output_token" not in _only(seen).metrics


def test_what_rests_on_an_unknown_arrival_is_estimated_on_the_span_too(
    driver: Driver, seen: Captured
) -> None:
    """Stalls and percentiles of gaps as well as single times."""

    def hold(chunk: Any) -> None:
        driver.clock.advance(700 * MS)

    _stream(driver, Script.chat(tokens=25, flavor="plain"), visit=hold)
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    estimated = set(
        cast("tuple[str, ...]", (span.attributes or {})["latspan.estimated_attributes"])
    )
    assert {
        "latspan.chunk_gap.max",
        "latspan.chunk_gap.p95",
        "latspan.stall.count",
        "latspan.stall.duration",
        "latspan.stall.ratio",
        "latspan.fluidity",
        "latspan.buffer_needed",
    } <= estimated


def test_a_stall_is_seen_as_one(driver: Driver, seen: Captured) -> None:
    """One gap over the limit: counted, and its excess with it."""
    _stream(driver, Script.chat(tokens=6, gap_ms=20, stalls_ms={3: 700}))

    metrics = _only(seen).metrics
    assert metrics["chunk_gap_max"].value == 720 * MS
    assert metrics["stall_count"].value == 1
    assert metrics["stall_duration"].value == 220 * MS
    # Of 20 + 20 + 720 + 20 + 20 ms from the first token to the last.
    assert metrics["stall_ratio"].value == BILLIONTHS * 220 // 800
    # The fourth token is due 600 ms after the first for a reader of 5 tokens/s; it came 760 after.
    assert metrics["buffer_needed"].value == (760 - 600) * MS


def test_a_late_first_token_misses_every_deadline_that_passed(
    driver: Driver, seen: Captured
) -> None:
    """Due at 500 ms and each 200 ms from there: it came at 925, so it missed three."""
    _stream(driver, Script.chat(tokens=5, prefill_ms=900, gap_ms=10, flavor="plain"))

    fluidity = _only(seen).metrics["fluidity"]
    assert fluidity == MetricValue(round(BILLIONTHS * 4 / 7), Source.MEASURED)


def test_a_stall_costs_what_was_not_banked(driver: Driver, seen: Captured) -> None:
    """Four early tokens put off the next deadline to 1,300 ms; it came at 1,785, then on time."""
    _stream(
        driver,
        Script.chat(tokens=7, prefill_ms=40, gap_ms=20, stalls_ms={4: 1_640}, flavor="plain"),
    )

    metrics = _only(seen).metrics
    assert metrics["time_to_first_token"].value == 65 * MS
    # 65 + 3 * 20 + 1,660: late by 485 ms, which is three deadlines of 200 ms.
    assert metrics["fluidity"] == MetricValue(round(BILLIONTHS * 6 / 9), Source.MEASURED)
    assert metrics["buffer_needed"] == MetricValue((1_720 - 800) * MS, Source.MEASURED)


def test_tokens_that_share_a_chunk_are_spread_and_marked(driver: Driver, seen: Captured) -> None:
    """Six tokens in two chunks, three a chunk: due from the chunk's arrival on."""
    _stream(
        driver,
        Script.chat(tokens=6, tokens_per_chunk=3, prefill_ms=40, gap_ms=700, flavor="plain"),
    )

    metrics = _only(seen).metrics
    assert metrics["buffer_needed"] == MetricValue((700 - 3 * 200) * MS, Source.ESTIMATED)
    assert metrics["fluidity"] == MetricValue(BILLIONTHS, Source.ESTIMATED)
    assert metrics["stall_ratio"].source is Source.MEASURED


def test_reasoning_has_deadlines_and_no_reader(driver: Driver, seen: Captured) -> None:
    """The reader's buffer begins with the first visible token."""
    _stream(
        driver,
        Script.chat(
            tokens=3,
            reasoning_tokens=4,
            prefill_ms=50,
            gap_ms=10,
            stalls_ms={2: 2_000, 5: 300},
            flavor="plain",
        ),
    )

    metrics = _only(seen).metrics
    assert metrics["buffer_needed"].value == (310 - 200) * MS
    # The third is due at 900 ms and came at 2,095: six missed. What follows banks again.
    assert metrics["fluidity"].value == round(BILLIONTHS * 6 / 12)


@pytest.mark.parametrize("unknown", [{"reports_usage": False}, {"ending": "cut"}])
def test_what_takes_a_count_of_tokens_is_not_there_without(
    driver: Driver, seen: Captured, unknown: dict[str, Any]
) -> None:
    """Absent, never 0; what chunks alone tell is there."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True, stream_options={"include_usage": True})
        with contextlib.suppress(Exception):
            await driver.read(stream)

    script = Script.chat(tokens=4, flavor="plain", **unknown)
    driver.run(driver.transport(script, **NETWORK), program)

    metrics = _only(seen).metrics
    assert {"stall_ratio", "chunk_gap_max"} <= set(metrics)
    assert not {"fluidity", "buffer_needed"} & set(metrics)


def test_felt_speed_is_on_the_span_in_seconds_and_ratios(driver: Driver, seen: Captured) -> None:
    """Under names of its own."""
    _stream(driver, Script.chat(tokens=6, gap_ms=20, stalls_ms={3: 700}))

    (span,) = [span for span in seen.spans if span.name == "chat m"]
    attributes = dict(span.attributes or {})
    assert attributes["latspan.stall.ratio"] == pytest.approx(0.275)
    assert attributes["latspan.fluidity"] == 1
    assert attributes["latspan.buffer_needed"] == pytest.approx(0.16)
    assert "latspan.estimated_attributes" not in attributes


@pytest.mark.parametrize("dialect", ["llama.cpp", "plain"])
@pytest.mark.parametrize(
    ("hold_ms", "arrivals_seen"), [(0, 39), (5, 38), (15, 35), (25, 0), (50, 0)]
)
def test_a_slow_reader_is_distinguished_from_a_slow_stream(
    driver: Driver, seen: Captured, hold_ms: int, arrivals_seen: int, dialect: str
) -> None:
    """Gaps and TPOT are the server's 20 ms, or marked as not measured."""

    def hold(chunk: Any) -> None:
        driver.clock.advance(hold_ms * MS)

    _stream(
        driver,
        Script.chat(tokens=40, prefill_ms=100, gap_ms=20, flavor=dialect),
        visit=hold,
    )

    record = _only(seen)
    measured = [gap.value for gap in record.chunk_gaps if gap.source is Source.MEASURED]
    assert set(measured) <= {20 * MS}
    # The first token shares its write with the role, which the reader holds too: with 5 ms it is
    # the only one that is found waiting, with 15 ms the reader needs three more to catch up.
    assert len(measured) == arrivals_seen
    pace = record.metrics["time_per_output_token"]
    if pace.source in {Source.MEASURED, Source.SERVER_REPORTED}:
        assert pace.value == 20 * MS
    if dialect == "llama.cpp":
        assert pace.source in {Source.MEASURED, Source.SERVER_REPORTED}


def test_a_caller_who_waits_before_the_first_read_has_no_measured_ttft(
    driver: Driver, seen: Captured
) -> None:
    """The first token was there, no one knows since when."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        driver.clock.advance(500 * MS)
        await driver.read(stream)

    driver.run(driver.transport(Script.chat(tokens=3), **NETWORK), program)

    record = _only(seen)
    assert record.metrics["time_to_first_token"].source is Source.ESTIMATED
    assert "consumer" in _totals(record)


async def _read_bytes(driver: Driver, client: Any, visit: Visit) -> None:
    """Send a chat without the SDK's methods, and read its body as it arrives."""
    url = "https://model.test/v1/chat/completions"
    body = {"model": "m", "messages": MESSAGES, "stream": True}
    async with driver.entered(client._client.stream("POST", url, json=body)) as response:
        await driver.read(
            response.aiter_raw() if driver.asynchronous else response.iter_raw(), visit
        )


@pytest.mark.parametrize("hold_ms", [0, 500])
def test_a_comment_does_not_date_the_token_behind_it(
    driver: Driver, seen: Captured, hold_ms: int
) -> None:
    """The read of the token waits less than 1 ms, and the caller may have paused before."""
    beside = ScriptStep(PayloadPart.COMMENT, gap_ns=100 * MS)
    words = (
        ScriptStep(PayloadPart.TEXT, gap_ns=MS // 2, text=word, tokens=1) for word in ("a", "b")
    )

    def hold(data: bytes) -> None:
        if data.startswith(b":"):
            driver.clock.advance(hold_ms * MS)

    script = Script(steps=(beside, *words), flavor=ServerFlavor.PLAIN)
    transport = driver.transport(script)
    driver.run(transport, lambda client: _read_bytes(driver, client, hold))

    record = _only(seen)
    ttft, totals = record.metrics["time_to_first_token"], _totals(record)
    if hold_ms == 0:
        assert (ttft.value, ttft.source) == (100 * MS + MS // 2, Source.MEASURED)
    else:
        # It may have arrived at any time since the comment.
        assert (ttft.value, ttft.source) == (600 * MS, Source.ESTIMATED)
        assert totals["server_wait"] == (100 * MS, "measured")
        assert totals["consumer"] == (500 * MS, "measured")


def test_an_event_arrives_with_its_last_byte(driver: Driver, seen: Captured) -> None:
    """Its parts follow each other in less than 1 ms, so no read of the later ones has to wait."""
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "word"}}]}\n\n'
    last = b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'

    def one_by_one() -> Iterator[bytes]:
        driver.clock.advance(100 * MS)
        for byte in event:
            driver.clock.advance(MS // 10)
            yield bytes([byte])
        yield last

    transport = driver.sending(one_by_one(), gap_ms=0)
    driver.run(transport, lambda client: _read_bytes(driver, client, lambda _data: None))

    ttft = _only(seen).metrics["time_to_first_token"]
    assert (ttft.value, ttft.source) == (100 * MS + len(event) * MS // 10, Source.MEASURED)


def test_an_answer_in_one_piece(driver: Driver, seen: Captured) -> None:
    """Prefill and decode are reported; the queue cannot be told from the network."""

    async def program(client: Any) -> None:
        await driver.create(client)

    script = Script.chat(tokens=5, queue_ms=40, prefill_ms=60, gap_ms=10)
    driver.run(driver.transport(script, **NETWORK), program)

    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert "time_to_first_token" not in record.metrics
    assert _totals(record) == {
        "connect": (7 * MS, "measured"),
        "tls": (11 * MS, "measured"),
        "send": (3 * MS, "measured"),
        "server_wait": (44 * MS, "measured"),
        "prefill": (60 * MS, "server_reported"),
        "decode": (40 * MS, "server_reported"),
    }


def test_retries_are_inside_the_call(
    driver: Driver, seen: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One span, one `retry` segment, and a child span for each try."""
    _back_off_on(driver, monkeypatch, ms=300)
    _stream(
        driver,
        [Script.refused(429, after_ms=20), Script.chat(tokens=3, flavor="plain")],
        max_retries=2,
    )

    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    # The first try, and the 300 ms until the second.
    assert _totals(record)["retry"] == ((7 + 11 + 3 + 2 + 20 + 2 + 300) * MS, "measured")
    spans = {span.name: span for span in seen.spans}
    assert "retry" not in spans
    tries = [span for span in seen.spans if span.name == "POST"]
    assert [dict(span.attributes or {}).get("http.request.resend_count") for span in tries] == [
        None,
        1,
    ]
    assert (tries[0].attributes or {})["error.type"] == "429"
    client = spans["chat m"]
    assert client.context is not None
    assert all(
        span.parent is not None and span.parent.span_id == client.context.span_id for span in tries
    )


def _back_off_on(driver: Driver, monkeypatch: pytest.MonkeyPatch, *, ms: int) -> None:
    """Let the client's back-off take ``ms`` milliseconds of the manual clock."""
    openai_base = pytest.importorskip("openai._base_client")

    def sleep(seconds: float) -> None:
        driver.clock.advance(ms * MS)

    async def asleep(seconds: float) -> None:
        driver.clock.advance(ms * MS)

    monkeypatch.setattr(openai_base.time, "sleep", sleep)
    monkeypatch.setattr(openai_base.anyio, "sleep", asleep)
