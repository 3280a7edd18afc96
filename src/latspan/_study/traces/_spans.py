"""
Spans in OTLP/JSON: lines of the Collector's file exporter, or the answer of a backend.

A span is kept if a record can follow from it: spans of latspan, and inference spans of other
instrumentations. Of every other span only its parent and its route are kept, because an
application's span may stand between a request and its call.

Source: OpenTelemetry, OTLP specification, "JSON Protobuf Encoding": identifiers are hexadecimal,
64-bit integers are decimal strings, enumerations are integers. Tempo answers in the JSON of
Protocol Buffers instead, where identifiers are in base64 and enumerations are names.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from latspan import semconv
from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._model.recording.folder._checks import MAX_NUMBER
from latspan._model.text import count
from latspan._study.traces._dialects import Dialect, Event, inference_of, is_arrival
from latspan.errors import RecordingError

_SERVER: Final = (2, "SPAN_KIND_SERVER")
_FAILED: Final = (2, "STATUS_CODE_ERROR")
_SERVICE_NAME: Final = "service.name"
_HTTP_ROUTE: Final = "http.route"
_EMPTY: Final[Mapping[str, Any]] = {}

_SCOPE: Final = "latspan"
"""Instrumentation scope of latspan's spans."""

_MAX_S: Final = 10.0**9
"""Longest time that an attribute can state, in seconds: 31 years."""

_MAX_DURATION_NS: Final = 30 * 24 * 3600 * NS_PER_S
"""Longest duration that is believed: 30 days. Longer ones come from a wrong start or end."""

_FIRSTS: Final = (
    semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
    f"{semconv.GEN_AI_LATENCY_PREFIX}time_to_first_token",
)
"""Attributes of other instrumentations with the time from the start to the first chunk or token."""

EXCESS_NS: Final = 5 * NS_PER_MS
EXCESS_SHARE: Final = 100
"""
A time to the first chunk may exceed its span by 5 ms, or by 1 % if that is more: two clocks'
readings. See :mod:`latspan._model.timeline._reconcile`, which allows a report the same.
"""

_HINT: Final = (
    "use a file of the Collector's file exporter in JSON, without compression: one message with"
    " resourceSpans per line"
)
UNREADABLE: Final = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions of a file that is damaged, or has another form than it should."""


class SpanFault(Enum):
    """
    Why the time of a span is not known, or a time inside it; the value is a text for one and many.

    A span whose time is not known has no place among the others, so no record follows from it.
    """

    NO_START = ("its start is missing", "their start is missing")
    NO_END = ("its end is missing", "their end is missing")
    OUT_OF_RANGE = ("its start or end is out of range", "their start or end is out of range")
    ENDS_BEFORE_START = ("its end is before its start", "their end is before their start")
    TOO_LONG = ("it takes more than 30 days", "they take more than 30 days")

    def sentence(self, number: int, noun: str) -> str:
        """Return how many were left out and why, without a period."""
        one, many = self.value
        was = f"was left out: {one}" if number == 1 else f"were left out: {many}"
        return f"{count(number, noun)} {was}"


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
        attributes: Its attributes, without nested ones, under the names of the conventions.
        service: Name of the service that it is of, empty if unknown.
        dialect: Instrumentation that wrote it.
        chunks_ns: Unix times of the arrival of chunks, in nanoseconds, if it has them.
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
    service: str = ""
    dialect: Dialect = Dialect.LATSPAN
    chunks_ns: tuple[int, ...] = ()
    is_written_by_latspan: bool = False

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
        routes: Route of each span that serves an HTTP request, by trace and span.
        others: Number of spans that no record follows from.
        cut_lines: Number of lines that are not complete.
        damaged: Number of spans that are not as OTLP specifies.
        faults: Number of spans that no record follows from because their time is not known.
        chunks_outside: Number of spans with a chunk that arrived outside their own time, so that
            the arrival of all of their chunks is unknown.
        late_first: Number of spans with a time to the first chunk or token that is longer than the
            span, and so is not known.
    """

    rows: list[SpanRow] = field(default_factory=list[SpanRow])
    parents: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    routes: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    others: int = 0
    cut_lines: int = 0
    damaged: int = 0
    faults: Counter[SpanFault] = field(default_factory=Counter[SpanFault])
    chunks_outside: int = 0
    late_first: int = 0


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
    _fill(spans, _messages(path, spans), str(path), _HINT)
    return spans


def spans_of(messages: Iterable[Mapping[str, Any]], origin: str, *, hint: str) -> SpanFile:
    """
    Return the spans of some messages.

    Args:
        messages: OTLP messages with ``resourceSpans``, as JSON.
        origin: Name of the backend that they come from, for an error.
        hint: How to mend an error.

    Raises:
        RecordingError: A message is not OTLP/JSON.
    """
    spans = SpanFile()
    _fill(spans, messages, origin, hint)
    return spans


def _fill(spans: SpanFile, messages: Iterable[Mapping[str, Any]], origin: str, hint: str) -> None:
    seen: set[tuple[int, int]] = set()
    for message in messages:
        try:
            for span, service, is_own in _spans_of(message):
                # One bad span among many costs no more than itself.
                try:
                    _add(spans, span, service, seen, is_own=is_own)
                except UNREADABLE:
                    spans.damaged += 1
        except UNREADABLE:
            spans.damaged += 1
    if spans.damaged and not seen:
        raise RecordingError(f"{origin} has no span that is OTLP/JSON", hint=hint)
    _break_cycles(spans.parents)


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


