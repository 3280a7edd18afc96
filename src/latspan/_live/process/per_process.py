"""Objects that each process, including a forked child, creates for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from latspan._base.fork import register_after_fork

_T = TypeVar("_T")


class PerProcess(Generic[_T]):
    """
    Object that each process creates for itself: this one at once, a forked child on demand.

    If ``at_once`` is false, this process creates its own on demand too.

    The object that a child inherits is kept and never used. Releasing it would run the finalisers
    of its parent's connections, under locks that one of the parent's threads may have held.

    Args:
        make: Creates the object. Receives the inherited object; ``None`` in the first process.
        at_once: Whether this process creates its own immediately.
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
        """Return this process's object; create it if necessary."""
        own = self._own
        if own is not None:
            return own
        with self._lock:
            if self._own is None:
                self._own = self._make(self._inherited[-1] if self._inherited else None)
            return self._own

    def made(self) -> _T | None:
        """Return this process's object; ``None`` if it has not been created yet."""
        return self._own
