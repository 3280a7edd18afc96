"""Attributes of the application's own: on spans, on series, and on an open request or stage."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latspan
from latspan._base import log as _log
from latspan._live.instrument import open_call
from latspan._live.operations import ModelCall
from latspan._live.otel.export._points import attributes_of
from latspan._live.otel.spans import ApiSink, NoSink
from latspan._live.process.runtime import Runtime, override_runtime
from latspan._model.recording import Recorder, read_snapshots, write_interval
from latspan._model.segments import Kind, Outcome
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan.errors import UnknownNameError
from latspan.histogram import HistogramLogWriter
from latspan.testing import Captured, ManualClock, RequestRecord, capture

VERSION = "prompt.version"


@pytest.fixture(autouse=True)
def no_earlier_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of other tests."""
    monkeypatch.setattr(_log, "_given", set[str]())


@pytest.fixture
def versions(clock: ManualClock) -> Iterator[Captured]:
    """Give what is recorded while series have two attributes of the application's."""
    with capture(clock=clock, series_attributes=(VERSION, "arm")) as captured:
        yield captured


def _call() -> None:
    call = open_call(operation="chat", provider="openai", model="m", api_format=OPENAI_CHAT)
    assert isinstance(call, ModelCall)
    call.returned()
    call.end(Outcome.COMPLETED)


def _attributes(seen: Captured, name: str) -> dict[str, Any]:
    (span,) = [each for each in seen.spans if each.name == name]
    return dict(span.attributes or {})


def _own(seen: Captured, name: str) -> dict[str, Any]:
    """Return the attributes that are neither latspan's nor the conventions'."""
    return {
        key: value
        for key, value in _attributes(seen, name).items()
        if not key.startswith(("latspan.", "gen_ai."))
    }


def _record(seen: Captured, kind: Kind) -> RequestRecord:
    (record,) = [record for record in seen.records if record.kind is kind]
    return record


def test_attributes_are_on_the_spans_of_everything_inside(seen: Captured) -> None:
    """Calls, requests and stages have them, and their segments do not."""
    with (
        latspan.attributes({VERSION: "7", "labels": ["a", "b"], "cached": True, "share": 0.5}),
        latspan.request("answer"),
    ):
        with latspan.stage("retrieve"):
            pass
        _call()
    with latspan.request("other"):
        pass

    expected = {VERSION: "7", "labels": ["a", "b"], "cached": True, "share": 0.5}
    for name in ("answer", "retrieve", "chat m"):
        assert _own(seen, name) == expected
    assert _own(seen, "other") == {}
    assert not [span for span in seen.spans if VERSION in (span.attributes or {})][3:]
    # They are no series attributes unless they are configured to be.
    assert not [record for record in seen.records if VERSION in record.attributes]


def test_nested_blocks_merge_and_the_inner_one_wins(seen: Captured) -> None:
    """The outer values return when the inner block ends."""
    with latspan.attributes({VERSION: "7", "arm": "a"}, tenant="acme"):
        with latspan.attributes({VERSION: "8", "arm": None}), latspan.request("inner"):  # pyright: ignore[reportArgumentType]
            pass
        with latspan.request("outer"):
            pass

    assert _own(seen, "inner") == {VERSION: "8", "arm": "a"}
    assert _own(seen, "outer") == {VERSION: "7", "arm": "a"}
    assert _attributes(seen, "inner")["latspan.tenant"] == "acme"


about_version = latspan.attributes({VERSION: "7"})


@about_version
async def _answer() -> None:
    with latspan.request("decorated"):
        await asyncio.sleep(0)


def test_one_object_can_be_used_again_and_as_a_decorator(seen: Captured) -> None:
    """An object of a module, nested in itself too."""
    with about_version, about_version, latspan.request("first"):
        pass
    with about_version, latspan.request("second"):
        pass
    asyncio.run(_answer())

    assert [_own(seen, name) for name in ("first", "second", "decorated")] == [{VERSION: "7"}] * 3


