"""Each span is exported once, after forks, repeated configuration and an exit during a stream."""

from __future__ import annotations

import signal
import sys

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from latspan.testing import Script, ScriptedServer
from support.otlp import attributes_of
from support.programs import driving, run_program
from support.receivers import receiving


def names_of(spans: list[Span]) -> list[str]:
    """Return the names of spans."""
    return sorted(span.name for span in spans)


def test_a_forked_child_exports_only_its_own_spans() -> None:
    """It does not wait for its parent's threads, and does not repeat its parent's exports."""
    with receiving() as receiver:
        run_program(
            "forks_after_configuring",
            LATSPAN_ENDPOINT=receiver.url,
            OTEL_METRICS_EXPORTER="none",
        )

    assert names_of(receiver.all_spans) == ["before the fork", "in the child", "in the parent"]


def test_a_child_that_a_thread_forked_ends_with_the_function_of_the_thread() -> None:
    """Python runs no ``atexit`` there, and the threads of latspan would keep it alive."""
    with receiving() as receiver:
        run_program("forks_on_a_thread", LATSPAN_ENDPOINT=receiver.url)

    assert names_of(receiver.all_spans) == ["before the fork", "in the child", "in the parent"]
    assert receiver.all_metrics


@pytest.mark.parametrize("second_time", ["global", "private"])
def test_a_process_may_configure_twice(second_time: str) -> None:
    """A global provider cannot be replaced, so it must continue to work."""
    with receiving() as receiver:
        run_program("configures_twice", second_time, LATSPAN_ENDPOINT=receiver.url)

    assert names_of(receiver.all_spans) == [
        "first",
        "second",
        "the application's first",
        "the application's second",
    ]
    parents = {span.span_id: span.name for span in receiver.all_spans}
    assert {
        span.name: parents[span.parent_span_id]
        for span in receiver.all_spans
        if span.name in {"first", "second"}
    } == {"first": "the application's first", "second": "the application's second"}


@pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0),
    reason="CPython 3.13.0 crashes in such a program, with or without latspan",
)
def test_a_stream_open_at_exit_is_abandoned() -> None:
    """Its span is exported, although it is the only one and the process is ending."""
    pytest.importorskip("openai", reason="the openai client is not installed")
    with receiving() as receiver, ScriptedServer(Script.chat(tokens=500)) as model:
        run_program("leaves_a_stream_open", model.base_url, LATSPAN_ENDPOINT=receiver.url)

    (call,) = [span for span in receiver.all_spans if span.name == "chat small"]
    said = attributes_of(call.attributes)
    assert said["latspan.outcome"] == "abandoned"


def test_an_orderly_exit_after_a_signal_loses_nothing() -> None:
    """As in the guide, the handler exits, and everything recorded is exported."""
    with receiving() as receiver, driving("ends_by_a_signal", LATSPAN_ENDPOINT=receiver.url) as app:
        assert app.hear() == {"ready": True}
        app.signal(signal.SIGTERM)

    assert names_of(receiver.all_spans) == ["before the signal"]
    assert receiver.all_metrics
