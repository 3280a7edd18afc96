"""What is kept of a stream's chunks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Tail"]

_BEFORE: Final = 2
"""Chunks kept beside the latest: finish reason, usage and the server's timings may be in three."""


class Tail:
    """
    The last chunks of a stream, three at most: nothing else says how it ended.

    Of chunks that bear tokens, one behind the other, only the latest is kept. That is as well, as
    what the others say besides is said again, and a chunk that is not held leaves its memory to
    the next one.
    """

    __slots__ = ("_before", "latest")

    def __init__(self) -> None:
        self._before: deque[Any] = deque(maxlen=_BEFORE)
        self.latest: Any = None
        """
        The last chunk; ``None`` before the first.

        One that bears a token takes the place of the one before by an assignment: a call would
        cost the reader more.
        """

    def add(self, chunk: Any) -> None:
        """Keep ``chunk``, and the one before it."""
        if self.latest is not None:
            self._before.append(self.latest)
        self.latest = chunk

    def chunks(self) -> tuple[Any, ...]:
        """Return what is kept, the latest last."""
        return () if self.latest is None else (*self._before, self.latest)

    def copy(self) -> Tail:
        """Return what is kept so far; later chunks are not added to it."""
        other = Tail()
        other._before = self._before.copy()
        other.latest = self.latest
        return other

    def prune(self, says: Callable[[Any], bool]) -> None:
        """
        Let go of the first chunks, as long as they say nothing; never of the latest.

        Args:
            says: Whether a chunk says more than its text and what every chunk of its stream says.
        """
        before = self._before
        while before and not says(before[0]):
            before.popleft()

    def clear(self) -> None:
        """Let go of everything."""
        self._before.clear()
        self.latest = None
