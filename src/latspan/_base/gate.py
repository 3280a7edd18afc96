"""
Gate: a section of code that threads pass until it is closed.

**Theory.** A reconfiguration closes the old pipeline while calls and requests still end on other
threads. Each of them must count in exactly one of two pipelines. Asking "is it closed?" and then
recording is not enough: between the two steps, the pipeline may take its last interval. So a thread
enters itself in ``_inside`` before it reads ``_closed``, and :meth:`Gate.close` sets ``_closed``
before it reads ``_inside``. Either the thread finds the gate closed, or ``close`` waits for it.

No lock is taken, because a finaliser or a signal handler may pass the gate while its own thread is
inside. Such a thread never waits for itself. It does not wait either for threads that no longer
exist: a forked child has only the thread that forked.
"""

from __future__ import annotations

import sys
import time
from threading import get_ident
from typing import Final

_CLOSING_S: Final = 1.0
"""Maximum wait for the threads inside, in seconds; what they do there takes microseconds."""

_POLL_S: Final = 0.001


class Gate:
    """Lets threads pass until it is closed; closing it waits for the threads inside."""

    __slots__ = ("_closed", "_inside")

    def __init__(self) -> None:
        self._closed = False
        self._inside: list[int] = []

    def enter(self) -> bool:
        """Enter, and return whether the gate is open; call :meth:`leave` in both cases."""
        self._inside.append(get_ident())
        return not self._closed

    def leave(self) -> None:
        """Leave after :meth:`enter`."""
        try:  # noqa: SIM105 - `suppress` takes four times as long
            self._inside.remove(get_ident())
        except ValueError:
            # A signal handler raised just before the thread entered.
            pass

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or being closed."""
        return self._closed

    def close(self, timeout_s: float = _CLOSING_S) -> bool:
        """
        Close the gate, and wait for the other threads that are inside.

        Args:
            timeout_s: Maximum wait, in seconds.

        Returns:
            Whether no other thread is inside.
        """
        self._closed = True
        deadline = time.monotonic() + timeout_s
        while self._has_others_inside():
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _has_others_inside(self) -> bool:
        others = {*self._inside} - {get_ident()}
        return bool(others) and not others.isdisjoint(sys._current_frames())  # pyright: ignore[reportPrivateUsage] - documented
