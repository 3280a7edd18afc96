"""Conversion of ASGI headers, which are pairs of bytes."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["as_text"]


def as_text(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; the last one wins if a name occurs twice."""
    return {
        bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
        for name, value in pairs
    }