def test_a_mapping_that_changes_later_changes_nothing(seen: Captured) -> None:
    """The values are those of the time at which they were passed."""
    labels = ["a"]
    given = {VERSION: labels}
    scope = latspan.attributes(given)
    labels.append("b")
    given["late"] = ["x"]
    with scope, latspan.request("answer"):
        pass

    assert _own(seen, "answer") == {VERSION: ["a"]}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("not a mapping", {}),
        (7, {}),
        ({"": 1, "a": 2}, {"a": 2}),
        ({5: "five"}, {"5": "five"}),
        ({"a": 10**30, "b": "\ud800"}, {"a": str(10**30), "b": "?"}),
        ({"latspan.kind": "x", "a": 1}, {"a": 1}),
    ],
)
def test_invalid_attributes_cost_only_themselves(
    seen: Captured, given: Any, kept: dict[str, Any]
) -> None:
    """Nothing is raised where the application runs."""
    with latspan.attributes(given), latspan.request("answer") as request:
        latspan.annotate(given)
        request.add_event("e", given)

    assert _own(seen, "answer") == kept
    assert _attributes(seen, "answer")["latspan.kind"] == "request"


def test_a_reserved_name_is_reported_once(seen: Captured, caplog: pytest.LogCaptureFixture) -> None:
    """The message names the argument to use."""
    with latspan.attributes({"latspan.tenant": "acme"}), latspan.request("answer") as request:
        request.set_attribute("latspan.route", "/x")

    assert "latspan.tenant" not in _attributes(seen, "answer")
    (message,) = caplog.messages
    assert message.startswith("the attribute latspan.tenant is not set")
    assert message.endswith("for example tenant=")


def test_attributes_never_become_labels_of_the_conventions_metrics(seen: Captured) -> None:
    """Their set is defined by the conventions."""
    with latspan.attributes({"error.type": "mine", "server.address": "mine"}):
        _call()

    assert _attributes(seen, "chat m")["server.address"] == "mine"
    assert not {"server_address", "error_type"} & set(_record(seen, Kind.CALL).convention)


@pytest.mark.parametrize("opened", [latspan.request, latspan.stage])
def test_an_open_request_or_stage_has_attributes_and_events(
    clock: ManualClock, seen: Captured, opened: Any
) -> None:
    """They are exported with its span, the event at its own time."""
    with opened("answer") as scope:
        assert isinstance(scope, latspan.OpenScope)
        scope.set_attribute("documents", 12)
        clock.advance(5_000_000)
        scope.add_event("retrieved", {"from": "index"})
        trace_id = scope.trace_id
    scope.set_attribute("late", 1)
    scope.add_event("late")

    (span,) = seen.spans
    (event,) = span.events
    assert span.context is not None
    assert span.start_time is not None
    assert trace_id == scope.trace_id == f"{span.context.trace_id:032x}"
    assert _own(seen, "answer") == {"documents": 12}
    assert (event.name, dict(event.attributes or {})) == ("retrieved", {"from": "index"})
    assert event.timestamp == span.start_time + 5_000_000


def test_an_open_request_is_safe_on_another_thread(seen: Captured) -> None:
    """Several may be the first to set an attribute."""
    with latspan.request("answer") as request:
        start = threading.Barrier(8)

        def write(thread: int) -> None:
            start.wait()
            for number in range(10):
                request.set_attribute(f"{thread}.{number}", number)
                request.add_event(f"{thread}.{number}")

        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(_own(seen, "answer")) == 80
    assert len(seen.spans[0].events) == 80


def test_an_open_request_without_latspan_does_nothing() -> None:
    """The application needs no condition."""
    with latspan.request("answer") as request, latspan.stage("retrieve") as stage:
        for each in (request, stage):
            each.set_attribute("a", 1)
            each.add_event("e", {"a": 1})
            assert each.trace_id is None


