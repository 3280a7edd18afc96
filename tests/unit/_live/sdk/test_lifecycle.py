"""Repeated configuration and shutdown, and OpenTelemetry's variables that switch signals off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import latspan
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan._live.otel.spans import NoSink
from latspan._live.process.runtime import current_runtime
from latspan._model.recording import read_snapshots
from latspan._model.segments import Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.errors import ConfigError
from support.receivers import Receiver, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """The receiver that latspan sends to by default; latspan is shut down afterwards."""
    with receiving() as running:
        monkeypatch.setenv("LATSPAN_ENDPOINT", running.url)
        yield running
        latspan.shutdown()


def do_some_work(name: str = "work") -> None:
    with latspan.request(name):
        pass


def names_of(receiver: Receiver) -> list[str]:
    """Return the names of the received spans without segments."""
    return [span.name for span in receiver.all_spans if span.name != "unattributed"]


def test_before_configuration_all_functions_do_nothing() -> None:
    do_some_work()

    assert latspan.snapshot().count() == 0
    assert latspan.force_flush()
    latspan.shutdown()


def test_flush_and_shutdown_export_the_pending_spans(receiver: Receiver) -> None:
    """A repeated call exports nothing twice."""
    latspan.configure()
    do_some_work("first")

    assert latspan.force_flush()
    assert latspan.force_flush()
    assert names_of(receiver) == ["first"]
    do_some_work("second")
    latspan.shutdown()
    latspan.shutdown()
    assert names_of(receiver) == ["first", "second"]
    assert "latspan.segment.duration" in {metric.name for metric in receiver.all_metrics}


@pytest.mark.parametrize("export", [True, False])
def test_a_histogram_log_is_written_with_and_without_export(
    receiver: Receiver, tmp_path: Path, *, export: bool
) -> None:
    """Each flush writes an interval; together they equal the snapshot."""
    latspan.configure(export_enabled=export, histogram_log_dir=str(tmp_path))
    for name in ("first", "second"):
        do_some_work(name)
        assert latspan.force_flush()
    whole = latspan.snapshot()
    latspan.shutdown()

    [log] = tmp_path.iterdir()
    first, second = read_snapshots(log)
    assert first.merge(second).series.keys() == whole.series.keys()
    assert (first.count(), second.count()) == (1, 1)
    assert bool(receiver.all_metrics) is export


def test_raw_histograms_are_exported_if_enabled(receiver: Receiver) -> None:
    """They are log records in addition to the metrics."""
    latspan.configure(export_raw_histograms=True)
    do_some_work("first")
    latspan.shutdown()

    assert {record.event_name for record in receiver.all_logs} == {"latspan.histogram"}


def test_otel_logs_exporter_none_disables_raw_histograms(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has priority over ``export_raw_histograms``."""
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    latspan.configure(export_raw_histograms=True)
    do_some_work("first")
    latspan.shutdown()

    assert receiver.all_metrics
    assert not receiver.all_logs


def test_settings_apply_to_the_exported_histograms(receiver: Receiver) -> None:
    """The scale and the cardinality limit are the configured ones."""
    latspan.configure(metrics_scale=3, cardinality_limit=1)
    for path in ("first", "second"):
        with latspan.attributes(inference_path=path):
            do_some_work()
    latspan.shutdown()

    [segments] = [m for m in receiver.all_metrics if m.name == "latspan.segment.duration"]
    points = segments.exponential_histogram.data_points
    assert {point.scale for point in points} == {3}
    assert sorted(
        any(said.key == "otel.metric.overflow" for said in point.attributes) for point in points
    ) == [False, True]


def test_nothing_is_recorded_after_a_shutdown(receiver: Receiver) -> None:
    """The application runs as it would without latspan."""
    latspan.configure()
    latspan.shutdown()
    do_some_work()

    assert latspan.snapshot().count() == 0
    assert names_of(receiver) == []


def test_configuring_again_replaces_the_configuration(receiver: Receiver) -> None:
    """Earlier spans have been exported, and counting starts again."""
    latspan.configure()
    do_some_work("before")
    latspan.configure(keep_records=None)
    assert names_of(receiver) == ["before"]
    do_some_work("after")

    assert [record.name for record in latspan.snapshot().records] == ["after"]
    latspan.shutdown()
    assert names_of(receiver) == ["before", "after"]


