"""Tail sampling keeps few traces, complete and the right ones; histograms count every request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

import latspan
from latspan._live.otel.export import PrivateSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._live.sampling import SamplingSink
from latspan._live.sdk import _pipeline
from latspan._model.recording import Recorder
from latspan.testing import ManualClock, Script, scripted_transport
from support.fleet import instances_of
from support.programs import run_program
from support.receivers import Receiver, receiving

openai = pytest.importorskip("openai", reason="the openai client is not installed")

REQUESTS: Final = 400
FAILING: Final = frozenset({7, 133, 399})
make_transport: Any = scripted_transport


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The receiver that latspan sends to; latspan is shut down afterwards."""
    with receiving() as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        yield running
        latspan.uninstrument()
        latspan.shutdown()


def client(clock: ManualClock) -> Any:
    library = "httpx" if openai.__version__.startswith(("1.", "2.")) else "httpx2"
    script = Script.chat(tokens=3, prefill_ms=30, gap_ms=10)
    transport = make_transport(script, clock, library=library)
    http: Any = pytest.importorskip(library).Client(transport=transport)
    return openai.OpenAI(base_url="https://model/v1", api_key="none", http_client=http)


def answer(model: Any) -> None:
    with latspan.stage("retrieve"):
        pass
    for _ in model.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}], stream=True
    ):
        pass


def readings(receiver: Receiver, name: str) -> list[int]:
    """Return the latest values of a sum's data points."""
    found = [metric for metric in receiver.all_metrics if metric.name == name]
    return [point.as_int for point in found[-1].sum.data_points] if found else []


def test_a_request_with_its_calls_and_stages_is_kept_as_a_whole(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Failures are kept, exemplars refer to kept traces, and nothing counts as lost.

    The durations are known: on a busy machine real ones can rise, and then more traces are kept.
    """
    clock, random = ManualClock(), Random(1)  # noqa: S311 - a simulation
    monkeypatch.setattr(_pipeline, "SystemClock", lambda: clock)
    latspan.configure(tail_sampling_ratio=0.05)
    latspan.auto_instrument()
    with client(clock) as model:
        for number in range(REQUESTS):
            try:
                with latspan.request("answer"):
                    answer(model)
                    clock.advance(round(random.lognormvariate(20, 1)))
                    if number in FAILING:
                        raise LookupError
            except LookupError:
                pass
    counted = latspan.snapshot()
    latspan.shutdown(timeout_s=60)

    traces: dict[bytes, Counter[str]] = {}
    for span in receiver.all_spans:
        traces.setdefault(span.trace_id, Counter())[span.name] += 1
    assert len(FAILING) <= len(traces) < REQUESTS / 4
    for names in traces.values():
        assert (names["answer"], names["chat m"], names["retrieve"]) == (1, 1, 1)
    failed = [
        span
        for span in receiver.all_spans
        if span.name == "answer" and span.status.code == span.status.STATUS_CODE_ERROR
    ]
    assert len(failed) == len(FAILING)

    assert counted.count(kind="call") == REQUESTS
    assert readings(receiver, "latspan.traces.sampled_out") == [REQUESTS - len(traces)]
    assert readings(receiver, "latspan.dropped") == []
    exemplars = [
        exemplar
        for metric in receiver.all_metrics
        for point in (
            *metric.exponential_histogram.data_points,
            *metric.histogram.data_points,
        )
        for exemplar in point.exemplars
    ]
    assert exemplars
    named = {(span.trace_id, span.span_id): span.name for span in receiver.all_spans}
    led_to = {named[each.trace_id, each.span_id] for each in exemplars}
    assert led_to >= {"answer", "chat m"}


def test_a_request_open_at_shutdown_is_kept(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept even if it has been quicker so far than all before it."""
    clock = ManualClock()
    monkeypatch.setattr(_pipeline, "SystemClock", lambda: clock)
    latspan.configure(tail_sampling_ratio=0.001)
    with latspan.request("answer"):
        clock.advance(1_000_000)
    open_request = latspan.request("answer")
    with open_request:
        with latspan.stage("retrieve"):
            pass
        latspan.shutdown()

    assert "retrieve" in {span.name for span in receiver.all_spans}


def test_a_flush_exports_kept_traces(receiver: Receiver) -> None:
    """A failure is kept immediately."""
    latspan.configure(tail_sampling_ratio=0.05)
    with pytest.raises(LookupError), latspan.request("answer"):
        raise LookupError

    assert latspan.force_flush()
    assert "answer" in {span.name for span in receiver.all_spans}


def test_a_forked_child_decides_separately() -> None:
    """Spans held in its parent belong to the parent."""
    with receiving() as receiver:
        run_program(
            "forks_inside_a_request",
            LATSPAN_ENDPOINT=receiver.url,
            LATSPAN_TAIL_SAMPLING_RATIO="0.05",
        )

    sent = [dict(instance.spans) for instance in instances_of(receiver).values()]
    assert sorted(sent, key=len) == [
        {"retrieve": 1},
        {"divide": 1, "answer": 1, "retrieve": 1},
    ]


def test_an_applications_sampler_has_priority() -> None:
    """With the application's provider, tail sampling is not used."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    latspan.configure(export_enabled=False, tracer_provider=provider, tail_sampling_ratio=0.001)
    try:
        for _ in range(100):
            with latspan.request("answer"):
                pass
    finally:
        latspan.shutdown()

    names = [span.name for span in exporter.get_finished_spans()]
    assert names.count("answer") == 100


def sampled_beneath(flags: int) -> bool:
    """Return whether a request with these flags propagates the sampled flag."""
    remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(flags))
    token = context.attach(trace.set_span_in_context(NonRecordingSpan(remote), Context()))
    try:
        with latspan.request("answer"):
            return trace.get_current_span().get_span_context().trace_flags.sampled
    finally:
        context.detach(token)


def test_the_sampled_flag_is_propagated_before_the_decision(receiver: Receiver) -> None:
    """It is set unless the caller unset it; such a request is not exported, even if it fails."""
    latspan.configure(tail_sampling_ratio=0.001)

    assert sampled_beneath(TraceFlags.SAMPLED)
    assert not sampled_beneath(TraceFlags.DEFAULT)
    latspan.shutdown(timeout_s=60)
    assert len({span.trace_id for span in receiver.all_spans}) == 1


def percentiles(*, tail_sampling_ratio: float | None) -> tuple[dict[float, float | None], int]:
    """Return percentiles of 3,000 requests with known durations, and the number of kept spans."""
    clock, random = ManualClock(), Random(1)  # noqa: S311 - a simulation
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    private = PrivateSink(provider, exporter.export)
    sink = private if tail_sampling_ratio is None else SamplingSink(private, tail_sampling_ratio)
    recorder = Recorder(clock)
    runtime = Runtime(clock=clock, recorder=recorder, sink=lambda: sink, strict=True)
    with override_runtime(runtime):
        for _ in range(3_000):
            with latspan.request("answer"):
                clock.advance(round(random.lognormvariate(20, 1)))
    of = recorder.snapshot().percentile
    kept = [span for span in exporter.get_finished_spans() if span.name == "answer"]
    return {p: of("duration", p, kind="request") for p in (50, 90, 95, 99, 99.9)}, len(kept)


def test_percentiles_cover_all_requests() -> None:
    """To the nanosecond, whatever the ratio."""
    of_all, all_spans = percentiles(tail_sampling_ratio=None)
    of_kept, kept_spans = percentiles(tail_sampling_ratio=0.05)

    assert of_kept == of_all
    assert all_spans == 3_000
    assert kept_spans < 200
