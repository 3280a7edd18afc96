"""The events of a stream that comes as bytes, cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from latspan._wire._api_format import ApiFormat
from latspan._wire._chunk import ChunkKind

__all__ = ["EventReader"]

_EMPTY: Final = int(ChunkKind.EMPTY)

_LONGEST_EVENT: Final = 1 << 26
"""Bytes of one event above which nothing more is read of its stream."""

_LONGEST_PREAMBLE: Final = 1 << 16
"""Bytes after which a stream whose API is still unknown is none of ours."""

# As numbers: a byte is looked for in a third of the time that a string of one byte takes.
_LF: Final = 0x0A
_CR: Final = 0x0D

_HAS_DATA: Final = re.compile(rb"^data:[ \t]*[^ \t\r\n]", re.MULTILINE)
"""Found in an event that has data; a comment may hold the word too."""

_PREAMBLE: Final = re.compile(
    rb'(?:^event:[ \t]*|"type"\s*:\s*")(?:ping|keep-?alive|heartbeat)\b|"choices"\s*:\s*\[\s*\]',
    re.MULTILINE,
)
"""
Found in the events that may come before the one which identifies a stream: signs of life, and a
chunk without choices, in which Azure OpenAI sends the results of its prompt filter.
"""


class EventReader:
    """
    Reads one stream of server-sent events, and identifies its API by the first that has content.

    An event counts when the blank line behind it is in, as for a client that parses. Lines may end
    in LF, CRLF or CR, each as it likes: a CR is a line end whether an LF follows or not.

    Args:
        known: The APIs that it may be.
        keep: Handed each event that has data, in lines that end in LF and without its blank line;
            not ``[DONE]``.

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
        "dialect",
        "done",
        "foreign",
    )

    def __init__(self, known: Sequence[ApiFormat], keep: Callable[[bytes], object]) -> None:
        self._known = known
        self._keep = keep
        # What has come of an event, joined when that is whole: it may be long, and cut small.
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped = 0
        # Whether the last byte was a CR, whose line end an LF may still belong to.
        self._cut = False
        self.done = False
        """Whether the end mark has come."""
        self._kind_of: Callable[[bytes], int] | None = None
        self.dialect: ApiFormat | None = None
        """Which API's stream it is, once an event that identifies it is in."""
        self.foreign = False
        """Whether it is nobody's that is known; then nothing more is read of it."""

    def feed(self, data: bytes) -> int:
        """Return the most that the events bear which ``data`` completes, as a plain integer."""
        if self.foreign:
            return _EMPTY
        kind_of = self._kind_of
        if kind_of is not None and data[-3:] == b"}\n\n" and not self._parts:
            event = data[:-2]
            # The common read: one whole event, of one JSON object.
            if event[:5] == b"data:" and _LF not in event and _CR not in event:
                self._keep(event)
                return kind_of(event)
        if self._cut or _CR in data:
            data = self._with_plain_line_ends(data)
            if not data:
                return _EMPTY
        # A blank line may be cut anywhere, a byte a read; most bytes end no line.
        joint = b"".join(self._parts[-1:])[-1:] + data if _LF in data else b""
        self._parts.append(data)
        self._length += len(data)
        if b"\n\n" not in joint:
            if self._length > (_LONGEST_PREAMBLE if self.dialect is None else _LONGEST_EVENT):
                self._give_up()
            return _EMPTY
        whole, _, rest = b"".join(self._parts).rpartition(b"\n\n")
        self._parts, self._length = ([rest] if rest else []), len(rest)
        most = _EMPTY
        for event in whole.split(b"\n\n"):
            if not _HAS_DATA.search(event):
                continue
            kind_of = self._kind_of or self._recognise(event)
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
        Return whether the stream came to its end mark; nothing more is fed after that.

        Args:
            kept: The last events that were handed to be kept, the very last one among them.
        """
        if self._parts and self._parts[-1].endswith(b"\n"):
            # Who reads by lines stops before the blank one.
            self._cut = False
            self.feed(b"\n")
        stream = None if self.dialect is None else self.dialect.stream
        closes = None if stream is None else stream.closes
        return self.done or (closes is not None and any(map(closes.search, kept)))

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        """Return ``data`` with every line end an LF, also one that was cut in two."""
        if self._cut and data[:1] == b"\n":
            data = data[1:]
            if not data:
                self._cut = False
                return data
        self._cut = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _recognise(self, event: bytes) -> Callable[[bytes], int] | None:
        for dialect in self._known:
            stream = dialect.stream
            if stream is not None and stream.opens.search(event):
                self.dialect, self._kind_of = dialect, stream.kind_of
                return stream.kind_of
        self._skipped += len(event)
        if self._skipped > _LONGEST_PREAMBLE or not _PREAMBLE.search(event):
            self._give_up()
        return None

    def _give_up(self) -> None:
        self.foreign = True
        self._parts.clear()
