"""A call, request or stage that is open when latspan ends is recorded as abandoned, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from opentelemetry import trace

import latspan
from latspan._live.instrument import ServerRequest, open_call
from latspan._live.process.runtime import current_runtime
from latspan._model.recording import RequestRecord
from latspan._model.segments import Kind, Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from support.programs import PROGRAMS
from support.receivers import Receiver, receiving

DEADLINE_S: Final = 60.0

End = Callable[[], None]
Recorded = Callable[[], tuple[RequestRecord, ...]]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The receiver that latspan sends to by default; latspan is shut down afterwards."""
    with receiving() as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        yield running
        latspan.shutdown()


@pytest.fixture(params=[latspan.shutdown, latspan.configure], ids=["shutdown", "configure"])
def end(request: pytest.FixtureRequest) -> End:
    """Function that ends the configuration in effect."""
    end: End = request.param
    return end


@pytest.fixture
def recorded(receiver: Receiver) -> Recorded:
    """Configure latspan, and return a function that returns the records of this configuration."""
    latspan.configure(keep_records=None)
    runtime = current_runtime()
    assert runtime is not None
    return lambda: runtime.recorder.snapshot().records


@contextmanager
def elsewhere(work: Callable[[Callable[[], None]], None]) -> Generator[None]:
    """Run ``work`` on another thread up to its call of the argument; on, after the block."""
    opened, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        opened.set()
        may_end.wait()

    thread = threading.Thread(target=work, args=(wait,))
    thread.start()
    opened.wait()
    try:
        yield
    finally:
        may_end.set()
        thread.join()


def outcomes(records: tuple[RequestRecord, ...]) -> list[tuple[str, Outcome]]:
    return [(record.name, record.outcome) for record in records]


def test_the_innermost_is_recorded_first(end: End, recorded: Recorded) -> None:
    """As recordings require; each record has the numbers of the request around it."""

    def work(wait: Callable[[], None]) -> None:
        with latspan.request("outer"), latspan.request("inner"), latspan.stage("tool"):
            open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
            wait()

    with elsewhere(work):
        end()
        records = recorded()

    call, stage, inner, outer = records
    assert outcomes(records) == [
        ("chat m", Outcome.ABANDONED),
        ("tool", Outcome.ABANDONED),
        ("inner", Outcome.ABANDONED),
        ("outer", Outcome.ABANDONED),
    ]
    assert [record.kind for record in records] == [
        Kind.CALL,
        Kind.STAGE,
        Kind.INNER_REQUEST,
        Kind.REQUEST,
    ]
    assert [call.parent_id, stage.parent_id, inner.parent_id] == [
        stage.scope_id,
        inner.scope_id,
        outer.scope_id,
    ]


def test_their_spans_are_exported_with_their_parents(
    receiver: Receiver, end: End, recorded: Recorded
) -> None:
    """No exported span has a parent that was not exported."""

    def work(wait: Callable[[], None]) -> None:
        with latspan.request("outer"):
            with latspan.stage("ended"):
                pass
            with latspan.stage("open"):
                wait()

    with elsewhere(work):
        end()

    by_name = {span.name: span for span in receiver.all_spans}
    root = by_name["outer"]
    assert (by_name["ended"].parent_span_id, by_name["open"].parent_span_id) == (
        root.span_id,
        root.span_id,
    )
    assert not root.parent_span_id
    assert {
        attribute.value.string_value
        for attribute in root.attributes
        if attribute.key == "latspan.outcome"
    } == {"abandoned"}
    assert outcomes(recorded())[-1] == ("outer", Outcome.ABANDONED)


def test_the_application_ends_them_without_effect(end: End, recorded: Recorded) -> None:
    """It raises nothing, records nothing, and is outside again after the block."""
    with latspan.request("outer") as request:
        with latspan.stage("inner"):
            end()
            latspan.annotate(route="late")
        request.set_attribute("late", 1)
    runtime = current_runtime()

    assert outcomes(recorded()) == [("inner", Outcome.ABANDONED), ("outer", Outcome.ABANDONED)]
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert runtime is None or runtime.recorder.snapshot().count() == 0


def test_a_span_of_the_application_inside_is_left_in_order(end: End, recorded: Recorded) -> None:
    """An abandoned request stays current until its block is left."""
    with latspan.request("outer"):
        span = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=False))
        before = trace.get_current_span()
        with trace.use_span(span):
            end()
            assert trace.get_current_span() is span
        assert trace.get_current_span() is before
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert outcomes(recorded()) == [("outer", Outcome.ABANDONED)]


def test_a_request_after_that_is_outermost(receiver: Receiver, recorded: Recorded) -> None:
    """A request that begins inside an abandoned one is a request of the new configuration."""
    with latspan.request("outer"):
        latspan.configure(keep_records=None)
        with latspan.request("next"):
            pass

    (record,) = latspan.snapshot().records
    assert (record.name, record.kind, record.parent_id) == ("next", Kind.REQUEST, 0)
    assert outcomes(recorded()) == [("outer", Outcome.ABANDONED)]


def test_a_served_request_has_its_route(end: End, recorded: Recorded) -> None:
    """And everything else that the server knew by then."""

    def work(wait: Callable[[], None]) -> None:
        served = ServerRequest.begin(
            "POST", scheme="http", path="/chat", headers={}, route=lambda: "/chat"
        )
        assert served is not None
        served.answering(200, {})
        wait()
        served.sent()
        served.leave()

    with elsewhere(work):
        end()
        (record,) = recorded()
    assert (record.name, record.outcome) == ("POST /chat", Outcome.ABANDONED)
    assert record.attributes["route"] == "/chat"
    assert len(recorded()) == 1


def test_the_wait_of_a_handoff_is_abandoned_with_its_request(end: End, recorded: Recorded) -> None:
    """It is a stage of the request that was handed off."""
    with latspan.request("outer"):
        handoff = latspan.handoff(waits="queue")
        end()
    with latspan.attach(handoff):
        pass

    assert outcomes(recorded()) == [("queue", Outcome.ABANDONED), ("outer", Outcome.ABANDONED)]


@pytest.mark.parametrize("how", ["exits", "waits"])
def test_at_the_end_of_a_process(receiver: Receiver, how: str) -> None:
    """Whether it exits or is ended by SIGTERM."""
    environment = {**os.environ, "LATSPAN_ENDPOINT": receiver.url}
    command = [sys.executable, str(PROGRAMS / "leaves_a_request_open.py"), how]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        if how == "waits":
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
        code = process.wait(DEADLINE_S)

    spans: dict[str, Any] = {span.name: span for span in receiver.all_spans}
    assert code == (-signal.SIGTERM if how == "waits" else 0)
    assert spans["tool"].parent_span_id == spans["open"].span_id
