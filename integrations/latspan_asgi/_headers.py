"""Headers as the ASGI protocol hands them on: pairs of bytes."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["as_text"]


def as_text(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by name, names in lower case; of two with one name the last."""
    return {
        bytes(name).decode("latin-1").lower(): bytes(value).decode("latin-1")
        for name, value in pairs
    }
