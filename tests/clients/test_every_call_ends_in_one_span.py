"""Whatever way the caller leaves a call, it ends in exactly one span with one outcome."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan._live.operations import abandon_open_operations, active_scope, end_left_operations
from latspan._live.otel.spans import ApiSink, NoSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._model.recording import Recorder
from latspan.integrations import Outcome
from latspan.testing import Captured, RequestRecord, Script
from tests.clients.conftest import MESSAGES, Driver, Leave, with_every_sdk

MS = 1_000_000
SCRIPT = Script.chat(tokens=5, prefill_ms=60, gap_ms=10, flavor="plain")


def _only(seen: Captured) -> RequestRecord:
    """Return the one record, after making sure that there is one client span of one outcome."""
    (record,) = seen.records
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert (span.attributes or {})["latspan.outcome"] == record.outcome
    assert span.start_time is not None
    assert span.end_time is not None
    assert span.end_time - span.start_time == record.duration_ns
    assert sum(segment.duration_ns for segment in record.segments) == record.duration_ns
    return record


def _leave_at(driver: Driver, instant_ns: int) -> Any:
    """Return a visitor that has had enough with the first chunk that comes then."""
    due_ns = driver.clock.monotonic_ns() + instant_ns

    def visit(chunk: Any) -> None:
        if driver.clock.monotonic_ns() >= due_ns:
            raise Leave

    return visit


def _is_error(seen: Captured) -> bool:
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    return not span.status.is_unset


@with_every_sdk
def test_a_break_ends_the_call_at_once(driver: Driver, seen: Captured) -> None:
    """The span has ended while the stream is still held, at the last read's return."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave_at(driver, 70 * MS))
        driver.clock.advance(10_000 * MS)
        record = _only(seen)
        assert record.outcome is Outcome.CLOSED_EARLY
        assert record.duration_ns == 70 * MS
        await driver.close(stream)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.CLOSED_EARLY
    assert not _is_error(seen)


@with_every_sdk
def test_a_break_inside_with_ends_at_the_exit(driver: Driver, seen: Captured) -> None:
    """The exit is sure to come, so the call lasts until it does."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        async with driver.entered(stream) as inside:
            await driver.read(inside, _leave_at(driver, 70 * MS))
            assert seen.records == ()
            driver.clock.advance(30 * MS)

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == 100 * MS
    assert {t.name: t.duration_ns for t in record.segment_totals}["consumer"] == 30 * MS


@with_every_sdk
def test_a_stream_that_is_read_on_after_a_break_inside_with_is_one_call(
    driver: Driver, seen: Captured
) -> None:
    """Peeking at the first chunk is no reason to lose the rest."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        async with driver.entered(stream) as inside:
            await driver.read(inside, _leave_at(driver, 60 * MS))
            await driver.read(inside)

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert len(record.chunk_gaps) == 4


@with_every_sdk
def test_an_explicit_close_is_the_end(driver: Driver, seen: Captured) -> None:
    """A stream that is stepped by hand and then closed lasted until then."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        if driver.asynchronous:
            await anext(stream)
        else:
            next(stream)
        driver.clock.advance(40 * MS)
        await driver.close(stream)

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.CLOSED_EARLY
    assert record.duration_ns == 100 * MS
    assert not _is_error(seen)


@with_every_sdk
def test_stepping_by_hand_to_the_end_completes(driver: Driver, seen: Captured) -> None:
    """``next`` on the stream itself is stamped like a loop."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        chunks = 0
        try:
            while True:
                _ = await anext(stream) if driver.asynchronous else next(stream)
                chunks += 1
        except (StopIteration, StopAsyncIteration):
            pass
        assert chunks == {"openai": 7, "anthropic": 10}[driver.sdk.name]

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert record.metrics["time_to_first_token"].value == 60 * MS


