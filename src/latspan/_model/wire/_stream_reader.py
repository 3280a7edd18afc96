"""Base class of the incremental readers, which split a body into the events of an API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from latspan._model.wire._api_format import ApiFormat, ChunkKind
from latspan._model.wire._body import error_in

# A plain integer, because comparing and storing it costs a third of the time of an enum member.
EMPTY: Final = int(ChunkKind.EMPTY)

NO_EVENTS: Final[Sequence[int]] = ()
"""Kinds of no events."""

_MAX_EVENT_BYTES: Final = 1 << 26
"""Maximum size of one event in bytes. Past it, the rest of the stream is ignored."""

MAX_PREAMBLE_BYTES: Final = 1 << 16
"""
Number of bytes of complete events after which a stream that is still unidentified is treated as
foreign.
"""

MAX_FIRST_BYTES: Final = 1 << 23
"""
Maximum size in bytes of the event that identifies a stream. It may repeat the prompt and the tools
of the request, or contain an image.
"""


class StreamReader(ABC):
    """
    Reader of one stream, whose first event with content identifies the API.

    Args:
        known: The API formats to match the stream against.
        keep: Receives each event as text that :meth:`ApiFormat.to_mapping` accepts.
    """

    __slots__ = (
        "_keep",
        "_kind_of",
        "_known",
        "_length",
        "_parts",
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
        self.done = False
        """``True`` once the end mark has arrived."""
        self._kind_of: Callable[[bytes], int] | None = None
        self.api_format: ApiFormat | None = None
        """Format of the stream's API; ``None`` until an event identifies it."""
        self.foreign = False
        """``True`` if the stream belongs to none of the known APIs; further input is ignored."""

    @property
    def is_inside(self) -> bool:
        """Whether a part of an event has arrived that is not yet complete."""
        return bool(self._parts)

    @abstractmethod
    def feed(self, data: bytes) -> Sequence[int]:
        """
        Return the chunk kinds of the events that ``data`` completes, in order, as plain integers.

        The end mark of a stream is not an event.
        """

    def flush(self) -> None:  # noqa: B027 - most framings have no such event
        """Read an event that the end of the body completes, if the framing has such an event."""

    def ended(self, kept: Iterable[bytes]) -> bool:
        """
        Return whether the stream reached its end mark. Call :meth:`feed` no more after this.

        Args:
            kept: The latest events passed to ``keep``. This method may pass one more.
        """
        self.flush()
        api_format = self.api_format
        stream = None if api_format is None else api_format.stream
        if self.done or api_format is None or stream is None:
            return self.done
        if stream.unmarked:
            bodies = tuple(map(api_format.to_mapping, kept))
            # No event follows an error.
            return api_format.is_finished(bodies) or error_in(bodies) is not None
        return stream.closes is not None and any(map(stream.closes.search, kept))

    def _matching(self, event: bytes) -> Callable[[bytes], int] | None:
        """Return the content test of the API that ``event`` identifies, ``None`` if it does not."""
        for api_format in self._known:
            stream = api_format.stream
            if stream is not None and stream.opens.search(event):
                self.api_format, self._kind_of = api_format, stream.classify_chunk
                return stream.classify_chunk
        return None

    def _classified(self, event: bytes) -> int:
        """Keep a complete event and return its kind; the first event decides about the stream."""
        kind_of = self._kind_of or self._matching(event)
        if kind_of is None:
            self._give_up()
            return EMPTY
        self._keep(event)
        return kind_of(event)

    def _give_up_if_too_long(self) -> None:
        """Give the stream up if its incomplete event is too long."""
        if self._length > (MAX_FIRST_BYTES if self.api_format is None else _MAX_EVENT_BYTES):
            self._give_up()

    def _give_up(self) -> None:
        self.foreign = True
        self._parts.clear()
