"""SIGTERM as Ctrl-C: an exception, so that whatever was started is also stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["INTERRUPTED", "TERMINATED", "Terminated", "sigterm_raises"]

INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit code after Ctrl-C, as a shell gives it."""

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code after SIGTERM, as a shell gives it."""


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM."""


@contextmanager
def sigterm_raises() -> Generator[None]:
    """Have SIGTERM raise :class:`Terminated` inside the block, where Python lets us."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _raise(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise Terminated
