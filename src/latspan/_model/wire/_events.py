"""
Server-sent events: an incremental reader from bytes, and the encoder of a streaming model server.

Reads may split the stream at any byte. The reader starts without knowing the API: it skips events
of a preamble until one event identifies the stream. From then on it classifies each complete event
with the functions of that API. If no known API matches, the stream is marked as foreign, and all
later input is ignored.

Source: WHATWG HTML, "Server-sent events", section 9.2.5 (parsing an event stream).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from latspan._model.wire._api_format import ApiFormat
from latspan._model.wire._stream_reader import MAX_PREAMBLE_BYTES, NO_EVENTS, StreamReader

DONE: Final = b"data: [DONE]\n\n"
"""The end mark of an OpenAI-style stream."""

# Integers, because searching for one takes a third of the time of a one-byte string.
_LF: Final = 0x0A
_CR: Final = 0x0D

_HAS_DATA: Final = re.compile(rb"^data:[ \t]*[^ \t\r\n]", re.MULTILINE)
"""Matches an event that has data. Anchored to a line, because a comment may contain the word."""

_PREAMBLE: Final = re.compile(
    rb'(?:^event:[ \t]*|"type"\s*:\s*")(?:ping|keep-?alive|heartbeat)\b|"choices"\s*:\s*\[\s*\]',
    re.MULTILINE,
)
"""
Matches the events that may precede the one that identifies a stream: keep-alives, and a chunk
without choices, in which Azure OpenAI sends the results of its prompt filter.
"""


class EventReader(StreamReader):
    """
    Reader of one stream of server-sent events; the first event with content identifies the API.

    An event counts once the blank line after it has arrived, as it does for a parsing client. Each
    line may end in LF, CRLF or CR: a CR ends a line even if no LF follows.

    Args:
        known: The API formats to match the stream against.
        keep: Receives each event that has data, with lines that end in LF and without the blank
            line. It does not receive ``[DONE]``.

    Source: WHATWG HTML, "Server-sent events", sections 9.2.5 (parsing an event stream) and 9.2.6
    (interpreting an event stream).
    """

    __slots__ = ("_cut", "_skipped")

    def __init__(self, known: Sequence[ApiFormat], keep: Callable[[bytes], object]) -> None:
        super().__init__(known, keep)
        self._skipped = 0
        # True if the last byte was a CR: an LF that follows belongs to the same line end.
        self._cut = False

    def feed(self, data: bytes) -> Sequence[int]:
        """Return the chunk kinds of the events that ``data`` completes, in order."""
        if self.foreign:
            return NO_EVENTS
        kind_of = self._kind_of
        if kind_of is not None and data[-3:] == b"}\n\n" and not self._parts:
            event = data[:-2]
            # Fast path for the common read: one complete event with one JSON object.
            if event[:5] == b"data:" and _LF not in event and _CR not in event:
                self._keep(event)
                return (kind_of(event),)
        if self._cut or _CR in data:
            data = self._with_plain_line_ends(data)
            if not data:
                return NO_EVENTS
        # A blank line may be split between reads, so the last byte before `data` is included. Most
        # reads contain no line end, and then the join is skipped.
        joint = b"".join(self._parts[-1:])[-1:] + data if _LF in data else b""
        self._parts.append(data)
        self._length += len(data)
        if b"\n\n" not in joint:
            self._give_up_if_too_long()
            return NO_EVENTS
        whole, _, rest = b"".join(self._parts).rpartition(b"\n\n")
        self._parts, self._length = ([rest] if rest else []), len(rest)
        kinds: list[int] = []
        for event in whole.split(b"\n\n"):
            if not _HAS_DATA.search(event):
                continue
            kind_of = self._kind_of or self._detect_format(event)
            if kind_of is None:
                if self.foreign:
                    return NO_EVENTS
                continue
            if event.endswith(b"[DONE]") and event.partition(b"data:")[2].strip() == b"[DONE]":
                self.done = True
                continue
            self._keep(event)
            kinds.append(kind_of(event))
        return kinds

    def ended(self, kept: Iterable[bytes]) -> bool:
        """Return whether the stream reached its end mark, see :meth:`StreamReader.ended`."""
        if self._parts and self._parts[-1].endswith(b"\n"):
            # An application that reads by lines may stop before the last blank line.
            self._cut = False
            self.feed(b"\n")
        return super().ended(kept)

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        """Return ``data`` with every line end as LF, including a CRLF split between two reads."""
        if self._cut and data[:1] == b"\n":
            data = data[1:]
            if not data:
                self._cut = False
                return data
        self._cut = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _detect_format(self, event: bytes) -> Callable[[bytes], int] | None:
        kind_of = self._matching(event)
        if kind_of is None:
            self._skipped += len(event)
            if self._skipped > MAX_PREAMBLE_BYTES or not _PREAMBLE.search(event):
                self._give_up()
        return kind_of


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