def _spans_of(message: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    """Yield each span with the name of its service, and whether latspan wrote it."""
    for resource in message.get("resourceSpans") or ():
        about = _plain((resource.get("resource") or _EMPTY).get("attributes") or ())
        service = str(about.get(_SERVICE_NAME, ""))
        for scope in resource.get("scopeSpans") or ():
            is_own = (scope.get("scope") or _EMPTY).get("name") == _SCOPE
            for span in scope.get("spans") or ():
                yield span, service, is_own


def _add(
    spans: SpanFile,
    span: Mapping[str, Any],
    service: str,
    seen: set[tuple[int, int]],
    *,
    is_own: bool,
) -> None:
    trace_id, span_id = _id(span["traceId"], 16), _id(span["spanId"], 8)
    identity = trace_id, span_id
    if identity in seen:
        # A batch that was sent again after its acknowledgement was lost.
        return
    parent = span.get("parentSpanId")
    parent_id = _id(parent, 8) if parent else None
    attributes = _plain(span.get("attributes") or ())
    is_server = span.get("kind") in _SERVER
    fault = fault_of(span.get("startTimeUnixNano"), span.get("endTimeUnixNano"))
    start_ns, end_ns = _known_span(span, fault)
    events = _events(span)
    seen.add(identity)
    if parent_id is not None:
        spans.parents[identity] = parent_id
    if is_server and _HTTP_ROUTE in attributes:
        spans.routes[identity] = str(attributes[_HTTP_ROUTE])
    dialect, chunks_ns = Dialect.LATSPAN, ()
    outside = False
    if not attributes.keys() & {semconv.LATSPAN_KIND, semconv.LATSPAN_SEGMENT}:
        arrivals = [event for event in events if is_arrival(event)]
        if fault is None and not all(start_ns <= event.at_ns <= end_ns for event in arrivals):
            outside = True
            events = [event for event in events if event not in arrivals]
        inference = inference_of(attributes, events, start_ns)
        if inference is None:
            spans.others += 1
            return
        dialect, attributes, chunks_ns = inference
    if fault is not None:
        spans.faults[fault] += 1
        return
    spans.chunks_outside += outside
    if dialect is not Dialect.LATSPAN:
        possible = _without_late_first(attributes, end_ns - start_ns)
        spans.late_first += len(possible) < len(attributes)
        attributes = possible
    spans.rows.append(
        SpanRow(
            trace_id,
            span_id,
            str(span.get("name", "")),
            is_server,
            start_ns,
            end_ns,
            (span.get("status") or _EMPTY).get("code") in _FAILED,
            attributes,
            service,
            dialect,
            chunks_ns,
            is_own,
        )
    )


def _id(text: str, size: int) -> int:
    """Return an identifier of ``size`` bytes, in hexadecimal or in base64."""
    if len(text) == -(-size // 3) * 4:
        return int.from_bytes(base64.b64decode(text, validate=True))
    return int(text, 16)


def checked_ns(value: str | int) -> int:
    """
    Return a Unix time in nanoseconds.

    Raises:
        ValueError: It is before 1970, or later than a recording can hold: in the year 2116.
    """
    time_ns = int(value)
    if not 0 <= time_ns <= MAX_NUMBER:
        raise ValueError("the time is out of range")
    return time_ns


def _without_late_first(attributes: Mapping[str, Any], duration_ns: int) -> Mapping[str, Any]:
    longest_ns = duration_ns + max(EXCESS_NS, duration_ns // EXCESS_SHARE)
    late = [
        name
        for name in _FIRSTS
        if (first_ns := seconds_as_ns(attributes.get(name))) is not None and first_ns > longest_ns
    ]
    return {name: value for name, value in attributes.items() if name not in late}


def fault_of(start: object, end: object) -> SpanFault | None:
    """
    Return why the time of a span is not known; ``None`` if it is.

    Args:
        start: Unix time of its start in nanoseconds, as it is written; 0 and ``None`` are unknown.
        end: Unix time of its end.
    """
    if _is_missing(start):
        return SpanFault.NO_START
    if _is_missing(end):
        return SpanFault.NO_END
    try:
        start_ns, end_ns = checked_ns(cast("str", start)), checked_ns(cast("str", end))
    except (ValueError, TypeError, OverflowError):
        return SpanFault.OUT_OF_RANGE
    if end_ns < start_ns:
        return SpanFault.ENDS_BEFORE_START
    return SpanFault.TOO_LONG if end_ns - start_ns > _MAX_DURATION_NS else None


def _is_missing(time: object) -> bool:
    # Protocol Buffers write an unset time as 0, or leave it out.
    return time is None or (isinstance(time, str) and time.strip("0 ") == "") or time == 0


def _known_span(span: Mapping[str, Any], fault: SpanFault | None) -> tuple[int, int]:
    if fault is not None:
        return 0, 0
    return checked_ns(span["startTimeUnixNano"]), checked_ns(span["endTimeUnixNano"])


def _events(span: Mapping[str, Any]) -> list[Event]:
    return [
        Event(
            str(event.get("name", "")),
            _event_ns(event.get("timeUnixNano", 0)),
            _plain(event.get("attributes") or ()),
        )
        for event in span.get("events") or ()
    ]


def _event_ns(value: str | int) -> int:
    """Return the Unix time of an event in nanoseconds; 0, which is before any span, if unknown."""
    try:
        return checked_ns(value)
    except (ValueError, TypeError, OverflowError):
        return 0


def seconds_as_ns(value: object) -> int | None:
    """Return an attribute in seconds as nanoseconds; ``None`` if it cannot be a time."""
    if isinstance(value, bool) or not isinstance(value, float | int):
        return None
    return round(value * NS_PER_S) if 0 <= value <= _MAX_S else None


def _plain(attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    plain = {
        each["key"]: _value(each.get("value", {}))
        for each in attributes
        # Every reader expects a text; another name is not one of OpenTelemetry's.
        if isinstance(each["key"], str)
    }
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
            return [_value(each) for each in held.get("values") or ()]
    return None
