"""Choice of the reader for a stream by its framing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from latspan._wire._api_format import ApiFormat, Framing
from latspan._wire._events import EventReader
from latspan._wire._lines import LineReader
from latspan._wire._messages import MessageReader
from latspan._wire._stream_reader import StreamReader

__all__ = ["open_reader"]

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
