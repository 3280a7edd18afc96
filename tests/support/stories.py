"""A trace as indented text: one line per span, under its parent, in order of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from support.otlp import attributes_of


def story(spans: Iterable[Span], *, times: bool = False) -> str:
    """
    Return the spans of a trace as an indented list.

    Args:
        spans: Spans of one trace.
        times: Whether each line starts with the offset from the first span and the duration.
    """
    beneath = _by_parent(spans)
    began = min(span.start_time_unix_nano for span in beneath[b""])
    return "".join(_lines(beneath, b"", 0, began if times else None))


def faults(spans: Iterable[Span]) -> list[str]:
    """
    Return what would mislead a reader: spans that are outside their parent, empty or overlapping.
    """
    beneath = _by_parent(spans)
    found: list[str] = []
    for parent in (each for siblings in beneath.values() for each in siblings):
        name = f"{parent.name} {parent.span_id.hex()}"
        if parent.start_time_unix_nano >= parent.end_time_unix_nano:
            found.append(f"{name} is empty")
        children = beneath.get(parent.span_id, [])
        found += [
            f"{child.name} is not inside {name}"
            for child in children
            if child.start_time_unix_nano < parent.start_time_unix_nano
            or child.end_time_unix_nano > parent.end_time_unix_nano
        ]
        segments = [each for each in children if _is_segment(each)]
        found += [
            f"{before.name} and {after.name} of {name} overlap"
            for before, after in pairwise(segments)
            if before.end_time_unix_nano > after.start_time_unix_nano
        ]
    return found


def _is_segment(span: Span) -> bool:
    """Return whether a span is a segment; a stage may have the same name, and may be nested."""
    said = attributes_of(span.attributes)
    return "latspan.segment" in said and "latspan.kind" not in said


def _by_parent(spans: Iterable[Span]) -> dict[bytes, list[Span]]:
    """Return children by parent in order of time, as web pages show them; roots are under no id."""
    held = {span.span_id: span for span in spans}
    beneath: defaultdict[bytes, list[Span]] = defaultdict(list)
    for span in held.values():
        beneath[span.parent_span_id if span.parent_span_id in held else b""].append(span)
    for siblings in beneath.values():
        siblings.sort(key=lambda span: (span.start_time_unix_nano, -span.end_time_unix_nano))
    return beneath


def _lines(
    beneath: dict[bytes, list[Span]], parent: bytes, depth: int, began: int | None
) -> Iterator[str]:
    for span in beneath.get(parent, ()):
        when = ""
        if began is not None:
            offset_ms = (span.start_time_unix_nano - began) / 1e6
            took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            when = f"{offset_ms:9.1f} ms {took_ms:9.1f} ms  "
        failed = " (failed)" if span.status.code == Status.STATUS_CODE_ERROR else ""
        yield f"{when}{'  ' * depth}{span.name}{failed}\n"
        yield from _lines(beneath, span.span_id, depth + 1, began)
