"""Handling of SIGTERM like Ctrl-C, as an exception, so that started processes are stopped too."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED: Final = 128 + signal.SIGINT
"""Exit code after Ctrl-C, as in a shell."""

TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code after SIGTERM, as in a shell."""

_SOON_S: Final = 0.01
"""
Delay before a lost interrupt is raised again, in seconds; the finaliser that lost it has then most
likely returned.
"""


class Terminated(KeyboardInterrupt):
    """SIGTERM requested the end of the process."""


@contextmanager
def interrupts_raise() -> Generator[None]:
    """
    Raise :class:`Terminated` on SIGTERM inside the block; neither it nor Ctrl-C is lost.

    A SIGTERM that is ignored stays ignored.

    Python raises in the code that the main thread is running. In a finaliser or the callback of a
    weak reference, Python only prints that it ignored the exception, and continues. Such an
    interrupt is raised again a moment later, by SIGALRM, until it takes effect. On any thread but
    the main one, where Python does not allow signal handlers, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts = _Interrupts(sys.unraisablehook)
    terminated = signal.getsignal(signal.SIGTERM)
    # A program that `latspan run` starts inherits an ignored signal, but not a handled one.
    if terminated is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, interrupts.terminate)
    alarmed = signal.signal(signal.SIGALRM, interrupts.raise_again)
    sys.unraisablehook = interrupts.on_unraisable
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = interrupts.others
        signal.signal(signal.SIGALRM, alarmed)
        signal.signal(signal.SIGTERM, terminated)


class _Interrupts:
    """
    Raises interrupts, and raises lost ones again.

    Args:
        others: Receives the other exceptions that Python ignored.
    """

    def __init__(self, others: Callable[[UnraisableHookArgs], object]) -> None:
        self.others = others
        self._lost: type[KeyboardInterrupt] = KeyboardInterrupt

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGTERM."""
        del number
        self._raise(Terminated, frame)

    def raise_again(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGALRM."""
        del number
        self._raise(self._lost, frame)

    def on_unraisable(self, unraisable: UnraisableHookArgs, /) -> None:
        """Handle ignored exceptions, as ``sys.unraisablehook``."""
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._raise_later(unraisable.exc_type)
        else:
            self.others(unraisable)

    def _raise(self, interrupt: type[KeyboardInterrupt], frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is _HOOK:
                # An exception raised inside the hook is lost too.
                self._raise_later(interrupt)
                return
            frame = frame.f_back
        raise interrupt

    def _raise_later(self, interrupt: type[KeyboardInterrupt]) -> None:
        self._lost = interrupt
        signal.setitimer(signal.ITIMER_REAL, _SOON_S)


_HOOK: Final = _Interrupts.on_unraisable.__code__
