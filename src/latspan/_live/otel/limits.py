"""Attribute limits of a span, as the OpenTelemetry environment variables set them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import SpanLimits


def always_within(limits: SpanLimits) -> float:
    """
    Return the number of attributes up to which no limit can be exceeded, whatever the values are.

    It is infinite if there is no limit, and -1 if even a single attribute may exceed a limit,
    because the length of values is limited.
    """
    if limits.max_span_attribute_length is not None:
        return -1
    return math.inf if limits.max_span_attributes is None else limits.max_span_attributes


def limited(attributes: Mapping[str, Any], limits: SpanLimits) -> Mapping[str, Any]:
    """
    Return a span's attributes cut to the limits, or the same object if they are within them.

    If there are too many attributes, the first ones are dropped, as the SDK does, and their number
    is recorded in the span. Unlike the SDK, this function does not log a warning for each text
    that is cut.

    Source: OpenTelemetry SDK specification, "Attribute Limits".
    """
    return limited_to(attributes, limits.max_span_attributes, limits.max_span_attribute_length)


def limited_to(
    attributes: Mapping[str, Any], max_count: int | None, max_length: int | None
) -> Mapping[str, Any]:
    """
    Return attributes cut to limits, or the same object if they are within them.

    Args:
        attributes: Attributes of a span, an event or a link.
        max_count: Maximum number of attributes; ``None`` for no limit.
        max_length: Maximum number of characters of a text; ``None`` for no limit.
    """
    if max_length is not None:
        attributes = {name: _cut(value, max_length) for name, value in attributes.items()}
    if max_count is None or len(attributes) <= max_count:
        return attributes
    too_many = len(attributes) - max_count
    kept = BoundedAttributes(max_count, dict(islice(attributes.items(), too_many, None)))
    kept.dropped = too_many
    return kept


def _cut(value: Any, max_length: int) -> Any:
    if isinstance(value, str):
        return value[:max_length]
    if isinstance(value, (list, tuple)):
        return tuple(_cut(item, max_length) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value
