"""The events of a stream that comes as bytes, cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from latspan.wire._chunk import ChunkKind
from latspan.wire._dialect import Dialect

__all__ = ["EventReader"]

_EMPTY: Final = int(ChunkKind.EMPTY)

_LONGEST_EVENT: Final = 1 << 26
"""Bytes of one event above which nothing more is read of its stream."""

_LONGEST_PREAMBLE: Final = 1 << 16
"""Bytes after which a stream whose API is still unknown is none of ours."""

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

    An event counts when the blank line behind it is in, as for a client that parses.

    Args:
        known: The APIs that it may be.
        keep: Handed each event that has data, without its blank line; not ``[DONE]``.

    Source: WHATWG HTML, "Server-sent events", section 9.2.6 (interpreting an event stream).
    """

    __slots__ = (
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

    def __init__(self, known: Sequence[Dialect], keep: Callable[[bytes], object]) -> None:
        self._known = known
        self._keep = keep
        # What has come of an event, joined when that is whole: it may be long, and cut small.
        self._parts: list[bytes] = []
        self._length = 0
        self._skipped = 0
        self.done = False
        """Whether the end mark has come."""
        self._kind_of: Callable[[bytes], int] | None = None
        self.dialect: Dialect | None = None
        """Which API's stream it is, once an event that identifies it is in."""
        self.foreign = False
        """Whether it is nobody's that is known; then nothing more is read of it."""

    def feed(self, data: bytes) -> int:
        """Return the most that the events bear which ``data`` completes, as a plain integer."""
        if self.foreign:
            return _EMPTY
        kind_of = self._kind_of
        if kind_of is not None and data[-2:] == b"\n\n" and not self._parts:
            event = data[:-2]
            # The common read: one whole event, of one JSON object.
            if event[:5] == b"data:" and event[-1:] == b"}" and b"\n" not in event:
                self._keep(event)
                return kind_of(event)
        # A blank line may be cut anywhere, a byte a read; most bytes end no line.
        joint = b"".join(self._parts[-3:])[-3:] + data if b"\n" in data else b""
        self._parts.append(data)
        self._length += len(data)
        if b"\n\n" not in joint and b"\r\n\r\n" not in joint:
            if self._length > (_LONGEST_PREAMBLE if self.dialect is None else _LONGEST_EVENT):
                self._give_up()
            return _EMPTY
        whole, blank, rest = b"".join(self._parts).rpartition(b"\n\n")
        if not blank:
            whole, blank, rest = rest.rpartition(b"\r\n\r\n")
        self._parts, self._length = ([rest] if rest else []), len(rest)
        most = _EMPTY
        for event in whole.replace(b"\r\n", b"\n").split(b"\n\n"):
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
        for newline in (b"\r\n", b"\n"):
            if self._parts and self._parts[-1].endswith(newline):
                # Who reads by lines stops before the blank one.
                self.feed(newline)
        stream = None if self.dialect is None else self.dialect.stream
        closes = None if stream is None else stream.closes
        return self.done or (closes is not None and any(map(closes.search, kept)))

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
