"""Finished spans as plain values, so that a test can compare a whole trace at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import count
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import SpanContext, SpanKind

_NS_PER_MS: Final = 1_000_000


class SequentialIds(IdGenerator):
    """Generator of trace ids 1, 2, 3 … and span ids 1, 2, 3 …, in the order of span starts."""

    def __init__(self) -> None:
        self._trace_ids = count(1)
        self._span_ids = count(1)

    def generate_trace_id(self) -> int:
        """Return the next trace id."""
        return next(self._trace_ids)

    def generate_span_id(self) -> int:
        """Return the next span id."""
        return next(self._span_ids)


def spans_as_dict(
    spans: Iterable[ReadableSpan],
    *,
    times: bool = True,
    attributes: Collection[str] | None = None,
) -> list[dict[str, Any]]:
    """
    Return spans as a list of trees: one dictionary per root span, its children inside it.

    A dictionary has ``name``, ``kind`` (``CLIENT``, ``SERVER``, ``INTERNAL`` …), ``start_ms`` and
    ``end_ms`` (milliseconds since the earliest start among ``spans``), and ``attributes``. It also
    has ``status`` if that is not ``UNSET``, ``events`` and ``links`` if there are any, and
    ``children`` if there are any. Spans are ordered by start, then by span id. A span whose parent
    is not among ``spans`` is a root; ``remote_parent`` is the parent's span id if it has one.

    Args:
        spans: Finished spans of any number of traces.
        times: Whether to include ``start_ms`` and ``end_ms``. Leave them out if the test runs on
            the machine's clock.
        attributes: Names of the attributes to include; all of them if not given.
    """
    ordered = sorted(spans, key=lambda span: (span.start_time or 0, _id_of(span.context)))
    known = {_id_of(span.context) for span in ordered}
    origin_ns = min((span.start_time or 0 for span in ordered), default=0)
    children: defaultdict[int, list[ReadableSpan]] = defaultdict(list)
    roots: list[ReadableSpan] = []
    for span in ordered:
        parent = _id_of(span.parent)
        (children[parent] if parent in known else roots).append(span)

    def tree(span: ReadableSpan) -> dict[str, Any]:
        described: dict[str, Any] = {"name": span.name, "kind": SpanKind(span.kind).name}
        if span.parent is not None and _id_of(span.parent) not in known:
            described["remote_parent"] = span.parent.span_id
        if times:
            described["start_ms"] = ((span.start_time or 0) - origin_ns) / _NS_PER_MS
            described["end_ms"] = ((span.end_time or 0) - origin_ns) / _NS_PER_MS
        if not span.status.is_unset:
            described["status"] = span.status.status_code.name
        described["attributes"] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in sorted((span.attributes or {}).items())
            if attributes is None or name in attributes
        }
        if span.events:
            described["events"] = [event.name for event in span.events]
        if span.links:
            described["links"] = [link.context.span_id for link in span.links]
        if children[_id_of(span.context)]:
            described["children"] = [tree(child) for child in children[_id_of(span.context)]]
        return described

    return [tree(root) for root in roots]


def _id_of(context: SpanContext | None) -> int:
    return 0 if context is None else context.span_id
