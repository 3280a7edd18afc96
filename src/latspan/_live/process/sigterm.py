"""
Export of everything recorded when SIGTERM ends the process.

The handler is installed only if SIGTERM has its default action. It delays the end of the process
by the time of the last export, and changes nothing else: the process still ends by SIGTERM, without
``atexit`` and ``finally``. A program that sets its own handler or ignores the signal replaces this
handler. A server such as uvicorn, which restores the handler that it found and raises the signal
again, gets here after its own shutdown.

**Threads.** Python runs a handler on the main thread, between two bytecodes. The handler starts a
thread that exports, and waits for it, so the main thread does nothing more: to the program it is as
if the process had already ended. A further SIGTERM, and an exception that another signal's handler
raises meanwhile, have no effect.

**Locks.** The handler may interrupt the main thread where it holds a lock that the export needs:
one of latspan's or OpenTelemetry's, the lock of a log handler, or that of a module being imported.
Waiting there would use up the time limit. If such code is innermost on the stack, apart from the
standard library, the handler returns, and the signal is sent again 10 ms later, for half a second
at most. During a shutdown, this is repeated until the shutdown has ended.

**Process 1.** The kernel discards a SIGTERM with the default action if it is sent to the first
process of a container, which continues until SIGKILL. There, the handler only starts a thread that
exports once per second for a minute, and returns.

**C code.** While the main thread is blocked in C code, it cannot run the handler; see
`_sigterm_watch`. A program that loads latspan's `sitecustomize` may never record anything. Until it
does, the handler is *asleep*: ``signal.getsignal`` returns it, so that a server restores it, but
in C the default action is still in effect.

**Greenlets.** If gevent or eventlet has replaced threads, all of latspan's threads share the main
thread, which therefore must not wait. The handler then returns, and the export ends the process.
"""

from __future__ import annotations

import _thread
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from typing import Final

from latspan._base.internal_errors import handle_internal_errors, log_internal_error

_BUSY: Final = frozenset({"_frozen_importlib", "importlib", "latspan", "logging", "opentelemetry"})
"""Packages whose code may hold a lock that the export needs."""

_AGAIN_AFTER_S: Final = 0.01
_MAX_DELAYS: Final = 50

_MAX_S: Final = 15.0
"""Longest wait for the export, in seconds; the export has shorter limits of its own."""

_DEATH_S: Final = 1.0
"""Longest wait for the end of the process after it has been signalled, in seconds."""

_STDERR: Final = 2
"""File descriptor for ``faulthandler``; nothing is written to it."""

_INIT: Final = 1
"""Process ID of the first process of a container."""

_EXPORTS_OF_INIT: Final = 60
_EXPORT_INTERVAL_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """
    Functions that export what was recorded.

    Args:
        is_needed: Returns whether latspan is configured, or observed by the doctor.
        is_ending: Returns whether a shutdown is in progress.
        end: Shuts latspan down.
        flush: Exports everything recorded so far, within the given number of seconds.
    """

    is_needed: Callable[[], bool]
    is_ending: Callable[[], bool]
    end: Callable[[], None]
    flush: Callable[[float], object]


