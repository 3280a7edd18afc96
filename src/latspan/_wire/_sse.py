"""
Encoder of server-sent events, the frames that a streaming model server writes.

Source: WHATWG HTML, "Server-sent events", section 9.2.5 (parsing an event stream).
"""

from __future__ import annotations

from typing import Final

__all__ = ["DONE", "encode_comment", "encode_event"]

DONE: Final = b"data: [DONE]\n\n"
"""The end mark of an OpenAI-style stream."""


def encode_event(data: str, *, event: str | None = None) -> bytes:
    """
    Return one event as bytes in wire format.

    Args:
        data: The payload; each of its lines becomes a separate ``data:`` line.
        event: The event's type, without line breaks; ``None`` keeps the default, ``message``.

    Raises:
        ValueError: ``event`` contains a line break, which would end the field.
    """
    lines = [f"data: {line}" for line in _lines(data)]
    if event is not None:
        if len(_lines(event)) > 1:
            raise ValueError(f"an event's type is one line, not {event!r}")
        lines.insert(0, f"event: {event}")
    return _frame(lines)


def encode_comment(text: str) -> bytes:
    """Return ``text`` as comment lines, which clients skip; servers use them as keep-alives."""
    return _frame([f": {line}" for line in _lines(text)])


def _lines(text: str) -> list[str]:
    # Not splitlines(): only CR, LF and CRLF end a line of an event stream.
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _frame(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n\n").encode()
