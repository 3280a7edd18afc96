"""Framings of a stream: how the bytes of a body are split into the events of an API."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

__all__ = ["Framing", "framing_of"]


class Framing(Enum):
    """How a body is split into events."""

    EVENTS = auto()
    """Server-sent events."""
    LINES = auto()
    """One JSON text per line."""
    MESSAGES = auto()
    """Binary messages of Amazon's event stream encoding."""


_BY_MEDIA_TYPE: Final = {
    "text/event-stream": Framing.EVENTS,
    "application/x-ndjson": Framing.LINES,
    "application/ndjson": Framing.LINES,
    "application/vnd.amazon.eventstream": Framing.MESSAGES,
}


def framing_of(content_type: object) -> Framing | None:
    """
    Return the framing of a body, ``None`` if its media type is not that of a stream.

    Args:
        content_type: Value of the header ``Content-Type``; ``None`` if it is missing.
    """
    media_type = str(content_type or "").partition(";")[0]
    return _BY_MEDIA_TYPE.get(media_type.strip().lower())
