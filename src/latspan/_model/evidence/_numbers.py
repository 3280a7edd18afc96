"""Numbers in a response, in which a server may send values of any type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from latspan._model.units import NS_PER, TimeUnit
from latspan._model.wire import ResponseMetadata, as_number, get_path

_IMPOSSIBLE_NS: Final = -1
"""Value for an impossible duration; the check against the client's own times rejects it."""
_LARGE: Final = 2**53
"""Limit up to which a float represents every integer."""
_MAX_NAME_LENGTH: Final = 32
"""Maximum length of a field's name, in characters."""
_MAX_FIELDS: Final = 32
"""Maximum number of fields kept per report; they become attributes of a span."""


def number(value: object) -> float | None:
    """
    Return a number as a float, and ``None`` for any other value; text and booleans do not count.

    The result may be infinite or NaN (IEEE 754). A server that sends such a value did report
    something, and a later check rejects it.
    """
    if type(value) is float:
        return value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def ns(value: object, unit: TimeUnit) -> int | None:
    """Return a duration in nanoseconds; negative if impossible, ``None`` if not a number."""
    (duration_ns,) = each_ns(unit, value)
    return duration_ns


def each_ns(unit: TimeUnit, *values: object) -> list[int | None]:
    """Return durations in nanoseconds, each as :func:`ns` does."""
    factor = NS_PER[unit]
    durations: list[int | None] = []
    for value in values:
        numeric = value if isinstance(value, float) else number(value)
        try:
            durations.append(None if numeric is None else round(numeric * factor))
        except (OverflowError, ValueError):
            durations.append(_IMPOSSIBLE_NS)
    return durations


def numbers_in(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the fields that hold finite numbers; at most 32, more than real servers send."""
    found: dict[str, float] = {}
    for name, value in fields.items():
        # Nearly all values are numbers, and a function call per value takes most of the time.
        if value.__class__ is float:
            numeric = value
        elif value.__class__ is int and -_LARGE < value < _LARGE:
            numeric = float(value)
        else:
            numeric = number(value)
        if numeric is not None and math.isfinite(numeric) and len(name) <= _MAX_NAME_LENGTH:
            found[name] = numeric
            if len(found) == _MAX_FIELDS:
                break
    return found


def in_body(response: ResponseMetadata, *path: str) -> Mapping[str, Any] | None:
    """Return the last mapping at ``path`` in the bodies of a response."""
    first, *inner = path
    for body in reversed(response.bodies):
        value = body.get(first)
        if inner and value is not None:
            value = get_path(value, *inner)
        # `isinstance` with an abstract class takes ten times as long.
        if isinstance(value, dict) or (value is not None and isinstance(value, Mapping)):
            return cast("Mapping[str, Any]", value)
    return None


def in_header(response: ResponseMetadata, name: str) -> float | None:
    """
    Return the number in a header, ``None`` if the header is missing or is not a number.

    Args:
        response: Response with the header.
        name: Name of the header, in lower case.
    """
    value = response.headers.get(name)
    return None if value is None else as_number(value)


def in_head(response: ResponseMetadata, length_ns: int | None) -> tuple[int | None, int | None]:
    """
    Return a header's duration as the time to the head, or as the time of the whole response.

    The other of the two is ``None``. The head of a stream is sent before the stream's content, and
    the head of any other response together with its content.
    """
    return (length_ns, None) if response.streamed else (None, length_ns)
