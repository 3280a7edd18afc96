"""
Watch over the handler of SIGTERM, and its state in C.

Python runs a handler on the main thread, as soon as that thread runs Python code again. A database
driver or a computation may return minutes later, where the default action would have ended the
process at once. So a thread learns of the signal as well. If the handler has not run half a second
later, this thread exports, and ends the process by the default action.

Only ``faulthandler`` offers a handler that runs in C at once: it writes a traceback to a file. Here
the file is a socket, which the thread reads; the text is not used. Then ``faulthandler`` calls
Python's own handler, as if it were not there. ``signal.set_wakeup_fd`` is not an option, because
event loops need it: trio warns if it is in use.

**Other users.** A program may use ``faulthandler`` for SIGTERM itself. If it does so after `wake`,
it replaces the file. If it did so before, the handler in C is neither the default action nor
Python's, and `wake` leaves it alone. If the program sets a handler with ``signal.signal``, that
replaces the handler of ``faulthandler``.

**Forks.** A forked child has the handler with the parent's socket, but not the thread. There, the
default action is restored until the child records something. Python forgets the signals that a
child receives before that, so SIGTERM is blocked during a fork, and takes effect afterwards. Each
message carries the process ID of its sender, so the parent ignores what another process writes to
its socket, for example a child that C code forks.

**C functions.** Only the main thread may use ``signal.signal``. Other threads use ``PyOS_setsig``,
through ``ctypes``.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from latspan._base.internal_errors import handle_internal_errors

_GRACE_S: Final = 0.5
"""Time in which the main thread has to begin to handle the signal, in seconds."""

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group of a sender. Source: ``unix(7)``, ``SCM_CREDENTIALS``."""

_awake: list[object] = []
"""The handler that this process has put into effect."""

_registered: list[object] = []
"""The handler that this process watches."""

_masks = threading.local()
"""Signals that the thread blocked before it forked."""


class Watched(Protocol):
    """
    Handler of SIGTERM whose calls are watched.

    Attributes:
        calls: Number of calls so far.
    """

    calls: int

    def __call__(self, number: int, frame: FrameType | None, /) -> None:
        """Handle the signal."""
        ...

    def end_elsewhere(self, die: Callable[[], None]) -> None:
        """
        Export on this thread, because the main thread cannot.

        Args:
            die: Ends the process by the default action.
        """
        ...


def wake(handler: Watched, *, watched: bool) -> None:
    """
    Put the handler of SIGTERM into effect in C.

    Args:
        handler: The current handler, as ``signal.getsignal`` returns it.
        watched: Whether to watch its calls until the process ends.
    """
    # Python has one handler in C for all signals that it handles.
    pythons = _get_in_c(signal.SIGINT) if callable(signal.getsignal(signal.SIGINT)) else None
    in_c = _get_in_c(signal.SIGTERM)
    if in_c is None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)
        elif pythons is not None:
            _set_in_c(signal.SIGTERM, pythons)
    elif in_c != pythons:
        return
    _awake[:] = [handler]
    if watched and _get_in_c(signal.SIGTERM) is not None and hasattr(socket, "SO_PASSCRED"):
        _begin_to_watch(handler)


def _begin_to_watch(handler: Watched) -> None:
    receiver, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    # In a signal handler, a full socket must not block.
    sender.setblocking(False)
    # Both sockets stay open until the process ends.
    thread = threading.Thread(
        target=_watch, args=(handler, receiver, sender), name="latspan-sigterm", daemon=True
    )
    thread.start()
    _registered[:] = [handler]
    faulthandler.register(signal.SIGTERM, file=sender.fileno(), all_threads=False, chain=True)


def _watch(handler: Watched, receiver: socket.socket, _: socket.socket) -> None:
    with handle_internal_errors("the watch for SIGTERM"):
        calls = handler.calls
        while True:
            if not _is_own(receiver, 0):
                continue
            time.sleep(_GRACE_S)
            calls_before, calls = calls, handler.calls
            _discard(receiver)
            if calls == calls_before and signal.getsignal(signal.SIGTERM) is handler:
                handler.end_elsewhere(_die)


def _get_in_c(number: int) -> int | None:
    """Return the address of the handler in C; ``None`` for the default action."""
    function: Any = ctypes.pythonapi.PyOS_getsig
    function.argtypes, function.restype = (ctypes.c_int,), ctypes.c_void_p
    address: int | None = function(number)
    return address


def _set_in_c(number: int, address: int | None) -> None:
    """Set the handler in C, on any thread; ``None`` sets the default action."""
    function: Any = ctypes.pythonapi.PyOS_setsig
    function.argtypes, function.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    function(number, address)


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


def _die() -> None:
    _set_in_c(signal.SIGTERM, None)
    os.kill(os.getpid(), signal.SIGTERM)


def _is_in_effect() -> bool:
    return bool(_awake) and signal.getsignal(signal.SIGTERM) is _awake[0]


def _block_before_fork() -> None:
    if _is_in_effect():
        _masks.before_fork = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))


def _unblock() -> None:
    mask = getattr(_masks, "before_fork", None)
    if mask is not None:
        _masks.before_fork = None
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _fall_asleep_in_child() -> None:
    if _is_in_effect():
        if _registered:
            faulthandler.unregister(signal.SIGTERM)
        _set_in_c(signal.SIGTERM, None)
    _awake.clear()
    _registered.clear()
    _unblock()


os.register_at_fork(
    before=_block_before_fork,
    after_in_parent=_unblock,
    after_in_child=_fall_asleep_in_child,
)
