"""Child spans of a request's span: of its segments and of its attempts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from opentelemetry.trace import SpanKind

from latspan import semconv
from latspan._base.text import text_of
from latspan._live.otel.spans._encodable import size_of_parts
from latspan._live.otel.spans._span import AttributeValue, ChildSpan
from latspan._model.segments import Segment, SegmentName, Source
from latspan._model.timeline import Attempt

_NEVER_A_SPAN: Final[frozenset[str]] = frozenset(
    {SegmentName.CONSUMER, SegmentName.RETRY, SegmentName.APPLICATION}
)
"""
Segments that are interleaved with others, or whose attempts have spans. They become attributes.
"""

_UNKNOWN: Final = Source.UNKNOWN


def segment_spans(segments: Sequence[Segment], start_epoch_ns: int) -> tuple[ChildSpan, ...]:
    """
    Return a child for each segment that is one interval, not empty, and whose source is known.

    Args:
        segments: Segments of a finished timeline.
        start_epoch_ns: Start of that timeline, Unix nanoseconds.
    """
    spanless = spanless_names(segments)
    children: list[ChildSpan] = []
    for name, start_ns, end_ns, source in segments:
        if start_ns < end_ns and name not in spanless:
            text, attributes, max_bytes = _description_of(name, source)
            children.append(
                ChildSpan(
                    text,
                    start_epoch_ns + start_ns,
                    start_epoch_ns + end_ns,
                    attributes,
                    max_bytes=max_bytes,
                )
            )
    return tuple(children)


class _SegmentDescription(NamedTuple):
    name: str
    attributes: Mapping[str, AttributeValue]
    max_bytes: int


# All calls have the same few segments, so the mappings are shared; they must not be changed.
@functools.lru_cache(maxsize=256)
def _description_of(name: str, source: Source) -> _SegmentDescription:
    text = text_of(name)
    attributes = {semconv.LATSPAN_SEGMENT: text, semconv.LATSPAN_SOURCE: source.value}
    return _SegmentDescription(text, attributes, size_of_parts(text, attributes))


def spanless_names(segments: Sequence[Segment]) -> frozenset[str]:
    """
    Return the names of segments without a span, whose time is an attribute instead.

    They consist of several intervals, are of unknown source, or never have a span.
    """
    names: set[str] = set()
    spanless: set[str] = set()
    for name, _, _, source in segments:
        if source is _UNKNOWN or name in _NEVER_A_SPAN or name in names:
            spanless.add(name)
        names.add(name)
    return frozenset(spanless)


def attempt_spans(
    attempts: Sequence[Attempt], *, method: str, epoch_offset_ns: int, done_ns: int
) -> tuple[ChildSpan, ...]:
    """Return a child for each attempt of a call, if there was more than one."""
    if len(attempts) < 2:
        return ()
    return tuple(
        ChildSpan(
            name=text_of(method),
            start_epoch_ns=attempt.start_ns + epoch_offset_ns,
            end_epoch_ns=(attempt.end_ns or done_ns) + epoch_offset_ns,
            attributes=_attempt_attributes(attempt, resend_count),
            kind=SpanKind.CLIENT,
            failed=attempt.failed,
        )
        for resend_count, attempt in enumerate(attempts)
    )


def _attempt_attributes(attempt: Attempt, resend_count: int) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {}
    if resend_count:
        attributes[semconv.HTTP_REQUEST_RESEND_COUNT] = resend_count
    if attempt.status is not None:
        attributes[semconv.HTTP_RESPONSE_STATUS_CODE] = attempt.status
    if attempt.error_type is not None:
        attributes[semconv.ERROR_TYPE] = text_of(attempt.error_type)
    if attempt.reused is not None:
        attributes[semconv.LATSPAN_CONNECTION_REUSED] = attempt.reused
    return attributes