@with_every_sdk
def test_a_stream_that_is_never_read_is_abandoned(driver: Driver, seen: Captured) -> None:
    """Its end is when it was handed over, not when garbage was collected."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        driver.clock.advance(5_000 * MS)
        response = stream.response
        del stream
        gc.collect()
        if driver.asynchronous:
            await response.aclose()
        else:
            response.close()

    driver.run(driver.transport(SCRIPT), program)
    record = _only(seen)
    assert record.outcome is Outcome.ABANDONED
    assert record.duration_ns == 0
    assert not _is_error(seen)


@with_every_sdk
def test_a_finaliser_leaves_the_spans_to_latspans_thread(driver: Driver) -> None:
    """The collector may run it inside a lock of the application's own span processor."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    jobs: list[Callable[[], None]] = []
    runtime = Runtime(
        clock=driver.clock,
        recorder=Recorder(driver.clock, keep=None),
        sink=lambda: ApiSink(provider.get_tracer("application")),
        enqueue=jobs.append,
        strict=True,
    )

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        response = stream.response
        del stream
        gc.collect()
        assert exporter.get_finished_spans() == ()
        for job in jobs:
            job()
        if driver.asynchronous:
            await response.aclose()
        else:
            response.close()

    with override_runtime(runtime):
        driver.run(driver.transport(SCRIPT), program)
    assert [span.name for span in exporter.get_finished_spans()][-1] == "chat m"
    (record,) = runtime.recorder.snapshot().records
    assert record.outcome is Outcome.ABANDONED


def test_a_call_that_waits_for_its_end_holds_no_text(driver: Driver) -> None:
    """Of a stream's chunks it keeps those that say more, and they say it all."""
    jobs: list[Callable[[], None]] = []
    runtime = Runtime(
        clock=driver.clock,
        recorder=Recorder(driver.clock, keep=None),
        sink=NoSink,
        enqueue=jobs.append,
        strict=True,
    )
    texts: list[weakref.ref[Any]] = []

    def visit(chunk: Any) -> None:
        if chunk.choices and chunk.choices[0].delta.content:
            texts.append(weakref.ref(chunk))

    async def program(client: Any) -> None:
        asked = {"stream": True, "stream_options": {"include_usage": True}}
        await driver.read(await driver.create(client, **asked), visit)

    with override_runtime(runtime):
        driver.run(driver.transport(SCRIPT), program)
        assert [text() for text in texts] == [None] * 5
        for job in jobs:
            job()
    (record,) = runtime.recorder.snapshot().records
    assert (record.outcome, record.tokens.output) == (Outcome.COMPLETED, 5)


@with_every_sdk
def test_a_stream_that_is_still_open_at_shutdown_is_abandoned(
    driver: Driver, seen: Captured
) -> None:
    """Nothing that was opened is lost."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        _ = await anext(stream) if driver.asynchronous else next(stream)
        abandon_open_operations()
        assert _only(seen).outcome is Outcome.ABANDONED
        await driver.close(stream)

    driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.ABANDONED


@with_every_sdk
def test_an_error_in_the_loop_inside_with_is_the_callers_own(
    driver: Driver, seen: Captured
) -> None:
    """The call did not fail; it was left."""

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)

        def fail(chunk: Any) -> None:
            raise LookupError

        async with driver.entered(stream) as inside:
            await driver.read(inside, fail)

    with pytest.raises(LookupError):
        driver.run(driver.transport(SCRIPT), program)
    assert _only(seen).outcome is Outcome.CLOSED_EARLY


@with_every_sdk
def test_a_body_without_its_end_mark_is_truncated(driver: Driver, seen: Captured) -> None:
    """The client saw nothing wrong; there was no finish reason."""
    script = Script.chat(tokens=5, ending="truncated", flavor="plain")

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    driver.run(driver.transport(script), program)
    assert _only(seen).outcome is Outcome.TRUNCATED
    assert _is_error(seen)


@with_every_sdk
@pytest.mark.parametrize(
    ("ending", "outcome"),
    [("reset", Outcome.ERROR), ("cut", Outcome.ERROR), ("error", Outcome.ERROR)],
)
def test_a_stream_that_breaks_off_is_an_error(
    driver: Driver, seen: Captured, ending: str, outcome: Outcome
) -> None:
    """A reset, a cut and an error's payload inside a stream whose status was 200."""
    script = Script.chat(tokens=5, prefill_ms=60, ending=ending, flavor="plain")

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        with pytest.raises((driver.errors.APIError, driver.http.TransportError)):
            await driver.read(stream)

    driver.run(driver.transport(script), program)
    record = _only(seen)
    assert record.outcome is outcome
    assert len(record.chunk_gaps) == 4
    assert _is_error(seen)