WRONG: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "an address": ({"endpoint": "nowhere"}, {}),
    "a number that overflows": ({"stall_threshold_ms": 1e308}, {}),
    "a type": ({"inference_path": 5}, {}),
    "an address of metrics": (
        {"endpoint": None},
        {"LATSPAN_ENDPOINT": "", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "nowhere"},
    ),
    "a timeout that the exporter of spans refuses": (
        {"protocol": "grpc"},
        {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "soon"},
    ),
    "a timeout that the exporter of log records refuses": (
        {"export_raw_histograms": True},
        {
            "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "grpc",
            "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT": "soon",
        },
    ),
    "a limit that the SDK refuses": ({}, {"OTEL_SPAN_EVENT_COUNT_LIMIT": "many"}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_configuration_keeps_the_previous_one(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """An error in the settings of any signal switches nothing off and starts no thread."""
    latspan.configure()
    do_some_work()
    assert latspan.force_flush()
    before = set(threading.enumerate())
    settings, environment = WRONG[wrong]
    with monkeypatch.context() as patch:
        for variable, value in environment.items():
            patch.setenv(variable, value)

        with pytest.raises(ConfigError) as caught:
            latspan.configure(**settings)

    assert caught.value.hint
    assert set(threading.enumerate()) == before
    do_some_work()
    assert latspan.snapshot().count() == 2
    assert latspan.force_flush()
    assert names_of(receiver) == ["work", "work"]


def test_an_invalid_queue_size_is_ignored_with_a_warning(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As OpenTelemetry's specification requires."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "inf")
    latspan.configure()
    do_some_work()

    assert latspan.force_flush()
    assert names_of(receiver) == ["work"]
    assert "OTEL_BSP_MAX_QUEUE_SIZE is 'inf'" in caplog.text


def test_concurrent_configuration_leaves_one_configuration(receiver: Receiver) -> None:
    """The others are shut down, including their threads."""
    before = set(threading.enumerate())
    at_once = threading.Barrier(8)

    def configure() -> None:
        at_once.wait()
        latspan.configure()

    threads = [threading.Thread(target=configure) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    started = {each for each in threading.enumerate() if each.name == "latspan-interval-export"}

    assert len(started - before) == 1


def test_shutdown_leaves_no_thread(receiver: Receiver) -> None:
    """Nor does repeated configuration."""
    before = set(threading.enumerate())
    for _ in range(3):
        latspan.configure()
        do_some_work()
    started = set(threading.enumerate()) - before
    latspan.shutdown()
    for thread in started:
        if thread.name.startswith(("latspan", "OtelBatch")):
            thread.join(10)

    alive = [thread.name for thread in set(threading.enumerate()) - before]
    assert [name for name in alive if name.startswith(("latspan", "OtelBatch"))] == []


def test_a_snapshot_includes_requests_that_have_just_ended(receiver: Receiver) -> None:
    """Jobs queued for the worker thread are done first."""
    latspan.configure(keep_records=None)
    for _ in range(100):
        do_some_work()

    records = latspan.snapshot().records
    assert [record.outcome for record in records] == [Outcome.COMPLETED] * 100


def test_otel_sdk_disabled_disables_everything(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histograms too."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "True")
    latspan.configure()
    do_some_work()

    assert current_runtime() is None
    assert latspan.force_flush()
    assert (receiver.traces, receiver.metrics) == ([], [])


def test_otel_traces_exporter_none_disables_spans_only(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histograms are independent of spans."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    latspan.configure()
    do_some_work()

    assert latspan.force_flush()
    assert receiver.traces == []
    assert receiver.all_metrics != []


def test_otel_metrics_exporter_none_disables_metrics_only(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histograms can still be read in the process."""
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    latspan.configure()
    do_some_work()

    assert latspan.force_flush()
    assert names_of(receiver) == ["work"]
    assert receiver.metrics == []
    assert latspan.snapshot().count() == 1


def test_export_enabled_false_exports_nothing(receiver: Receiver) -> None:
    """Histograms can still be read in the process."""
    latspan.configure(export_enabled=False)
    do_some_work()

    runtime = current_runtime()
    assert runtime is not None
    assert isinstance(runtime.sink(), NoSink)
    assert latspan.snapshot().count() == 1
    latspan.shutdown()
    assert (receiver.traces, receiver.metrics) == ([], [])


def do_a_chat() -> None:
    call = open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    message = {"role": "assistant", "content": "hi"}
    call.keep_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})
    call.end(Outcome.COMPLETED)


def test_enabled_events_are_exported_to_the_same_endpoint(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush and a shutdown both export them, and each has the trace and span ID of its span."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "EVENT_ONLY")
    latspan.configure()
    do_a_chat()
    assert latspan.force_flush()
    (event,) = receiver.all_logs
    do_a_chat()
    latspan.shutdown()

    assert len(receiver.all_logs) == 2
    assert event.event_name == "gen_ai.client.inference.operation.details"
    (span,) = [span for span in receiver.all_spans if span.span_id == event.span_id]
    assert span.name == "chat m"
    assert event.trace_id == span.trace_id
    assert event.time_unix_nano == span.end_time_unix_nano
    held = {each.key: each.value for each in event.attributes}
    (answer,) = held["gen_ai.output.messages"].array_value.values
    parts = {each.key: each.value for each in answer.kvlist_value.values}["parts"]
    assert "hi" in str(parts)


@pytest.mark.parametrize(
    "variable", ["OTEL_LOGS_EXPORTER", "OTEL_INSTRUMENTATION_GENAI_EMIT_EVENT"]
)
def test_events_can_be_disabled(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Together with all logs, or alone."""
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_AND_EVENT")
    monkeypatch.setenv(variable, {"OTEL_LOGS_EXPORTER": "none"}.get(variable, "false"))
    latspan.configure()
    do_a_chat()
    latspan.shutdown()

    assert "chat m" in names_of(receiver)
    assert receiver.all_logs == []