def handle_sigterm(delivery: Delivery, *, asleep: bool) -> None:
    """
    Export everything before SIGTERM ends the process, if the signal has its default action.

    Has no effect on a thread other than the main thread, where Python does not allow handlers.

    Args:
        delivery: Exports what was recorded.
        asleep: Whether the default action stays in effect until :func:`wake_sigterm`.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        or _is_handled_without_python()
    ):
        return
    if asleep:
        # `unregister` below restores, in C, the default action that is in effect now.
        faulthandler.register(signal.SIGTERM, file=_STDERR)
    try:
        signal.signal(signal.SIGTERM, _Handler(delivery))
    except ValueError:
        # A subinterpreter.
        return
    finally:
        if asleep:
            faulthandler.unregister(signal.SIGTERM)


def wake_sigterm() -> None:
    """Put the handler into effect in this process, if latspan handles SIGTERM."""
    handler = signal.getsignal(signal.SIGTERM)
    process = os.getpid()
    if not isinstance(handler, _Handler) or handler.awake_in == process:
        return
    handler.awake_in = process
    with handle_internal_errors("the preparation for SIGTERM"):
        try:
            from latspan._live.process.sigterm_watch import wake
        except ImportError:
            # A Python without `ctypes`.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)
        else:
            wake(handler, watched=process != _INIT and not _threads_are_greenlets())


def _is_handled_without_python() -> bool:
    """
    Return whether a program that embeds Python, such as uWSGI, handles SIGTERM.

    Python reads the handlers once, when it starts. On systems without ``/proc`` the result is
    ``False``.
    """
    try:
        status = Path("/proc/self/status").read_bytes()
        caught = int(status.partition(b"\nSigCgt:")[2].split(maxsplit=1)[0], 16)
    except (OSError, ValueError, IndexError):
        return False
    return bool(caught >> (signal.SIGTERM - 1) & 1)


class _Handler:
    """
    Handler of SIGTERM.

    Args:
        delivery: Exports what was recorded.
    """

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery
        self._delays = 0
        # The processes that export and that are awake: a forked child inherits the values, but it
        # has no thread that exports, and is asleep.
        self._exporting_in: int | None = None
        self._done: _thread.LockType | None = None
        self._exported = False
        self.awake_in: int | None = None
        self.calls = 0
        """Number of calls, for the thread that watches the main thread."""

    def __call__(self, _: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        self.calls += 1
        process = os.getpid()
        if self._exporting_in == process:
            return
        try:
            self._handle(process, frame)
        except BaseException as error:
            # Raised by latspan, or by the handler of another signal, which may run at any point.
            if self._exporting_in == process and self._done is not None:
                self._finish(self._done)
            elif isinstance(error, Exception):
                log_internal_error(error, "the export at SIGTERM")
                if process != _INIT:
                    self._die()
            else:
                _started(_send_again)
                raise

    def _handle(self, process: int, frame: FrameType | None) -> None:
        delivery = self._delivery
        if process == _INIT:
            if delivery.is_needed():
                self._exporting_in = process
                _started(self._export_for_init)
        elif delivery.is_ending() or (self._delays < _MAX_DELAYS and _is_busy(frame)):
            self._delays += 1
            _started(_send_again)
        elif not delivery.is_needed():
            self._die()
        elif _threads_are_greenlets():
            self._exporting_in = process
            _started(self._export_and_die)
        else:
            self._done = done = _thread.allocate_lock()
            done.acquire()
            self._exporting_in = process
            self._exported = False
            if not _started(lambda: self._export(done)):
                self._exported = True
            self._finish(done)

    def end_elsewhere(self, die: Callable[[], None]) -> None:
        """Export on this thread, because the main thread cannot, and end the process."""
        self._exporting_in = os.getpid()
        deadline = time.monotonic() + _MAX_S
        while self._delivery.is_ending() and time.monotonic() < deadline:
            time.sleep(_AGAIN_AFTER_S)
        with handle_internal_errors("the export at SIGTERM"):
            self._delivery.end()
        die()

    def _finish(self, done: _thread.LockType) -> None:
        """Wait for the export, and end the process."""
        deadline = time.monotonic() + _MAX_S
        # An exception of another handler may come after the lock was acquired, so the lock alone
        # does not show that the export has ended.
        while not self._exported and time.monotonic() < deadline:
            try:
                done.acquire(timeout=max(deadline - time.monotonic(), 0))
            except BaseException:  # noqa: BLE001, S112
                # Without latspan, the process would already have ended.
                continue
        self._die()

    def _export(self, done: _thread.LockType) -> None:
        try:
            with handle_internal_errors("the export at SIGTERM"):
                self._delivery.end()
        finally:
            self._exported = True
            done.release()

    def _export_and_die(self) -> None:
        with handle_internal_errors("the export at SIGTERM"):
            self._delivery.end()
        self._die()

    def _export_for_init(self) -> None:
        try:
            for _ in range(_EXPORTS_OF_INIT):
                with handle_internal_errors("the export at SIGTERM"):
                    self._delivery.flush(_MAX_S)
                time.sleep(_EXPORT_INTERVAL_S)
        finally:
            self._exporting_in = None

    def _die(self) -> None:
        """End the process by the default action of SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        # If this thread blocks the signal, another thread receives it a moment later. If all
        # threads block it, it stays pending, as it would without this handler.
        time.sleep(_DEATH_S)
        signal.signal(signal.SIGTERM, self)
        self._exporting_in = None


def _started(job: Callable[[], None]) -> bool:
    """
    Run ``job`` on a thread of its own, and return whether that was possible.

    It is not while the interpreter shuts down: the last export has happened or is in progress, and
    the process ends by itself.
    """
    try:
        # `threading.Thread` takes locks that the interrupted code may hold.
        _thread.start_new_thread(job, ())
    except RuntimeError:
        return False
    return True


def _threads_are_greenlets() -> bool:
    return not isinstance(_thread.start_new_thread, BuiltinFunctionType)


def _is_busy(frame: FrameType | None) -> bool:
    """Return whether the interrupted code may hold a lock that the export needs."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _BUSY or package.startswith("latspan_"):
            return True
        if package not in sys.stdlib_module_names:
            return False
        frame = frame.f_back
    return False


def _send_again() -> None:
    time.sleep(_AGAIN_AFTER_S)
    os.kill(os.getpid(), signal.SIGTERM)