@with_every_sdk
@pytest.mark.parametrize(
    ("status", "retry_after_s", "outcome"),
    [
        (429, None, Outcome.REJECTED),
        (503, 1.0, Outcome.REJECTED),
        (503, None, Outcome.ERROR),
        (500, None, Outcome.ERROR),
        (400, None, Outcome.ERROR),
    ],
)
def test_a_refusal_has_the_outcome_of_its_status(
    driver: Driver, seen: Captured, status: int, retry_after_s: float | None, outcome: Outcome
) -> None:
    """The span says the status and nothing of the message."""
    script = Script.refused(status, retry_after_s=retry_after_s, error="secret")

    async def program(client: Any) -> None:
        with pytest.raises(driver.errors.APIStatusError):
            await driver.create(client, stream=True)

    driver.run(driver.transport(script), program)
    assert _only(seen).outcome is outcome
    (span,) = [span for span in seen.spans if span.name == "chat m"]
    assert (span.attributes or {})["error.type"] == str(status)
    assert "secret" not in str(span.to_json())


@with_every_sdk
def test_a_connection_that_is_refused_counts_as_connect(driver: Driver, seen: Captured) -> None:
    """The time is where it was spent."""

    async def program(client: Any) -> None:
        with pytest.raises(driver.errors.APIConnectionError):
            await driver.create(client, stream=True)

    transport = driver.transport(Script.unreachable_server(), connect_ns=9 * MS)
    driver.run(transport, program)
    record = _only(seen)
    assert record.outcome is Outcome.ERROR
    assert {t.name: t.duration_ns for t in record.segment_totals} == {"connect": 9 * MS}


@with_every_sdk
def test_a_timeout_is_a_timeout(driver: Driver, seen: Captured) -> None:
    """The server took longer than the client would wait."""
    script = Script.chat(tokens=5, queue_ms=60_000)

    async def program(client: Any) -> None:
        with pytest.raises(driver.errors.APITimeoutError):
            await driver.create(client, stream=True, timeout=2.0)

    driver.run(driver.transport(script), program)
    record = _only(seen)
    assert record.outcome is Outcome.TIMEOUT
    assert {t.name: t.duration_ns for t in record.segment_totals}["server_wait"] == 2_000 * MS


def test_a_wrong_call_raises_where_it_raised_before(driver: Driver, seen: Captured) -> None:
    """Wrong arguments are refused at the call, by the asynchronous client too."""

    async def program(client: Any) -> None:
        with pytest.raises(TypeError):
            client.chat.completions.create(messages=MESSAGES)

    driver.run(driver.transport(SCRIPT), program)
    assert len(seen.records) == (0 if driver.asynchronous else 1)


@with_every_sdk
def test_what_is_read_after_a_left_call_was_counted_is_no_part_of_it(
    driver: Driver,
) -> None:
    """The call was counted as left at the break, whenever its arithmetic is done."""
    jobs: list[Callable[[], None]] = []
    runtime = Runtime(
        clock=driver.clock,
        recorder=Recorder(driver.clock, keep=None),
        sink=NoSink,
        enqueue=jobs.append,
        strict=True,
    )

    async def program(client: Any) -> None:
        stream = await driver.create(client, stream=True)
        await driver.read(stream, _leave_at(driver, 70 * MS))
        end_left_operations()
        await driver.read(stream)

    with override_runtime(runtime):
        driver.run(driver.transport(SCRIPT), program)
    for job in jobs:
        job()
    (record,) = runtime.recorder.snapshot().records
    assert record.outcome is Outcome.CLOSED_EARLY
    assert len(record.chunk_gaps) == 1
    assert record.duration_ns == 70 * MS


