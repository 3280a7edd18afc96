"""An event stream is recognised by its bytes, and so is its end; events are encoded correctly."""

from __future__ import annotations

import pytest

from latspan._model.wire import ApiFormat, EventReader, encode_comment, encode_event
from latspan._model.wire.anthropic_messages import ANTHROPIC_MESSAGES
from latspan._model.wire.openai_chat import OPENAI_CHAT
from latspan._model.wire.openai_completions import OPENAI_COMPLETIONS
from latspan._model.wire.openai_responses import OPENAI_RESPONSES

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
    known = (ANTHROPIC_MESSAGES, OPENAI_RESPONSES, OPENAI_COMPLETIONS, OPENAI_CHAT)
    return EventReader(known, kept.append), kept


@pytest.mark.parametrize(("opening", "end"), ENDS, ids=["chat", "messages", "responses"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("blank", [True, False], ids=["whole", "without its blank line"])
def test_a_stream_ends_with_its_end_mark(
    opening: bytes, end: bytes, newline: bytes, blank: bool
) -> None:
    """A reader by lines receives the mark before the blank line after it."""
    reader, kept = _reader()
    reader.feed(opening.replace(b"\n", newline))
    assert not reader.ended(kept)
    reader.feed((end + (b"\n" if blank else b"")).replace(b"\n", newline))
    assert reader.ended(kept)


@pytest.mark.parametrize(("opening", "end"), ENDS, ids=["chat", "messages", "responses"])
def test_an_incomplete_end_mark_is_ignored(opening: bytes, end: bytes) -> None:
    """So is an end mark in the text of a model."""
    reader, kept = _reader()
    reader.feed(opening)
    reader.feed(b"data: " + repr(end).replace('"', '\\"').encode() + b"\n\n")
    reader.feed(end[:-3])
    assert not reader.ended(kept)


def test_a_long_event_in_small_pieces_is_joined_once() -> None:
    """Each byte is read a few times at most, whatever the number of pieces."""
    looked_at = 0

    class PayloadPart(bytes):
        def __radd__(self, other: bytes) -> bytes:
            nonlocal looked_at
            looked_at += len(other)
            return bytes(other) + bytes(self)

    kept: list[bytes] = []
    reader = EventReader((OPENAI_CHAT,), kept.append)
    first = b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'
    assert reader.feed(first) == [0]
    for _ in range(1000):
        reader.feed(PayloadPart(b"data: " + b"x" * 64 + b"\n"))
    assert 0 < looked_at <= 3 * 1000


def test_pieces_without_a_line_end_are_not_joined() -> None:
    """A reader by bytes has hundreds of them per event."""

    class PayloadPart(bytes):
        def __radd__(self, other: bytes) -> bytes:
            raise AssertionError

    kept: list[bytes] = []
    reader = EventReader((OPENAI_CHAT,), kept.append)
    event = b'data: {"object":"chat.completion.chunk","choices":[]}'
    for position in range(len(event)):
        assert not reader.feed(PayloadPart(event[position : position + 1]))
    reader.feed(b"\n")
    reader.feed(b"\n")
    assert kept == [event]


LINE = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"x"}}]}'


def _two_line_ends() -> list[bytes]:
    """Return all pairs of line ends; a CR before an LF is one line end with it."""
    one = (b"\n", b"\r\n", b"\r")
    return [first + second for first in one for second in one if first + second != b"\r\n"]


@pytest.mark.parametrize("ends", _two_line_ends())
@pytest.mark.parametrize("step", [1, 2, 3, 5, 1000])
def test_a_blank_line_may_be_split_anywhere(ends: bytes, step: int) -> None:
    """Byte by byte it is the same stream, with any line ends."""
    kept: list[bytes] = []
    reader = EventReader((OPENAI_CHAT,), kept.append)
    text = (LINE + ends) * 3 + b"data: [DONE]" + ends
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    assert [kind for piece in pieces for kind in reader.feed(piece)] == [2, 2, 2]
    assert kept == [LINE] * 3
    assert reader.done


def test_line_ends_may_differ_from_line_to_line() -> None:
    """Also within one read, and after a read that ends in LF."""
    reader, kept = _reader()
    reader.feed(LINE + b"\n\n")
    reader.feed(LINE + b"\r\r" + LINE + b"\r\n\n" + LINE + b"\n\r\n" + LINE + b"\n\n")
    assert kept == [LINE] * 5