def test_an_open_request_under_an_applications_provider(clock: ManualClock) -> None:
    """Its span has the attributes and events."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    runtime = Runtime(
        clock=clock,
        recorder=Recorder(clock),
        sink=lambda: ApiSink(provider.get_tracer("latspan")),
        strict=True,
    )
    with (
        override_runtime(runtime),
        latspan.attributes({VERSION: "7"}),
        latspan.request("answer") as request,
    ):
        request.set_attribute("documents", 12)
        request.add_event("retrieved", {"from": "index"})

    (span,) = exporter.get_finished_spans()
    assert {VERSION: "7", "documents": 12}.items() <= dict(span.attributes or {}).items()
    assert [event.name for event in span.events] == ["retrieved"]
    assert span.context is not None
    assert request.trace_id == f"{span.context.trace_id:032x}"


def test_an_open_request_whose_spans_are_not_exported(clock: ManualClock) -> None:
    """It does not write to the span around it, and has no trace."""
    recorder = Recorder(clock, keep=None)
    outside = TracerProvider(shutdown_on_exit=False).get_tracer("t")
    runtime = Runtime(clock=clock, recorder=recorder, sink=NoSink, strict=True)
    with (
        override_runtime(runtime),
        outside.start_as_current_span("theirs") as theirs,
        latspan.request("answer") as request,
    ):
        request.set_attribute("documents", 12)
        request.add_event("retrieved")
        assert request.trace_id is None

    span: Any = theirs
    assert (dict(span.attributes), list(span.events)) == ({}, [])
    assert recorder.snapshot().count() == 1


def test_series_have_the_attributes_that_are_configured(versions: Captured) -> None:
    """From a block, from an annotation and from the open request, and no others."""
    with latspan.attributes({VERSION: 7, "other": "x"}):
        _call()
        with latspan.request("answer") as request:
            latspan.annotate({"arm": "a"})
            request.set_attribute(VERSION, "8")
    with latspan.request("plain"):
        pass

    snapshot = versions.snapshot()
    assert snapshot.count(kind="call", **{VERSION: "7"}) == 1
    assert snapshot.count(kind="request", **{VERSION: "8", "arm": "a"}) == 1
    assert snapshot.count(kind="request", arm="a") == 1
    groups = snapshot.group_by(VERSION)
    assert {value: group.count() for value, group in groups.items()} == {"8": 1, "7": 1, None: 1}
    assert snapshot.where(**{VERSION: "8"}).percentile("duration", 0) == 0
    assert _own(versions, "answer") == {VERSION: "8", "other": "x", "arm": "a"}
    # The span keeps the type of the value; a series attribute is text.
    assert _own(versions, "chat m")[VERSION] == 7


def test_a_request_at_its_end_knows_the_attributes_around_its_start(versions: Captured) -> None:
    """A later block does not count, wherever the request ends."""
    request = latspan.request("answer")
    with latspan.attributes({VERSION: "7"}, tenant="acme"):
        request.__enter__()
    with latspan.attributes({VERSION: "8"}, tenant="other"):
        latspan.annotate(traffic_class="batch")
        request.__exit__(None, None, None)

    assert dict(_record(versions, Kind.REQUEST).attributes) == {
        VERSION: "7",
        "tenant": "acme",
        "traffic_class": "batch",
    }


def test_an_unknown_attribute_of_series_is_refused_with_a_hint(versions: Captured) -> None:
    """The hint names the setting."""
    with latspan.attributes({VERSION: "7"}), latspan.request("answer"):
        pass

    with pytest.raises(UnknownNameError, match=r"no attribute 'colour'") as refused:
        versions.snapshot().count(colour="red")
    assert "prompt.version" in str(refused.value.hint)
    assert "configure(series_attributes=('colour',))" in str(refused.value.hint)


def test_series_attributes_are_exported_and_read_back(versions: Captured, tmp_path: Path) -> None:
    """As attributes of latspan's own metrics under their own names, and in the tags of a log."""
    with latspan.attributes({VERSION: "7 a,b", "arm": "ä"}):
        _call()

    snapshot = versions.snapshot()
    exported = [
        attributes_of(key, conventions=key.metric.startswith("gen_ai.")) for key in snapshot.series
    ]
    own = [each for each in exported if "latspan.kind" in each]
    assert own
    assert {(each[VERSION], each["arm"]) for each in own} == {("7 a,b", "ä")}
    assert not [each for each in exported if "latspan.kind" not in each and VERSION in each]

    path = tmp_path / "a.hlog"
    with HistogramLogWriter(path) as writer:
        write_interval(writer, snapshot)
    (again,) = read_snapshots(path)
    assert set(again.series) == set(snapshot.series)
    assert again.count(kind="call", **{VERSION: "7 a,b"}) == 1


