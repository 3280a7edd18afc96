"""The limits of OpenTelemetry's variables on the attributes of a span."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import SpanLimits

__all__ = ["always_within", "limited"]


def always_within(limits: SpanLimits) -> float:
    """Return how many attributes are within the limits whatever they are; -1 for none."""
    if limits.max_span_attribute_length is not None:
        return -1
    return math.inf if limits.max_span_attributes is None else limits.max_span_attributes


def limited(attributes: Mapping[str, Any], limits: SpanLimits) -> Mapping[str, Any]:
    """
    Return attributes as the limits have them; the very same where they are within.

    Where they are too many the first go, as the SDK has it, and the span says how many. The SDK
    logs a warning for each text that is cut, which this does not.

    Source: OpenTelemetry SDK specification, "Attribute Limits".
    """
    most, longest = limits.max_span_attributes, limits.max_span_attribute_length
    if longest is not None:
        attributes = {name: _cut(value, longest) for name, value in attributes.items()}
    if most is None or len(attributes) <= most:
        return attributes
    too_many = len(attributes) - most
    kept = BoundedAttributes(most, dict(islice(attributes.items(), too_many, None)))
    kept.dropped = too_many
    return kept


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str):
        return value[:longest]
    if isinstance(value, (list, tuple)):
        return tuple(_cut(item, longest) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return value
