"""What in an answer is a number: anything may stand there, and from anybody."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, cast

from latspan._units import TimeUnit, from_unit
from latspan._wire import Answer, as_number, at

__all__ = ["in_body", "in_head", "in_header", "ns", "number", "numbers_in"]

_IMPOSSIBLE_NS: Final = -1
"""What no time can be; what is held against the client's own times rejects it."""
_LONGEST: Final = 32
"""Characters of a field's name."""
_MOST: Final = 32
"""Fields of one report that are kept: they become attributes of a span."""


def number(value: object) -> float | None:
    """
    Return a number as one, anything else as nothing; text and truth are no numbers.

    It may be infinite, or not a number in the sense of IEEE 754: a server that says so has said
    something, and it is not to be believed.
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
    """Return a duration in nanoseconds; negative where it cannot be, ``None`` if no number."""
    said = number(value)
    if said is None:
        return None
    try:
        return from_unit(said, unit)
    except (OverflowError, ValueError):
        return _IMPOSSIBLE_NS


def numbers_in(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the fields that hold finite numbers, as many as a server in earnest has."""
    found: dict[str, float] = {}
    for name, value in fields.items():
        # Nearly all are such numbers, and a call for each is what takes time.
        said = value if value.__class__ is float else number(value)
        if said is not None and math.isfinite(said) and len(name) <= _LONGEST:
            found[name] = said
            if len(found) == _MOST:
                break
    return found


def in_body(answer: Answer, *path: str) -> Mapping[str, Any] | None:
    """Return the last mapping that stands at ``path`` in a body of the answer's."""
    first = path[0]
    for body in reversed(answer.bodies):
        # Most answers are of one source or of none, and every source is asked about each.
        value = at(body, *path) if first in body else None
        # Asking an abstract class takes ten times as long.
        if isinstance(value, dict) or (value is not None and isinstance(value, Mapping)):
            return cast("Mapping[str, Any]", value)
    return None


def in_header(answer: Answer, name: str) -> float | None:
    """
    Return the number that a header is, ``None`` where it is anything else.

    Args:
        answer: Whose headers.
        name: In lower case.
    """
    value = answer.headers.get(name)
    return None if value is None else as_number(value)


def in_head(answer: Answer, length_ns: int | None) -> tuple[int | None, int | None]:
    """
    Return what a time in a header is the time of: the head, and all of the answer.

    The head of a stream left before the stream did, that of an answer in one piece with it.
    """
    return (length_ns, None) if answer.streamed else (None, length_ns)
