"""Readers of a stream by its framing; the one of JSON lines (NDJSON) is in this module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from latspan._model.wire._api_format import ApiFormat, Framing
from latspan._model.wire._body import to_plain
from latspan._model.wire._events import EventReader
from latspan._model.wire._messages import MessageReader
from latspan._model.wire._stream_reader import NO_EVENTS, StreamReader

_LF: Final = 0x0A


class LineReader(StreamReader):
    """
    Reader of one stream of JSON lines; each line is one event.

    Reads may split the stream at any byte. The first line that is not blank decides: a stream has
    no preamble.

    A line counts once its line feed has arrived, as it does for a client that reads by lines. The
    last line may lack it: :meth:`flush` reads that line.
    """

    __slots__ = ()

    def feed(self, data: bytes) -> Sequence[int]:
        """Return the chunk kinds of the lines that ``data`` completes, in order."""
        if self.foreign:
            return NO_EVENTS
        self._parts.append(data)
        if _LF not in data:
            self._length += len(data)
            self._give_up_if_too_long()
            return NO_EVENTS
        whole, _, rest = b"".join(self._parts).rpartition(b"\n")
        self._parts, self._length = ([rest] if rest else []), len(rest)
        kinds: list[int] = []
        for each in whole.split(b"\n"):
            line = each.strip()
            if line:
                kinds.append(self._classified(line))
                if self.foreign:
                    return NO_EVENTS
        return kinds

    def flush(self) -> None:
        """Read the last line, which may have no line feed."""
        # The caller may have left in the middle of a line and may read on.
        if to_plain(b"".join(self._parts)):
            self.feed(b"\n")


_READERS: Final[dict[Framing, type[StreamReader]]] = {
    Framing.EVENTS: EventReader,
    Framing.LINES: LineReader,
    Framing.MESSAGES: MessageReader,
}


def open_reader(
    framing: Framing, known: Sequence[ApiFormat], keep: Callable[[bytes], object]
) -> StreamReader:
    """
    Return a reader of one stream.

    Args:
        framing: How the body is split into events.
        known: The API formats to match the stream against; all have this framing.
        keep: Receives each event that has data.
    """
    return _READERS[framing](known, keep)
