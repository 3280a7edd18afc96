"""Progress of reading a recording, for a command whose user waits for it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

Watcher = Callable[[int, int], None]
"""Receives the number of bytes that were read, and of all bytes to read."""

_STRIDE: Final = 1 << 20
"""Number of bytes between two calls of a watcher."""

_watcher: ContextVar[Watcher | None] = ContextVar("latspan_reading_watcher", default=None)


@contextmanager
def watched_reading(watcher: Watcher) -> Generator[None]:
    """
    Report the progress of each pass over a recording that begins inside the block.

    Args:
        watcher: Called about once per mebibyte, and at the end of a pass.
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class ReadingWatch:
    """
    Progress of one pass.

    Args:
        paths: Files that it reads.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._watcher = _watcher.get()
        self._read = self._reported = self._total = 0
        if self._watcher is not None:
            self._total = sum(map(_size_of, paths))

    def add(self, size: int) -> None:
        """Add bytes that were read."""
        if self._watcher is None:
            return
        self._read += size
        if self._read - self._reported >= _STRIDE:
            self._reported = self._read
            # A process that still runs writes on.
            self._watcher(min(self._read, self._total), self._total)

    def end(self) -> None:
        """Report that everything was read."""
        if self._watcher is not None:
            self._watcher(self._total, self._total)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
