"""Maximum encoded size of names and attributes in bytes, computed without encoding them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "ATTRIBUTE_BYTES",
    "NUMBER_BYTES",
    "SPAN_BYTES",
    "size_of_attributes",
    "size_of_parts",
    "size_of_text",
]

ATTRIBUTE_BYTES: Final = 16
"""Size of the tags and lengths of one attribute."""

NUMBER_BYTES: Final = 12
_NUMBERS: Final = frozenset({bool, int, float})

SPAN_BYTES: Final = 160
"""Size of the identities, times, kind, flags and status of a span."""


def size_of_text(value: object) -> int:
    """Return the number of bytes that ``value`` takes as text."""
    text = value if isinstance(value, str) else str(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return the maximum number of bytes that attributes take when encoded."""
    # This runs on the caller's thread for an application's spans: no call per attribute.
    size = ATTRIBUTE_BYTES * len(attributes)
    for name, value in attributes.items():
        size += len(name) if name.isascii() else size_of_text(name)
        kind = value.__class__
        if kind in _NUMBERS:
            # Formatting the number would take longer than all the rest.
            size += NUMBER_BYTES
        elif kind is str and value.isascii():
            size += len(value)
        else:
            size += size_of_text(value)
    return size


def size_of_parts(name: str, attributes: Mapping[str, Any]) -> int:
    """Return the maximum encoded size of a span in bytes, for a name and attributes alone."""
    return SPAN_BYTES + size_of_text(name) + size_of_attributes(attributes)
