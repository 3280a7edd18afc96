"""Attributes are exported with encodable names and values; an invalid one affects only itself."""

from __future__ import annotations

import json
from collections import UserList
from typing import Any

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, SpanKind

from latspan._live.otel.export import event_record
from latspan._live.otel.spans import encodable, encodable_data, measured, size_of_attributes
from latspan._live.otel.spans._encodable import MAX_ITEMS, MAX_TEXT_LENGTH
from latspan._model.wire import DEEPEST, MAX_CONTENT_LENGTH


def test_valid_attributes_are_returned_unchanged() -> None:
    """They are not copied."""
    attributes = {"a": "b", "c": 1, "d": 1.5, "e": True, "f": float("nan")}

    assert encodable(attributes) is attributes
    assert measured(attributes)[0] is attributes
    assert measured(attributes)[1] == size_of_attributes(attributes)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("a\ud800", "a?"),
        ("é" * (MAX_TEXT_LENGTH + 1), "é" * MAX_TEXT_LENGTH),
        ("m" * (MAX_TEXT_LENGTH + 1), "m" * MAX_TEXT_LENGTH),
        (2**63, str(2**63)),
        (-(2**63), -(2**63)),
        (["a\ud800", "b"], ["a?", "b"]),
        (("a\ud800", "b"), ("a?", "b")),
        (("stop",), ("stop",)),
        ([1, 2**63, 1.5, True], [1, str(2**63), 1.5, True]),
        ([["a"], None], ["['a']", "None"]),
        (["m" * MAX_TEXT_LENGTH, "b"], ["m" * MAX_TEXT_LENGTH]),
        (["b", "m" * MAX_TEXT_LENGTH], ["b", "m" * (MAX_TEXT_LENGTH - 1)]),
        (["m"] * (MAX_ITEMS + 1), ["m"] * MAX_ITEMS),
        ({"a": 1}, "{'a': 1}"),
        (UserList(["a"]), "['a']"),
    ],
)
def test_an_invalid_value_affects_only_itself(value: Any, kept: Any) -> None:
    """Other attributes are unchanged, and the span can be encoded."""
    attributes = {"odd": value, "beside": "it"}
    mended = encodable(attributes)

    assert mended == {"odd": kept, "beside": "it"}
    assert measured(attributes)[0] == mended
    span = ReadableSpan("x", context=SpanContext(1, 2, False), attributes=mended)
    [resource_spans] = encode_spans([span]).resource_spans
    [encoded] = resource_spans.scope_spans[0].spans
    assert {attribute.key for attribute in encoded.attributes} == {"odd", "beside"}
    assert span.kind is SpanKind.INTERNAL


def test_an_invalid_name_affects_only_itself() -> None:
    """Names can come from a server's response."""
    attributes: dict[Any, int] = {"a\ud800": 1, "b" * 300: 2, 3: 4}
    mended = encodable(attributes)

    assert mended == {"a?": 1, "b" * 256: 2, "3": 4}
    assert measured(attributes)[0] == mended


def test_none_values_are_omitted() -> None:
    assert encodable({"a": None, "b": 1}) == {"b": 1}
    assert measured({"a": None, "b": 1})[0] == {"b": 1}


def test_captured_content_may_be_longer() -> None:
    """A captured prompt should be complete."""
    content = "m" * (MAX_CONTENT_LENGTH + 1)

    mended = encodable({"gen_ai.input.messages": content, "other": content})

    assert mended == {
        "gen_ai.input.messages": content[:MAX_CONTENT_LENGTH],
        "other": content[:MAX_TEXT_LENGTH],
    }


def _nested(levels: int, *, in_lists: bool = False) -> Any:
    value: Any = "m"
    for _ in range(levels):
        value = [value] if in_lists else {"a": value}
    return value


@pytest.mark.parametrize("in_lists", [False, True])
@pytest.mark.parametrize("levels", [1, 19, 20, 21, 30, 50, DEEPEST])
def test_content_of_any_depth_can_be_encoded(levels: int, *, in_lists: bool) -> None:
    """The encoder refuses a whole message if one value is nested too deeply."""
    value = encodable_data([{"parts": [{"arguments": _nested(levels, in_lists=in_lists)}]}])

    record = LogRecord(attributes={"gen_ai.output.messages": value, "other": 1})
    message = encode_logs([event_record(record, Resource({}))])

    read = ExportLogsServiceRequest.FromString(message.SerializeToString())
    (got,) = read.resource_logs[0].scope_logs[0].log_records
    assert {each.key for each in got.attributes} == {"gen_ai.output.messages", "other"}


def test_deeply_nested_content_becomes_text() -> None:
    """Content that is too deep for Python's JSON encoder is omitted."""
    value = encodable_data(_nested(30))

    for _ in range(20):
        value = value["a"]
    assert json.loads(value) == _nested(10)
    assert "m" not in str(encodable_data(_nested(100_000)))
