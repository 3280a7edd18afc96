"""What an integration says when it opens a call, as the record has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

import latspan
from latspan._live.instrument import open_call, track_stream
from latspan._live.instrument._hooks import open_exchange
from latspan._live.operations import ModelCall, SentRequest
from latspan._live.otel.spans import ApiSink, NoSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._model.recording import Recorder, RequestRecord
from latspan._model.recording._recorder import DRAIN_THRESHOLD
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.testing import Captured, ManualClock

INFERENCE_KEY = "opentelemetry.genai.client.inference.context"
"""Where `opentelemetry-util-genai` 1.3 marks that an inference is open."""


class _Answer:
    """An answer as the SDK has it, as far as it is read."""

    model_extra: dict[str, Any] | None = None

    def __init__(self, model: str) -> None:
        self.model = model
        self.choices: list[Any] = []


def _open(
    *,
    model: str | None = "m",
    server: tuple[str, int] | None = None,
    streamed: bool = False,
) -> ModelCall:
    call = open_call(
        operation="chat",
        provider="openai",
        model=model,
        api_format=OPENAI_CHAT,
        server=server,
        streamed=streamed,
    )
    assert isinstance(call, ModelCall)
    return call


def test_an_inference_call_knows_what_the_conventions_metrics_are_keyed_by(seen: Captured) -> None:
    """All of it, and what went wrong under the same word as on the span."""
    call = _open(server=("model.test", 8080))
    call.keep_response(_Answer("m-2026"))
    call.end(Outcome.TIMEOUT, error_type="ReadTimeout")

    (record,) = seen.records
    assert record.convention == {
        "operation": "chat",
        "provider": "openai",
        "model": "m",
        "response_model": "m-2026",
        "server_address": "model.test",
        "server_port": "8080",
        "error_type": "ReadTimeout",
    }


def test_an_unset_attribute_is_not_a_label(seen: Captured) -> None:
    """Neither are words of the surrounding code that only series have."""
    with latspan.attributes(route="/ask"):
        _open(model=None).end(Outcome.COMPLETED)

    (record,) = seen.records
    assert record.convention == {"operation": "chat", "provider": "openai"}


def test_only_inference_calls_count_in_the_conventions_metrics(seen: Captured) -> None:
    """An HTTP exchange, a stage and a request are no inference."""
    with latspan.request("answer"), latspan.stage("retrieve"):
        sent = SentRequest(None, "GET", "https", "search.test", 443, "/", None)
        exchange = open_exchange(sent)
        assert exchange is not None
        exchange.end(Outcome.COMPLETED)

    assert [record.convention for record in seen.records] == [{}, {}, {}]


def test_a_call_inside_an_official_inference_is_left_to_that_to_count(seen: Captured) -> None:
    """It is recorded all the same."""
    token = context.attach(context.set_value(INFERENCE_KEY, object()))
    try:
        inside = _open()
    finally:
        context.detach(token)
    inside.end(Outcome.COMPLETED)
    _open().end(Outcome.COMPLETED)

    assert [record.name for record in seen.records] == ["chat m", "chat m"]
    assert [bool(record.convention) for record in seen.records] == [False, True]


def test_every_chunk_of_a_stream_has_its_time_since_the_one_before(
    clock: ManualClock, seen: Captured
) -> None:
    """Also one without a token, and also while the caller held the stream."""
    call = _open(streamed=True)
    call.returned()
    stream = type("Stream", (), {})()
    tracker = track_stream(call, stream)
    for held, waited in ((0, 5_000_000), (1_000_000, 2_000_000), (7_000_000, 3)):
        clock.advance(held)
        before = clock.monotonic_ns()
        clock.advance(waited)
        tracker.read(before, {"choices": []}, object())
    tracker.ended(clock.monotonic_ns())

    (record,) = seen.records
    assert record.output_chunk_gaps_ns == (3_000_000, 7_000_003)
    assert record.chunk_gaps == ()


@pytest.mark.parametrize(("sampler", "kept"), [(ALWAYS_ON, True), (ALWAYS_OFF, False)])
def test_a_record_knows_whether_its_trace_is_kept(
    clock: ManualClock, sampler: Sampler, kept: bool
) -> None:
    """Of a call, a stage and a request alike."""
    recorder = Recorder(clock, keep=None)
    tracer = TracerProvider(sampler=sampler, shutdown_on_exit=False).get_tracer("test")
    runtime = Runtime(clock=clock, recorder=recorder, sink=lambda: ApiSink(tracer), strict=True)
    with override_runtime(runtime), latspan.request("answer"), latspan.stage("retrieve"):
        _open().end(Outcome.COMPLETED)

    records: tuple[RequestRecord, ...] = recorder.snapshot().records
    assert [record.sampled for record in records] == [kept] * 3
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_caller_whose_spans_must_not_wait_has_its_records_counted_together(
    clock: ManualClock,
) -> None:
    """One by one they would cost more, and all at once the caller who brings one too many."""
    jobs: list[Callable[[], None]] = []
    recorder = Recorder(clock)
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("test")
    runtime = Runtime(
        clock=clock,
        recorder=recorder,
        sink=lambda: ApiSink(tracer),
        enqueue=jobs.append,
        strict=True,
    )
    with override_runtime(runtime):
        for _ in range(DRAIN_THRESHOLD // 2 - 1):
            _open().end(Outcome.COMPLETED)
        assert jobs == []
        _open().end(Outcome.COMPLETED)

    (count,) = jobs
    count()
    assert recorder.waiting() == 0


def test_without_spans_no_trace_is_kept(clock: ManualClock) -> None:
    """There is none to be found."""
    recorder = Recorder(clock, keep=None)
    with override_runtime(Runtime(clock=clock, recorder=recorder, sink=NoSink, strict=True)):
        _open().end(Outcome.COMPLETED)

    (record,) = recorder.snapshot().records
    assert (record.trace_id, record.sampled) == (0, False)
