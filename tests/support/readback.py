"""
Functions to read telemetry back from backends: JSON over HTTP, OTLP's JSON, and span contents.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

from support.otlp import Attributes, attributes_of

Data = TypeVar("Data", bound=Message)

_IDS: Final = frozenset({"traceId", "spanId", "parentSpanId"})
_DEADLINE_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Seen:
    """
    The contents of a span.

    Args:
        parent: Parent's id in hexadecimal, empty for a root.
        start_ns: Start in Unix nanoseconds; ``end_ns`` likewise.
        status: Code and message.
        events: Name, Unix nanoseconds and attributes of each event.
        scope: Name and version.
    """

    name: str
    parent: str
    kind: int
    start_ns: int
    end_ns: int
    attributes: Attributes
    status: tuple[int, str]
    events: tuple[tuple[str, int, Attributes], ...]
    scope: str

    @property
    def duration_ns(self) -> int:
        """From its start to its end."""
        return self.end_ns - self.start_ns


def spans_in(traces: TracesData) -> Iterator[Span]:
    """Yield every span, of every sender."""
    for resource in traces.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def by_trace(traces: TracesData) -> dict[str, list[Span]]:
    """Return the spans by trace id."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans_in(traces):
        found[span.trace_id.hex()].append(span)
    return dict(found)


def spans_of(traces: TracesData) -> dict[str, dict[str, Seen]]:
    """Return spans by trace and span, ids in hexadecimal."""
    found: defaultdict[str, dict[str, Seen]] = defaultdict(dict)
    for resource in traces.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                held = found[span.trace_id.hex()]
                assert span.span_id.hex() not in held, "a span came twice"
                held[span.span_id.hex()] = Seen(
                    name=span.name,
                    parent=span.parent_span_id.hex(),
                    kind=span.kind,
                    start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes=attributes_of(span.attributes),
                    status=(span.status.code, span.status.message),
                    events=tuple(
                        (event.name, event.time_unix_nano, attributes_of(event.attributes))
                        for event in span.events
                    ),
                    scope=f"{scope.scope.name} {scope.scope.version}",
                )
    return dict(found)


def get_json(url: str) -> Any:
    """Return the document at a URL; raise ``HTTPError`` unless the response is a success."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_DEADLINE_S) as answer:
        return json.load(answer)


def from_otlp_json(held: Any, message: Data) -> Data:
    """Parse OTLP's JSON, in which ids are hexadecimal and not base64 as in protobuf's JSON."""
    _make_base64(held)
    return ParseDict(held, message)


def _make_base64(held: Any) -> None:
    if isinstance(held, list):
        for each in cast("list[Any]", held):
            _make_base64(each)
    elif isinstance(held, dict):
        fields = cast("dict[str, Any]", held)
        for key, value in fields.items():
            if key in _IDS:
                fields[key] = base64.b64encode(bytes.fromhex(value)).decode()
            else:
                _make_base64(value)
