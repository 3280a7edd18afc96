"""Whose stream of events it is, and whether it came to its end mark, is told from its bytes."""

from __future__ import annotations

import pytest

from latspan.wire import EventReader
from latspan.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan.wire.openai_chat import OPENAI_CHAT
from latspan.wire.openai_responses import OPENAI_RESPONSES

CHAT = b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'
MESSAGE = b'event: message_start\ndata: {"type":"message_start"}\n\n'
RESPONSE = b'data: {"type":"response.created"}\n\n'

ENDS = [
    (CHAT, b"data: [DONE]\n"),
    (MESSAGE, b'event: message_stop\ndata: {"type":"message_stop"}\n'),
    (RESPONSE, b'data: {"type":"response.completed","response":{}}\n'),
]


def _reader() -> tuple[EventReader, list[bytes]]:
    kept: list[bytes] = []
    known = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_CHAT)
    return EventReader(known, kept.append), kept


@pytest.mark.parametrize(("opening", "end"), ENDS, ids=["chat", "messages", "responses"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("blank", [True, False], ids=["whole", "without its blank line"])
def test_a_stream_has_ended_with_its_end_mark(
    opening: bytes, end: bytes, newline: bytes, blank: bool
) -> None:
    """Whoever reads by lines has it before the blank line behind it."""
    reader, kept = _reader()
    reader.feed(opening.replace(b"\n", newline))
    assert not reader.ended(kept)
    reader.feed((end + (b"\n" if blank else b"")).replace(b"\n", newline))
    assert reader.ended(kept)


@pytest.mark.parametrize(("opening", "end"), ENDS, ids=["chat", "messages", "responses"])
def test_an_end_mark_that_is_not_whole_is_none(opening: bytes, end: bytes) -> None:
    """Nor is one that a model speaks of."""
    reader, kept = _reader()
    reader.feed(opening)
    reader.feed(b"data: " + repr(end).replace('"', '\\"').encode() + b"\n\n")
    reader.feed(end[:-3])
    assert not reader.ended(kept)


def test_a_long_event_that_comes_in_small_pieces_is_joined_once() -> None:
    """Each byte is looked at a few times, however many pieces an event has."""
    looked_at = 0

    class Piece(bytes):
        def __radd__(self, other: bytes) -> bytes:
            nonlocal looked_at
            looked_at += len(other)
            return bytes(other) + bytes(self)

    kept: list[bytes] = []
    reader = EventReader((OPENAI_CHAT,), kept.append)
    first = b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'
    assert reader.feed(first) == 0
    for _ in range(1000):
        reader.feed(Piece(b"data: " if not looked_at else b"x" * 64))
    assert 0 < looked_at <= 3 * 1000


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_blank_line_may_be_cut_anywhere(newline: bytes) -> None:
    """Byte by byte it is the same stream."""
    kept: list[bytes] = []
    reader = EventReader((OPENAI_CHAT,), kept.append)
    line = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}'
    text = (line + newline + newline) * 3 + b"data: [DONE]" + newline + newline
    kinds = [reader.feed(text[at : at + 1]) for at in range(len(text))]
    assert sum(1 for kind in kinds if kind) == 3
    assert kept == [line] * 3
    assert reader.done
