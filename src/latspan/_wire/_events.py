"""
Incremental reader of server-sent events from bytes.

Reads may split the stream at any byte. The reader starts without knowing the API: it skips events
of a preamble until one event identifies the stream. From then on it classifies each complete event
with the functions of that API. If no known API matches, the stream is marked as foreign, and all
later input is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from latspan._wire._api_format import ApiFormat
from latspan._wire._chunk import ChunkKind

__all__ = ["EventReader"]

_EMPTY: Final = int(ChunkKind.EMPTY)

_LONGEST_EVENT: Final = 1 << 26
"""Maximum size of one event in bytes. Past it, the rest of the stream is ignored."""

_LONGEST_PREAMBLE: Final = 1 << 16
"""Number of bytes after which a stream that is still unidentified is treated as foreign."""

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


class EventReader:
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

    __slots__ = (
        "_cut",
        "_keep",
        "_kind_of",
        "_known",
        "_length",
        "_parts",
        "_skipped",
        "api_format",
        "done",
        "foreign",
    )

    def __init__(self, known: Sequence[ApiFormat], keep: Callable[[bytes], object]) -> None:
        self._known = known
        self._keep = keep
        # The received parts of an incomplete event. They are joined only once the event is
        # complete, because a long event may arrive in many small reads.
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped = 0
        # True if the last byte was a CR: an LF that follows belongs to the same line end.
        self._cut = False
        self.done = False
        """``True`` once the end mark has arrived."""
        self._kind_of: Callable[[bytes], int] | None = None
        self.api_format: ApiFormat | None = None
        """Format of the stream's API; ``None`` until an event identifies it."""
        self.foreign = False
        """``True`` if the stream belongs to none of the known APIs; further input is ignored."""

    def feed(self, data: bytes) -> int:
        """Return the highest chunk kind of the events completed by ``data``, as a plain integer."""
        if self.foreign:
            return _EMPTY
        kind_of = self._kind_of
        if kind_of is not None and data[-3:] == b"}\n\n" and not self._parts:
            event = data[:-2]
            # Fast path for the common read: one complete event with one JSON object.
            if event[:5] == b"data:" and _LF not in event and _CR not in event:
                self._keep(event)
                return kind_of(event)
        if self._cut or _CR in data:
            data = self._with_plain_line_ends(data)
            if not data:
                return _EMPTY
        # A blank line may be split between reads, so the last byte before `data` is included. Most
        # reads contain no line end, and then the join is skipped.
        joint = b"".join(self._parts[-1:])[-1:] + data if _LF in data else b""
        self._parts.append(data)
        self._length += len(data)
        if b"\n\n" not in joint:
            if self._length > (_LONGEST_PREAMBLE if self.api_format is None else _LONGEST_EVENT):
                self._give_up()
            return _EMPTY
        whole, _, rest = b"".join(self._parts).rpartition(b"\n\n")
        self._parts, self._length = ([rest] if rest else []), len(rest)
        most = _EMPTY
        for event in whole.split(b"\n\n"):
            if not _HAS_DATA.search(event):
                continue
            kind_of = self._kind_of or self._detect_format(event)
            if kind_of is None:
                if self.foreign:
                    return _EMPTY
                continue
            if event.endswith(b"[DONE]") and event.partition(b"data:")[2].strip() == b"[DONE]":
                self.done = True
                continue
            self._keep(event)
            most = max(most, kind_of(event))
        return most

    def ended(self, kept: Iterable[bytes]) -> bool:
        """
        Return whether the stream reached its end mark. Call :meth:`feed` no more after this.

        Args:
            kept: The latest events passed to ``keep``, including the very last one.
        """
        if self._parts and self._parts[-1].endswith(b"\n"):
            # An application that reads by lines may stop before the last blank line.
            self._cut = False
            self.feed(b"\n")
        stream = None if self.api_format is None else self.api_format.stream
        closes = None if stream is None else stream.closes
        return self.done or (closes is not None and any(map(closes.search, kept)))

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
        for api_format in self._known:
            stream = api_format.stream
            if stream is not None and stream.opens.search(event):
                self.api_format, self._kind_of = api_format, stream.classify_chunk
                return stream.classify_chunk
        self._skipped += len(event)
        if self._skipped > _LONGEST_PREAMBLE or not _PREAMBLE.search(event):
            self._give_up()
        return None

    def _give_up(self) -> None:
        self.foreign = True
        self._parts.clear()
