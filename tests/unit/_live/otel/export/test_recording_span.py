"""What the application sets on the current span is exported with it under the private provider."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

import latspan
from latspan._base import log as _log
from latspan._live.otel.export import PrivateSink
from latspan._live.otel.spans import FinishedSpan, OpenSpan
from latspan.testing import Captured, capture

ANOTHER = SpanContext(7, 8, is_remote=True)


@pytest.fixture(autouse=True)
def no_earlier_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the warnings of other tests."""
    monkeypatch.setattr(_log, "_given", set[str]())


@pytest.fixture
def seen() -> Iterator[Captured]:
    """Give what is recorded."""
    with capture() as captured:
        yield captured


def _only(seen: Captured) -> ReadableSpan:
    (span,) = seen.spans
    return span


def _opened(provider: TracerProvider, exporter: InMemorySpanExporter) -> OpenSpan:
    return PrivateSink(provider, exporter.export).open(
        "x",
        kind=SpanKind.INTERNAL,
        start_epoch_ns=0,
        attributes={"latspan.kind": "request"},
        parent_context=Context(),
    )


def test_everything_that_is_set_is_exported(seen: Captured) -> None:
    """Attributes, events, links, the exception, the status and the name."""
    with latspan.request("answer"):
        span = trace.get_current_span()
        assert span.is_recording()
        span.set_attribute("documents", 12)
        span.set_attributes({"labels": ["a", "b"], "cached": True})
        span.add_event("retrieved", {"from": "index"}, timestamp=5)
        span.add_link(ANOTHER, {"why": "retry"})
        span.record_exception(ValueError("no"))
        span.set_status(StatusCode.ERROR, "too slow")
        span.update_name("answer a question")

    ended = _only(seen)
    assert ended.name == "answer a question"
    assert {"documents": 12, "labels": ("a", "b"), "cached": True}.items() <= dict(
        ended.attributes or {}
    ).items()
    event, failure = ended.events
    assert (event.name, dict(event.attributes or {}), event.timestamp) == (
        "retrieved",
        {"from": "index"},
        5,
    )
    described = dict(failure.attributes or {})
    assert "ValueError: no" in str(described.pop("exception.stacktrace"))
    assert (failure.name, described) == (
        "exception",
        {
            "exception.type": "ValueError",
            "exception.message": "no",
            "exception.escaped": "False",
        },
    )
    (link,) = ended.links
    assert (link.context, dict(link.attributes or {})) == (ANOTHER, {"why": "retry"})
    assert (ended.status.status_code, ended.status.description) == (StatusCode.ERROR, "too slow")
    assert len(encode_spans([ended]).resource_spans) == 1


def test_latspans_own_attributes_remain(seen: Captured) -> None:
    """A name that begins with ``latspan.`` is not set, and one warning says so."""
    with latspan.request("answer"):
        trace.get_current_span().set_attributes({"latspan.kind": "x", "mine": 1})

    attributes = dict(_only(seen).attributes or {})
    assert (attributes["latspan.kind"], attributes["mine"]) == ("request", 1)


@pytest.mark.parametrize("opened", [latspan.request, latspan.stage])
def test_writes_after_the_end_are_ignored(
    seen: Captured, caplog: pytest.LogCaptureFixture, opened: Any
) -> None:
    """At once, even if the span is finished later on another thread; one warning says so."""
    with opened("answer"):
        span = trace.get_current_span()
        span.end()
        assert span.is_recording()
    assert not span.is_recording()
    span.set_attribute("late", 1)
    span.add_event("late")
    span.add_link(ANOTHER)
    span.record_exception(ValueError())
    span.set_status(StatusCode.ERROR)
    span.update_name("late")

    ended = _only(seen)
    assert ended.name == "answer"
    assert "late" not in (ended.attributes or {})
    assert (len(ended.events), len(ended.links)) == (0, 0)
    assert ended.status.status_code is StatusCode.UNSET
    assert caplog.messages == ["an attribute, event or status is ignored: its span has ended"]


class Odd:
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError


class OddMapping(dict[str, int]):
    """Cannot be read."""

    def keys(self) -> Any:
        """Raise."""
        raise RuntimeError


def test_hostile_values_cost_only_themselves(seen: Captured) -> None:
    """Each becomes text or is left out; nothing is raised, and the span can be encoded."""
    hostile: Any = [
        {"odd": Odd()},
        {"big": 10**30},
        {"lone": "\ud800"},
        {"mixed": [1, "a", None]},
        {"numbers": [1, 2.5]},
        {5: "five"},
        {"": "nameless"},
        {"nothing": None},
        {"nested": {"a": 1}},
        {"bytes": b"\xff"},
        OddMapping(),
        "text",
        7,
    ]
    with latspan.request("answer"):
        span: Any = trace.get_current_span()
        for each in hostile:
            span.set_attributes(each)
        span.set_attribute([], 1)
        for each in hostile:
            span.add_event(Odd(), each, timestamp=-1)
            span.add_link(ANOTHER, each)
        span.add_link("not a context")
        span.record_exception("not an exception", "not attributes")
        span.set_status("not a status", Odd())
        span.set_status(StatusCode.ERROR, Odd())
        span.update_name(Odd())

    ended = _only(seen)
    set_by_it = {
        name: value
        for name, value in dict(ended.attributes or {}).items()
        if not name.startswith("latspan.")
    }
    assert set_by_it == {
        "odd": "<Odd>",
        "big": str(10**30),
        "lone": "?",
        "mixed": ("1", "a", "None"),
        "numbers": (1.0, 2.5),
        "5": "five",
        "nested": "{'a': 1}",
        "bytes": "\ufffd",
        "[]": 1,
    }
    assert ended.name == "<Odd>"
    assert len(ended.events) == len(ended.links) == len(hostile)
    assert len(encode_spans([ended]).resource_spans) == 1


