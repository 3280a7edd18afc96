"""How many bytes names and attributes take on the wire, at most, without encoding them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = [
    "ATTRIBUTE_BYTES",
    "NUMBER_BYTES",
    "size_of_attributes",
    "size_of_parts",
    "size_of_text",
]

ATTRIBUTE_BYTES: Final = 16
"""Tags and lengths of one attribute."""

NUMBER_BYTES: Final = 12
_NUMBERS: Final = frozenset({bool, int, float})

_SPAN_BYTES: Final = 160
"""Identities, times, kind, flags and status of a span."""


def size_of_text(value: object) -> int:
    """Return how many bytes ``value`` takes as text."""
    text = value if isinstance(value, str) else str(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return how many bytes attributes take at most when encoded."""
    # Done on the caller's thread for an application's spans: without a call for each of them.
    size = ATTRIBUTE_BYTES * len(attributes)
    for name, value in attributes.items():
        size += len(name) if name.isascii() else size_of_text(name)
        kind = value.__class__
        if kind in _NUMBERS:
            # To write it out would take longer than all the rest.
            size += NUMBER_BYTES
        elif kind is str and value.isascii():
            size += len(value)
        else:
            size += size_of_text(value)
    return size


def size_of_parts(name: str, attributes: Mapping[str, Any]) -> int:
    """Return how many bytes a span takes at most when encoded, of a name and attributes alone."""
    return _SPAN_BYTES + size_of_text(name) + size_of_attributes(attributes)