def test_series_attributes_count_towards_the_cardinality_limit(clock: ManualClock) -> None:
    """Values past it are counted together."""
    recorder = Recorder(clock, cardinality_limit=3)
    runtime = Runtime(
        clock=clock, recorder=recorder, sink=NoSink, strict=True, series_attributes=(VERSION,)
    )
    with override_runtime(runtime):
        for number in range(10):
            with latspan.attributes({VERSION: f"v{number}\ud800"}), latspan.request("answer"):
                pass

    snapshot = recorder.snapshot()
    assert (snapshot.count(), snapshot.count(overflow="true")) == (10, 7)
    assert snapshot.count(**{VERSION: "v0?"}) == 1


def _sent(carried: latspan.Handoff) -> list[Any]:
    return [carried, pickle.loads(pickle.dumps(carried)), carried.headers()]  # noqa: S301 - our own


@pytest.mark.parametrize("how", range(3))
def test_attributes_go_with_a_handoff(versions: Captured, how: int) -> None:
    """To another thread and to another process, pickled or as headers."""
    labels: Sequence[str] = ["a", "b"]
    with latspan.attributes({VERSION: "7", "labels": labels}, tenant="acme"):
        with latspan.request("answer"):
            carried = latspan.handoff(waits=None)
        sent = _sent(carried)[how]
    with latspan.attach(sent):
        _call()

    assert _own(versions, "chat m") == {VERSION: "7", "labels": ["a", "b"]}
    attributes = _record(versions, Kind.CALL).attributes
    assert (attributes[VERSION], attributes["tenant"]) == ("7", "acme")


def test_headers_of_a_handoff_stay_short(seen: Captured, caplog: pytest.LogCaptureFixture) -> None:
    """Attributes that would not fit into the headers of a request are left out, with a warning."""
    with latspan.attributes({"text": "x" * 5_000}):
        headers = latspan.handoff().headers()

    assert "latspan-attributes" not in headers
    (message,) = caplog.messages
    assert "4096 characters" in message


@pytest.mark.parametrize("header", ["", "{", "[]", "5", '"a"', "%7B%22latspan.x%22:1%7D", "[" * 9])
def test_a_header_of_another_origin_does_no_harm(seen: Captured, header: str) -> None:
    """It sets no attributes."""
    with latspan.attach({"latspan-attributes": header}), latspan.stage("decode"):
        pass

    assert _own(seen, "decode") == {}


def test_a_request_holds_a_limited_number_of_attributes(
    seen: Captured, caplog: pytest.LogCaptureFixture
) -> None:
    """However often the application sets one of another name."""
    with latspan.request("answer") as request:
        for number in range(1_100):
            request.set_attribute(f"a{number}", number)
        request.set_attribute("a0", "again")

    (span,) = seen.spans
    assert span.dropped_attributes == 1_000 + 2 - 128
    assert "latspan.outcome" in (span.attributes or {})
    assert [message[:40] for message in caplog.messages] == [
        "a request or stage has more than 1000 at"
    ]
