"""Lines of JSON and binary messages are read from bytes, whatever the reads and the damage."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._model.wire import ApiFormat, Framing, StreamReader, framing_of, open_reader
from latspan._model.wire._stream_reader import MAX_FIRST_BYTES
from latspan._model.wire.bedrock_converse import BEDROCK_CONVERSE
from latspan._model.wire.bedrock_invoke import BEDROCK_INVOKE
from latspan._model.wire.ollama_chat import OLLAMA_CHAT, OLLAMA_GENERATE
from latspan.testing._payloads.bedrock import encode_exception, encode_message

HEAD = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}


def _line(content: str, **more: Any) -> bytes:
    fields = {**HEAD, "message": {"content": content}, "done": False, **more}
    return json.dumps(fields).encode() + b"\n"


LINES = [_line("one "), _line("two\n\n"), _line("", done=True, done_reason="stop")]


def _delta(text: str) -> bytes:
    return encode_message("contentBlockDelta", {"delta": {"text": text}, "p": "abc"})


CONVERSE = [
    encode_message("messageStart", {"role": "assistant"}),
    _delta("one "),
    _delta("two\n\n"),
    encode_message("messageStop", {"stopReason": "end_turn"}),
    encode_message("metadata", {"usage": {"outputTokens": 2}}),
]


def _chunk(**fields: Any) -> bytes:
    return encode_message(
        "chunk", {"bytes": base64.b64encode(json.dumps(fields).encode()).decode()}
    )


INVOKE = [_chunk(outputText="one "), _chunk(outputText="two"), _chunk(completionReason="FINISH")]

STREAMS = {
    "lines": (Framing.LINES, LINES, OLLAMA_CHAT, [2, 2, 0]),
    "converse": (Framing.MESSAGES, CONVERSE, BEDROCK_CONVERSE, [0, 2, 2, 0, 0]),
    "invoke": (Framing.MESSAGES, INVOKE, BEDROCK_INVOKE, [2, 2, 0]),
}
KNOWN = {
    Framing.LINES: (OLLAMA_CHAT, OLLAMA_GENERATE),
    Framing.MESSAGES: (BEDROCK_CONVERSE, BEDROCK_INVOKE),
}

in_every_stream = pytest.mark.parametrize(
    ("framing", "events", "api_format", "kinds"), STREAMS.values(), ids=list(STREAMS)
)


def _reader(framing: Framing) -> tuple[StreamReader, list[bytes]]:
    kept: list[bytes] = []
    return open_reader(framing, KNOWN[framing], kept.append), kept


@in_every_stream
def test_a_stream_is_the_same_however_it_is_split(
    framing: Framing, events: list[bytes], api_format: ApiFormat, kinds: list[int]
) -> None:
    """At every byte, in pieces of every size, and with several events in one read."""
    whole = b"".join(events)
    expected, expected_kept = _reader(framing)
    assert [list(expected.feed(event)) for event in events] == [[kind] for kind in kinds]
    assert expected.api_format is api_format
    for at in range(len(whole) + 1):
        reader, kept = _reader(framing)
        assert [*reader.feed(whole[:at]), *reader.feed(whole[at:])] == kinds
        assert kept == expected_kept
    for size in range(1, 40):
        reader, kept = _reader(framing)
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert [kind for piece in pieces for kind in reader.feed(piece)] == kinds
        assert kept == expected_kept
        assert reader.ended(kept)


@in_every_stream
def test_a_stream_that_breaks_off_has_not_ended(
    framing: Framing, events: list[bytes], api_format: ApiFormat, kinds: list[int]
) -> None:
    """Wherever it breaks off before the event with the finish reason is complete."""
    last = max(at for at, event in enumerate(events) if b"stop" in event or event is events[-1])
    if framing is Framing.MESSAGES and api_format is BEDROCK_CONVERSE:
        # The finish reason comes before the event with the counts.
        last = 3
    whole = b"".join(events[: last + 1])
    for at in range(len(whole) - 1):
        reader, kept = _reader(framing)
        reader.feed(whole[:at])
        assert not reader.ended(kept)
    assert len(kinds) == len(events)


def test_the_last_line_may_lack_its_end() -> None:
    """Also if the caller leaves there; a part of a line is not read."""
    whole = b"".join(LINES)
    reader, kept = _reader(Framing.LINES)
    reader.feed(whole[:-1])
    assert len(kept) == 2
    reader.flush()
    assert len(kept) == 3

    reader, kept = _reader(Framing.LINES)
    reader.feed(whole[:-1])
    assert reader.ended(kept)

    reader, kept = _reader(Framing.LINES)
    reader.feed(LINES[0] + LINES[1].partition(b"}")[0] + b"}")
    reader.flush()
    assert kept == [LINES[0].strip()]


def test_blank_lines_and_crlf_are_skipped() -> None:
    """Some proxies add them as keep-alives."""
    reader, kept = _reader(Framing.LINES)
    reader.feed(b"\n\r\n" + b"\r\n".join(each.strip() for each in LINES) + b"\r\n\n")
    assert kept == [each.strip() for each in LINES]


@pytest.mark.parametrize(
    ("framing", "data"),
    [
        (Framing.LINES, b'{"status":"pulling manifest"}\n' + LINES[0]),
        (Framing.LINES, b"hello\n"),
        (Framing.LINES, b"x" * (MAX_FIRST_BYTES + 1)),
        (Framing.MESSAGES, encode_message("Records", {"a": 1}) + CONVERSE[0]),
        (Framing.MESSAGES, encode_message("chunk", {"bytes": base64.b64encode(b"hi").decode()})),
        (Framing.MESSAGES, encode_message("chunk", {"bytes": "not base64!"})),
        (Framing.MESSAGES, encode_exception("throttlingException", {"message": "no"})),
        (Framing.MESSAGES, b"data: {}\n\ndata: {}\n\n"),
        (Framing.MESSAGES, struct.pack(">II", MAX_FIRST_BYTES + 1, 0) + bytes(16)),
    ],
)
def test_another_stream_is_foreign(framing: Framing, data: bytes) -> None:
    """Its rest is not read."""
    reader, kept = _reader(framing)
    reader.feed(data)
    assert reader.foreign
    assert not reader.feed(CONVERSE[0])
    assert kept == []


@pytest.mark.parametrize(
    "damage",
    [
        struct.pack(">II", 15, 0),
        struct.pack(">II", 0, 0),
        struct.pack(">II", 100, 90),
        struct.pack(">II", 0xFFFFFFFF, 0),
        struct.pack(">II", 40, 0xFFFFFFFF),
    ],
)
def test_an_impossible_length_ends_the_reading(damage: bytes) -> None:
    """What was read before is kept; nothing more is held in memory."""
    reader, kept = _reader(Framing.MESSAGES)
    assert reader.feed(CONVERSE[0] + CONVERSE[1] + damage + bytes(100)) == [0, 2]
    assert (reader.foreign, len(kept)) == (False, 2)
    for _ in range(10):
        assert not reader.feed(CONVERSE[1])
    inside: Any = reader
    assert inside._parts == []
    assert not reader.ended(kept)


def _with_headers(headers: bytes, payload: bytes = b"{}") -> bytes:
    size = 16 + len(headers) + len(payload)
    return struct.pack(">III", size, len(headers), 0) + headers + payload + bytes(4)


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"\x05:ev",
        b"\x0b:event-type\x07\xff\xffabc",
        b"\x0b:event-type\x2a\x00\x01a",
        b"\x0b:event-type\x07",
        b"\x01a\x00" * 2000,
        bytes(5000),
    ],
)
def test_a_message_with_unreadable_headers_is_skipped(headers: bytes) -> None:
    """The next one is read."""
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(CONVERSE[0])
    reader.feed(_with_headers(headers))
    reader.feed(CONVERSE[1])
    assert len([each for each in kept if each.startswith(b'{"content')]) == 1
    assert not reader.foreign


def test_headers_of_every_type_are_passed_over() -> None:
    """Only strings are read; the type of a header determines its size."""
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    others = b"".join(b"\x01x" + bytes([kind]) + b"z" * size for kind, size in sizes.items())
    others += b"\x01y\x06\x00\x03abc"
    name = b"\x0b:event-type\x07\x00\x0cmessageStart"
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(_with_headers(others + name))
    assert kept == [b'{"messageStart":{}}']


def test_an_exception_in_a_stream_keeps_only_its_name() -> None:
    """Its message may contain a part of the prompt."""
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(CONVERSE[0] + encode_exception("modelStreamErrorException", {"message": "secret"}))
    assert kept[1:] == [b'{"error":{"type":"modelStreamErrorException"}}']


def test_a_name_cannot_break_the_text() -> None:
    """It is escaped, as in a JSON string."""
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(CONVERSE[0] + encode_message('a":1,"b', {}) + encode_message("\xff", {}))
    assert [list(json.loads(each)) for each in kept[1:]] == [['a":1,"b'], ["\xff"]]


def test_a_long_message_in_small_pieces_is_joined_once() -> None:
    """Each byte is read a few times at most, whatever the number of pieces."""
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(CONVERSE[0])
    whole = _delta("x" * 100_000)
    reader.feed(whole[:12])
    pieces = [whole[at : at + 10] for at in range(12, len(whole), 10)]
    for piece in pieces[:-1]:
        assert not reader.feed(piece)
    # The pieces are still apart; a join would have left one.
    inside: Any = reader
    assert len(inside._parts) == len(pieces)
    assert reader.feed(pieces[-1]) == [2]
    assert len(kept) == 2


@given(data=st.binary(max_size=400), cut=st.integers(0, 400), known=st.booleans())
def test_no_bytes_make_a_reader_raise(data: bytes, cut: int, *, known: bool) -> None:
    """Neither before the stream is identified nor after it."""
    for framing, opening in ((Framing.LINES, LINES[0]), (Framing.MESSAGES, CONVERSE[0])):
        reader, kept = _reader(framing)
        if known:
            reader.feed(opening)
        reader.feed(data[:cut])
        reader.feed(data[cut:])
        reader.flush()
        reader.ended(kept)


@given(position=st.integers(0, len(b"".join(CONVERSE)) - 1), value=st.integers(0, 255))
def test_no_changed_byte_makes_a_reader_raise(position: int, value: int) -> None:
    """The checksums are not verified, so a changed byte may be anywhere."""
    whole = bytearray(b"".join(CONVERSE))
    whole[position] = value
    reader, kept = _reader(Framing.MESSAGES)
    reader.feed(bytes(whole))
    reader.ended(kept)
    for each in kept:
        BEDROCK_CONVERSE.to_mapping(each)


@pytest.mark.parametrize(
    ("content_type", "framing"),
    [
        ("text/event-stream", Framing.EVENTS),
        ("Text/Event-Stream; charset=utf-8", Framing.EVENTS),
        ("application/x-ndjson", Framing.LINES),
        (" application/X-NDJSON ;charset=utf-8", Framing.LINES),
        ("application/vnd.amazon.eventstream", Framing.MESSAGES),
        ("application/json", None),
        ("", None),
        (None, None),
    ],
)
def test_the_media_type_determines_the_framing(
    content_type: str | None, framing: Framing | None
) -> None:
    """In any case, and with any parameters (RFC 9110, 8.3.1)."""
    assert framing_of(content_type) is framing
