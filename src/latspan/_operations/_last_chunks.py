"""First and last parts of a response, kept without its text."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

__all__ = ["LastChunks"]

_LAST: Final = 3
"""Parts kept after the first: finish reason, usage and server timings may be in three parts."""


class LastChunks:
    """
    First part and last parts of a response, with its model, finish reason and usage.

    A part is bytes, or a plain mapping copied from an SDK's object before the application received
    it, so later changes by the application have no effect. Chunks that hold only text are not kept.

    Args:
        choices: Number of choices requested. Each may end in a part of its own.
    """

    __slots__ = ("_last", "first")

    def __init__(self, choices: int = 1) -> None:
        self.first: Any = None
        """First part, ``None`` before it has arrived."""
        self._last: deque[Any] = deque(maxlen=_LAST + choices - 1)

    def add(self, part: Any) -> None:
        """Keep ``part``; if the limit is reached, drop the oldest part except the first."""
        if self.first is None:
            self.first = part
        else:
            self._last.append(part)

    def parts(self) -> tuple[Any, ...]:
        """Return the kept parts in order of arrival."""
        return () if self.first is None else (self.first, *self._last)

    def copy(self) -> LastChunks:
        """Return a copy, to which later parts are not added."""
        other = LastChunks()
        other.first, other._last = self.first, self._last.copy()
        return other

    def clear(self) -> None:
        """Drop all parts."""
        self.first = None
        self._last.clear()