def test_a_list_that_changes_later_is_exported_as_it_was(seen: Captured) -> None:
    """The application may go on using its objects."""
    labels = ["a"]
    with latspan.request("answer"):
        trace.get_current_span().set_attribute("labels", labels)
        labels.append("b")

    assert dict(_only(seen).attributes or {})["labels"] == ("a",)


@pytest.mark.parametrize(
    ("set_status", "expected"),
    [
        ([StatusCode.OK, StatusCode.ERROR], StatusCode.OK),
        ([StatusCode.ERROR, StatusCode.UNSET], StatusCode.ERROR),
        ([Status(StatusCode.ERROR, "x"), Status(StatusCode.OK)], StatusCode.OK),
    ],
)
def test_a_status_is_set_as_the_specification_defines(
    seen: Captured, set_status: list[Any], expected: StatusCode
) -> None:
    """``OK`` is final, and ``UNSET`` is ignored."""

    def fail() -> None:
        with latspan.request("answer"):
            for status in set_status:
                trace.get_current_span().set_status(status)
            raise LookupError

    with pytest.raises(LookupError):
        fail()

    assert _only(seen).status.status_code is expected


def test_limits_of_the_variables_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the number of attributes, events and links, and to the length of their text."""
    for name, value in {
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "3",
        "OTEL_SPAN_EVENT_COUNT_LIMIT": "2",
        "OTEL_SPAN_LINK_COUNT_LIMIT": "1",
        "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "4",
    }.items():
        monkeypatch.setenv(name, value)
    exporter = InMemorySpanExporter()
    opened = _opened(TracerProvider(shutdown_on_exit=False), exporter)
    span = trace.get_current_span(opened.context)
    for number in range(5):
        span.set_attribute(f"a{number}", "abcdef")
        span.add_event(f"e{number}", {"x": "abcdef", "y": "abcdef"})
        span.add_link(ANOTHER)
    opened.end(FinishedSpan(9, {"latspan.outcome": "completed"}))

    (ended,) = exporter.get_finished_spans()
    assert dict(ended.attributes or {}) == {
        "a4": "abcd",
        "latspan.kind": "requ",
        "latspan.outcome": "comp",
    }
    assert (ended.dropped_attributes, ended.dropped_events, ended.dropped_links) == (4, 3, 4)
    assert [event.name for event in ended.events] == ["e3", "e4"]
    assert [dict(event.attributes or {}) for event in ended.events] == [{"y": "abcd"}] * 2
    assert [event.dropped_attributes for event in ended.events] == [1, 1]


def test_a_span_that_is_not_sampled_does_not_record() -> None:
    """Instrumentations then save themselves the work of describing it."""
    exporter = InMemorySpanExporter()
    opened = _opened(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False), exporter)
    assert not trace.get_current_span(opened.context).is_recording()
    opened.stop_recording()
    opened.add_event("e", {}, 1)
    opened.end(FinishedSpan(1, {}))

    assert exporter.get_finished_spans() == ()


def test_many_threads_write_to_one_span(seen: Captured) -> None:
    """Nothing is lost, also where several are the first."""
    with latspan.request("answer"):
        span = trace.get_current_span()
        start = threading.Barrier(8)

        def write(thread: int) -> None:
            start.wait()
            for number in range(10):
                span.set_attribute(f"{thread}.{number}", number)
                span.add_event(f"{thread}.{number}")

        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    ended = _only(seen)
    names = {f"{thread}.{number}" for thread in range(8) for number in range(10)}
    assert names <= set(ended.attributes or {})
    assert names == {event.name for event in ended.events}


def test_the_size_of_a_span_counts_what_was_set(seen: Captured) -> None:
    """Batches are cut by it, and a receiver refuses a batch that is too large."""
    with latspan.request("answer"):
        span = trace.get_current_span()
        for number in range(100):
            span.add_event(f"e{number}", {"text": "x" * 1_000})
            span.add_link(ANOTHER, {"text": "x" * 100})
        span.set_status(StatusCode.ERROR, "x" * 5_000)

    ended: Any = _only(seen)
    assert ended.max_bytes >= encode_spans([ended]).ByteSize()


def test_a_span_is_freed_without_the_garbage_collector(seen: Captured) -> None:
    """Model servers switch it off."""
    gc.disable()
    try:
        with latspan.request("answer"):
            span = trace.get_current_span()
            span.add_event("e")
        freed = weakref.ref(span)
        del span
        assert freed() is None
    finally:
        gc.enable()


def test_attributes_are_read_by_nobody_elses_rules() -> None:
    """A call inside a span that the application describes as a model's keeps a span of its own."""
    described: Mapping[str, str] = {"gen_ai.operation.name": "chat"}
    with capture() as seen, latspan.request("answer"):
        trace.get_current_span().set_attributes(described)
        with latspan.stage("decode"):
            pass
    assert [span.name for span in seen.spans] == ["decode", "answer"]