def _delta(content: Any) -> Any:
    return {"index": 0, "delta": {"content": content}, "finish_reason": None}


def _answering(driver: Driver, *chunks: dict[str, Any]) -> Any:
    """Return a transport that answers with a stream of these chunks, whatever they hold."""
    same = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = "".join(f"data: {json.dumps({**same, **chunk})}\n\n" for chunk in chunks)

    def answer(_: Any) -> Any:
        headers = {"content-type": "text/event-stream"}
        return driver.http.Response(200, headers=headers, content=f"{events}data: [DONE]\n\n")

    return driver.http.MockTransport(answer)


def test_a_server_that_sends_nonsense_costs_its_evidence_and_not_the_span(
    driver: Driver, seen: Captured
) -> None:
    """A number that is no number, and counts that nothing can hold."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    timings = {"prompt_n": 1, "prompt_ms": 10**400, "predicted_n": 5, "predicted_ms": 1.0}
    end = {
        "choices": [{**_delta(None), "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 2**70, "completion_tokens": 5},
        "timings": timings,
    }
    driver.run(_answering(driver, {"choices": [_delta("Hi")]}, end), program)
    record = _only(seen)
    assert record.outcome is Outcome.COMPLETED
    assert "prefill" not in {total.name for total in record.segment_totals}
    assert record.tokens.input is None


def test_content_of_another_shape_causes_no_warning(driver: Driver, seen: Captured) -> None:
    """The SDK does not check what a server sends, and neither does latspan."""

    async def program(client: Any) -> None:
        await driver.read(await driver.create(client, stream=True))

    end = {"choices": [{**_delta(None), "finish_reason": "stop"}]}
    driver.run(_answering(driver, {"choices": [_delta(["a", "list"])]}, end), program)
    assert _only(seen).outcome is Outcome.COMPLETED


@with_every_sdk
def test_a_task_begun_inside_a_request_outlives_it_alone(driver: Driver, seen: Captured) -> None:
    """Its later calls are no part of the request, which holds on to none of them."""

    async def program(client: Any) -> None:
        over = asyncio.Event()

        async def background() -> None:
            await over.wait()
            await driver.read(await driver.create(client, stream=True))
            assert active_scope() is None

        with latspan.request("answer"):
            task = asyncio.create_task(background())
            await asyncio.sleep(0)
        over.set()
        await task

    driver.run(driver.transport(SCRIPT), program)
    request, call = seen.records
    assert request.name == "answer"
    assert call.name == "chat m"
    assert [segment.name for segment in request.segments] in ([], ["application"])


def test_a_cancelled_task_is_cancelled() -> None:
    """Cancellation in the middle of a read is neither an error nor the end of a stream."""
    driver = Driver(asynchronous=True)
    from latspan.testing import capture

    with capture(clock=driver.clock) as seen:

        async def program(client: Any) -> None:
            stream = await driver.create(client, stream=True)
            entered = asyncio.Event()
            original = stream._iterator

            class Stuck:
                """A stream whose next chunk never comes."""

                def __aiter__(self) -> Stuck:
                    return self

                async def __anext__(self) -> Any:
                    entered.set()
                    await asyncio.Event().wait()

            stream._iterator = Stuck()
            task = asyncio.ensure_future(driver.read(stream))
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await original.aclose()

        driver.run(driver.transport(SCRIPT), program)
        assert _only(seen).outcome is Outcome.CANCELLED
        assert not _is_error(seen)