def test_a_split_line_end_is_not_a_blank_line() -> None:
    """A read may end between the CR and the LF of one line end."""
    event = b"event: x\r\n" + LINE
    reader, kept = _reader()
    reader.feed(b"event: x\r")
    reader.feed(b"\n" + LINE + b"\r")
    reader.feed(b"\n")
    assert kept == []
    reader.feed(b"\r\n")
    assert kept == [event.replace(b"\r\n", b"\n")]


def test_an_event_is_complete_at_the_cr_of_its_blank_line() -> None:
    """An LF that follows belongs to the same line end and is ignored."""
    reader, kept = _reader()
    assert reader.feed(LINE + b"\r\n\r")
    assert not reader.feed(b"\n")
    assert reader.feed(LINE + b"\r\r")
    assert kept == [LINE] * 2


AZURE = (
    b'data: {"choices":[],"created":0,"id":"","model":"","object":"",'
    b'"prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}\n\n'
)
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
WORD = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
TEXT = b'data: {"choices":[{"index":0,"text":"x"}]}\n\n'


@pytest.mark.parametrize("cut", [True, False], ids=["byte by byte", "whole"])
@pytest.mark.parametrize(
    ("before", "first", "dialect"),
    [
        (AZURE, CHAT, OPENAI_CHAT),
        (PING, MESSAGE, ANTHROPIC_MESSAGES),
        (b'data: {"type":"keepalive"}\n\n', RESPONSE, OPENAI_RESPONSES),
        (b"event: ping\ndata: {}\n\n" * 3, CHAT, OPENAI_CHAT),
        (b"data:\n\ndata: \n\n", CHAT, OPENAI_CHAT),
        (b": no data: yet\n\n", CHAT, OPENAI_CHAT),
        (b"", WORD, OPENAI_CHAT),
        (AZURE, WORD, OPENAI_CHAT),
        (b"", TEXT, OPENAI_COMPLETIONS),
    ],
)
def test_a_stream_is_identified_by_its_first_event_with_content(
    before: bytes, first: bytes, dialect: ApiFormat, *, cut: bool
) -> None:
    """Pings, filter results and empty events may precede it."""
    reader, kept = _reader()
    whole = before + first + WORD
    for piece in [whole[at : at + 1] for at in range(len(whole))] if cut else [before, first, WORD]:
        reader.feed(piece)
    assert reader.api_format is dialect
    assert kept == [first.removesuffix(b"\n\n"), WORD.removesuffix(b"\n\n")]


@pytest.mark.parametrize(
    "before", [b'data: {"progress":1}\n\n', b"data: hello\n\n", b"data: [DONE]\n\n"]
)
def test_a_stream_that_starts_with_other_content_stays_foreign(before: bytes) -> None:
    """Whatever follows, for example an error."""
    reader, kept = _reader()
    for piece in (PING, before, b'data: {"error":{"code":"x"}}\n\n', CHAT):
        reader.feed(piece)
    assert reader.foreign
    assert kept == []


def test_a_stream_of_pings_becomes_foreign() -> None:
    """The search for content is limited."""
    reader, _ = _reader()
    for _ in range(3000):
        reader.feed(PING)
    assert reader.foreign


def test_an_event_is_a_data_line_and_an_empty_line() -> None:
    """The simplest event is the payload alone."""
    assert encode_event("{}") == b"data: {}\n\n"


def test_the_event_type_comes_first() -> None:
    """The type is on its own line before the payload."""
    assert encode_event("{}", event="error") == b"event: error\ndata: {}\n\n"


def test_every_line_of_a_payload_is_a_data_line() -> None:
    """The three line ends of the standard split the payload."""
    assert encode_event("a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"


def test_other_separators_do_not_end_a_line() -> None:
    """Unicode's line separator is ordinary text."""
    assert encode_event("a\u2028b") == "data: a\u2028b\n\n".encode()


def test_a_comment_starts_with_a_colon() -> None:
    """Clients skip lines that start with a colon."""
    assert encode_comment("ping") == b": ping\n\n"


def test_an_event_type_with_a_line_break_is_refused() -> None:
    """A line break in the type could forge fields."""
    with pytest.raises(ValueError, match="one line"):
        encode_event("{}", event="a\ndata: b")
