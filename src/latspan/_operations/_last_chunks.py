"""What is kept of an answer beside its text."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

__all__ = ["LastChunks"]

_LAST: Final = 3
"""Parts kept beside the first: finish reason, usage and the server's timings may be in three."""


class LastChunks:
    """
    The first part of an answer and the last ones: who answered, how it ended and what it cost.

    A part is a plain mapping, which an SDK's object was copied into before the application got it,
    or bytes. What the application does to a chunk later changes nothing here. Chunks that hold only
    text are not kept.

    Args:
        choices: How many answers were asked for at once. Each may end in a part of its own.
    """

    __slots__ = ("_last", "first")

    def __init__(self, choices: int = 1) -> None:
        self.first: Any = None
        """The first part, ``None`` before it came."""
        self._last: deque[Any] = deque(maxlen=_LAST + choices - 1)

    def add(self, part: Any) -> None:
        """Keep ``part``, and let go of the oldest one but the first."""
        if self.first is None:
            self.first = part
        else:
            self._last.append(part)

    def parts(self) -> tuple[Any, ...]:
        """Return what is kept, in the order in which it came."""
        return () if self.first is None else (self.first, *self._last)

    def copy(self) -> LastChunks:
        """Return what is kept so far; later parts are not added to it."""
        other = LastChunks()
        other.first, other._last = self.first, self._last.copy()
        return other

    def clear(self) -> None:
        """Let go of everything."""
        self.first = None
        self._last.clear()
