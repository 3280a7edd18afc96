"""
Spans in OTLP/JSON: lines that the Collector's file exporter writes, one message per line.

A span is kept if a record can follow from it: spans of latspan, and inference spans of the GenAI
conventions. Of every other span only its parent is kept, because an application's span may stand
between a request and its call.

Source: OpenTelemetry, OTLP specification, "JSON Protobuf Encoding": identifiers are hexadecimal,
64-bit integers are decimal strings, enumerations are integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from latspan import semconv
from latspan._units import NS_PER_S
from latspan.errors import RecordingError

__all__ = ["SpanFile", "SpanRow", "read_spans", "seconds_as_ns"]

_SERVER: Final = (2, "SPAN_KIND_SERVER")
_FAILED: Final = (2, "STATUS_CODE_ERROR")
_INFERENCES: Final = frozenset(
    {"chat", "text_completion", "generate_content", "embeddings", "completion"}
)
"""Operations of the conventions that are one call of a model."""

_SCOPE: Final = "latspan"
"""Instrumentation scope of latspan's spans."""

_LONGEST_S: Final = 10.0**9
"""Longest time that an attribute can state, in seconds: 31 years."""

_HINT: Final = (
    "use a file of the Collector's file exporter in JSON, without compression: one message with"
    " resourceSpans per line"
)
_UNREADABLE: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class SpanRow(NamedTuple):
    """
    A span that a record can follow from.

    Args:
        trace_id: ID of its trace.
        span_id: ID of the span.
        name: Its name.
        is_server: Whether its kind is ``SERVER``.
        start_ns: Unix time of its start, in nanoseconds.
        end_ns: Unix time of its end, in nanoseconds.
        failed: Whether its status is an error.
        attributes: Its attributes, without nested ones.
        is_written_by_latspan: Whether its instrumentation scope is latspan's.
    """

    trace_id: int
    span_id: int
    name: str
    is_server: bool
    start_ns: int
    end_ns: int
    failed: bool
    attributes: Mapping[str, Any]
    is_written_by_latspan: bool

    @property
    def is_latspans(self) -> bool:
        """Whether latspan wrote the span, or added its attributes to it."""
        return semconv.LATSPAN_KIND in self.attributes

    @property
    def is_segment(self) -> bool:
        """Whether the span is one segment of the span above it."""
        return semconv.LATSPAN_SEGMENT in self.attributes and not self.is_latspans


@dataclass(slots=True)
class SpanFile:
    """
    Spans of a file.

    Args:
        rows: Spans that a record can follow from.
        parents: Parent of every span, by trace and span; absent for a root.
        others: Number of spans that no record follows from.
        cut_lines: Number of lines that are not complete.
    """

    rows: list[SpanRow] = field(default_factory=list[SpanRow])
    parents: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    others: int = 0
    cut_lines: int = 0


def read_spans(path: Path) -> SpanFile:
    """
    Return the spans of a file.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read.
        RecordingError: The file is not OTLP/JSON.
    """
    spans = SpanFile()
    seen: set[tuple[int, int]] = set()
    for message in _messages(path, spans):
        try:
            for span, is_own in _spans_of(message):
                _add(spans, span, seen, is_own=is_own)
        except _UNREADABLE as error:
            raise RecordingError(
                f"{path} has a span that is not OTLP/JSON: {type(error).__name__}", hint=_HINT
            ) from error
    _break_cycles(spans.parents)
    return spans


def _break_cycles(parents: dict[tuple[int, int], int]) -> None:
    """Make a span a root if following the parents from it leads back to it: the file is damaged."""
    safe: set[tuple[int, int]] = set()
    for start in list(parents):
        passed: dict[tuple[int, int], None] = {}
        span = start
        while span not in safe and span not in passed and span in parents:
            passed[span] = None
            span = span[0], parents[span]
        if span in passed:
            del parents[span]
        safe.update(passed)


def _messages(path: Path, spans: SpanFile) -> Iterator[Mapping[str, Any]]:
    """Yield the messages with spans: one per line, or the file as one document."""
    with path.open("rb") as file:
        first = file.readline()
        if not _is_whole(first):
            # One document of several lines, as other programs write it.
            message = _message(first + file.read())
            if message is None:
                raise RecordingError(f"{path} is not OTLP/JSON", hint=_HINT)
            yield message
            return
        file.seek(0)
        known = False
        for line in file:
            message = _message(line)
            if message is not None:
                known = True
                yield message
            elif line.strip():
                spans.cut_lines += 1
        if not known:
            raise RecordingError(f"{path} has no OTLP/JSON", hint=_HINT)


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _message(text: bytes) -> Mapping[str, Any] | None:
    """Return an OTLP message: with spans, or with metrics or logs, which have none."""
    try:
        message: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    found = cast("dict[str, Any]", message)
    known = {"resourceSpans", "resourceMetrics", "resourceLogs"}
    return found if known & found.keys() else None


def _spans_of(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield each span of a message, and whether latspan wrote it."""
    for resource in message.get("resourceSpans", ()):
        for scope in resource.get("scopeSpans", ()):
            about: Mapping[str, Any] | None = scope.get("scope")
            is_own = about is not None and about.get("name") == _SCOPE
            for span in scope.get("spans", ()):
                yield span, is_own


def _add(
    spans: SpanFile, span: Mapping[str, Any], seen: set[tuple[int, int]], *, is_own: bool
) -> None:
    trace_id, span_id = int(span["traceId"], 16), int(span["spanId"], 16)
    identity = trace_id, span_id
    if identity in seen:
        # A batch that was sent again after its acknowledgement was lost.
        return
    seen.add(identity)
    parent = span.get("parentSpanId")
    if parent:
        spans.parents[identity] = int(parent, 16)
    attributes = _plain(span.get("attributes", ()))
    is_latspans = attributes.keys() & {semconv.LATSPAN_KIND, semconv.LATSPAN_SEGMENT}
    if not is_latspans and str(attributes.get(semconv.GEN_AI_OPERATION_NAME)) not in _INFERENCES:
        spans.others += 1
        return
    start_ns = int(span["startTimeUnixNano"])
    spans.rows.append(
        SpanRow(
            trace_id,
            span_id,
            str(span.get("name", "")),
            span.get("kind") in _SERVER,
            start_ns,
            # A clock that was set back ends a span before its start.
            max(start_ns, int(span["endTimeUnixNano"])),
            span.get("status", {}).get("code") in _FAILED,
            attributes,
            is_own,
        )
    )


def seconds_as_ns(value: object) -> int | None:
    """Return an attribute in seconds as nanoseconds; ``None`` if it cannot be a time."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    return round(value * NS_PER_S) if 0 <= value <= _LONGEST_S else None


def _plain(attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    plain = {each["key"]: _value(each.get("value", {})) for each in attributes}
    return {name: value for name, value in plain.items() if value is not None}


def _value(value: Mapping[str, Any]) -> object:
    """Return an attribute's value; ``None`` for a nested one, which no record has."""
    for form, held in value.items():
        if form in ("stringValue", "boolValue"):
            return held
        if form == "intValue":
            return int(held)
        if form == "doubleValue":
            return float(held)
        if form == "arrayValue":
            return [_value(each) for each in held.get("values", ())]
    return None
