"""What each process has of its own, forked children too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from latspan._fork import register_after_fork

__all__ = ["PerProcess"]

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """
    Something that each process makes for itself: this one at once, a forked child on demand.

    Unless ``at_once`` is false, in which case this process makes its own on demand too.

    What a child inherits is kept and never used. To let go of it would run the finalisers of
    connections that are its parent's, under locks that a thread of its parent's may have held.

    Args:
        make: Makes it. Is given what the process inherited, ``None`` in the first one.
        at_once: Whether this process makes its own now.
    """

    def __init__(self, make: Callable[[_T | None], _T], *, at_once: bool = True) -> None:
        self._make = make
        self._inherited: list[_T] = []
        self._lock = threading.RLock()
        self._own: _T | None = make(None) if at_once else None
        register_after_fork(self._begin)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        if self._own is not None:
            self._inherited.append(self._own)
            self._own = None

    def __call__(self) -> _T:
        """Return this process's own, made now if need be."""
        own = self._own
        if own is not None:
            return own
        with self._lock:
            if self._own is None:
                self._own = self._make(self._inherited[-1] if self._inherited else None)
            return self._own

    def made(self) -> _T | None:
        """Return this process's own, ``None`` where it has not been needed yet."""
        return self._own
