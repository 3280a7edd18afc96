"""
Watch for a SIGTERM that the main thread cannot handle, because it is blocked in C code.

Python runs a handler on the main thread, as soon as that thread runs Python code again. A database
driver or a computation may return minutes later, where the default action would have ended the
process at once. So a thread learns of the signal as well. If the handler has not run half a second
later, this thread exports, and ends the process by the default action.

Only ``faulthandler`` offers a handler that runs in C at once: it writes a traceback to a file. Here
the file is a socket, which the thread reads; the text is not used. Then ``faulthandler`` calls
Python's own handler, as if it were not there. ``signal.set_wakeup_fd`` is no alternative, because
event loops need it: trio warns if it is in use.

**Other users.** A program may use ``faulthandler`` for SIGTERM itself: after this, it replaces the
file. Before this, the process has another handler than Python's, and is not watched. If the
program sets a handler with ``signal.signal``, that replaces the handler of ``faulthandler`` too.

**Forks.** A forked child has the handler with the parent's socket, but not the thread. Each message
carries the process ID of its sender, so the parent ignores what a child writes before
`_release_in_child` runs there, or between the fork and the start of another program.

**C functions.** Only the main thread may use ``signal.signal``. The thread therefore restores the
default action with ``PyOS_setsig``, through ``ctypes``.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

__all__ = ["Watched", "watch"]

_GRACE_S: Final = 0.5
"""Time in which the main thread has to begin to handle the signal, in seconds."""

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a sender. Source: ``unix(7)``, ``SCM_CREDENTIALS``."""

_registered: list[object] = []
"""The handler for which this process has registered with ``faulthandler``."""


class Watched(Protocol):
    """Handler of SIGTERM whose calls are watched."""

    calls: int

    def end_elsewhere(self, die: Callable[[], None]) -> None:
        """
        Export on this thread, because the main thread cannot.

        Args:
            die: Ends the process by the default action.
        """
        ...


def watch(handler: Watched) -> None:
    """
    Watch the calls of ``handler`` until the process ends; return if that is not possible.

    Args:
        handler: The current handler of SIGTERM.
    """
    handler_in_c, set_in_c = _c_functions()
    if not (
        hasattr(socket, "SO_PASSCRED")
        and callable(signal.getsignal(signal.SIGINT))
        # Python has one handler in C for all signals. Any other was not set by `signal.signal`.
        and handler_in_c(signal.SIGTERM) == handler_in_c(signal.SIGINT)
    ):
        return
    receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with receiver, sender:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        # In a signal handler, a full socket must not block.
        sender.setblocking(False)
        _registered[:] = [handler]
        faulthandler.register(signal.SIGTERM, file=sender.fileno(), all_threads=False, chain=True)
        calls = handler.calls
        while True:
            if not _is_own(receiver, 0):
                continue
            time.sleep(_GRACE_S)
            calls_before, calls = calls, handler.calls
            _discard(receiver)
            if calls == calls_before and signal.getsignal(signal.SIGTERM) is handler:
                handler.end_elsewhere(lambda: _die(set_in_c))


def _c_functions() -> tuple[Callable[[int], int | None], Callable[[int, int | None], int | None]]:
    """Return ``PyOS_getsig`` and ``PyOS_setsig``; their results are addresses of handlers."""
    get_in_c: Any = ctypes.pythonapi.PyOS_getsig
    set_in_c: Any = ctypes.pythonapi.PyOS_setsig
    get_in_c.argtypes, get_in_c.restype = (ctypes.c_int,), ctypes.c_void_p
    set_in_c.argtypes, set_in_c.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    return get_in_c, set_in_c


def _is_own(receiver: socket.socket, flags: int) -> bool:
    """Receive a message, and return whether this process sent it."""
    _, ancillary, _, _ = receiver.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size), flags)
    return any(
        _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0] == os.getpid()
        for level, kind, content in ancillary
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
    )


def _discard(receiver: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            _is_own(receiver, socket.MSG_DONTWAIT)


def _die(set_in_c: Callable[[int, int | None], int | None]) -> None:
    # A null address is the default action.
    set_in_c(signal.SIGTERM, None)
    os.kill(os.getpid(), signal.SIGTERM)


def _release_in_child() -> None:
    # If the handler was replaced, `faulthandler` has no effect, and undoing it would set Python's.
    if _registered and signal.getsignal(signal.SIGTERM) is _registered[0]:
        faulthandler.unregister(signal.SIGTERM)
    _registered.clear()


os.register_at_fork(after_in_child=_release_in_child)
