"""
Creation of exporters on a thread of its own.

The SDK and the packages of an exporter (requests or grpc, protobuf) take longer to import than
everything else that ``configure`` does. The loader thread imports them and creates the exporters,
one after the other, and ends. ``configure`` has validated the settings before. The thread also
imports the modules of latspan that no call needs before it ends.

**First use.** A thread that needs a part before it is loaded waits until the loader has created it,
or creates it itself. So a program that ends right after ``configure`` loses nothing.

**Forks.** A child inherits the import locks of the modules that another thread was importing, and
no thread that releases them: its own import of such a module would never end. So a fork first waits
until the loader has ended. A program that is started by ``subprocess`` does not wait. Before Python
3.13, ``join`` returns while the operating system's thread is still ending, and OpenSSL, which the
loader has imported, holds a lock for a moment then. A child that inherits that lock waits for it
for ever when it exits, so the fork waits for that thread too.

**Exit.** At the beginning of its end, the interpreter waits until the loader has ended: after that
moment, and before exit handlers run, ``concurrent.futures`` refuses all work, and the SDK and grpc
can no longer be imported. The hook for that moment is not a part of Python's documented interface;
``concurrent.futures`` uses it too. Without it, a program that ends while the loader still runs may
lose its telemetry.

**Exit status.** After an unhandled ``KeyboardInterrupt``, Python ends by SIGINT, so that a shell
sees what has ended the program. It marks this when the program has ended, and code that runs from a
string clears the mark. Dataclasses and named tuples run such code when they are defined, so the
imports of the loader would change the exit status to 1. A string that raises the exception sets the
mark again.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from latspan._base.internal_errors import handle_internal_errors
from latspan._base.log import warn_once
from latspan._live.process.import_locks import Imports
from latspan._live.process.per_process import PerProcess

if TYPE_CHECKING:
    from latspan._live.otel.export import IntervalExporter
    from latspan._model.recording import Snapshot

_T_co = TypeVar("_T_co", covariant=True)

_MAX_WAIT_S: Final = 5.0
"""
Maximum wait of a fork, in seconds. Loading takes some 0.1 s; a longer wait means that the waiting
thread holds an import lock that the loader needs.
"""

_OS_THREAD_POLL_S: Final = 0.0005
"""Interval between two checks whether a thread of the operating system has ended, in seconds."""

_MAX_WAIT_AT_EXIT_S: Final = 60.0
"""
Maximum wait of the interpreter's end, in seconds. The main thread holds no import lock then, so a
longer wait means that the machine is busy.
"""


class DeferredExporter(Generic[_T_co]):
    """
    Exporter that each process creates when it is first needed.

    Args:
        signal: Name of the exported signal, for the log.
        make: Creates the exporter. An exception is logged once.
    """

    def __init__(self, signal: str, make: Callable[[], _T_co]) -> None:
        self._signal = signal
        self._own = PerProcess[_T_co](lambda _: make(), at_once=False)

    def load(self) -> _T_co | None:
        """Return this process's exporter; ``None`` if it cannot be created."""
        if self._own.made() is None and threading.current_thread() not in _threads:
            # A loader imports packages without harm to the application's imports.
            _wait_for_loaders()
        try:
            return self._own()
        except Exception as error:  # noqa: BLE001 - an exporter's package may fail in any way
            warn_once(
                f"{self._signal} are not exported: their exporter could not be created: {error}",
                error,
                about=f"exporter of {self._signal}",
            )
            return None

    def made(self) -> _T_co | None:
        """Return this process's exporter; ``None`` if it has not been created yet."""
        return self._own.made()


class DeferredIntervalExporter:
    """
    Interval exporter over a network that is created when it is first needed.

    Args:
        exporter: Creates the actual exporter.
    """

    local = False

    def __init__(self, exporter: DeferredExporter[IntervalExporter]) -> None:
        self._exporter = exporter
        self._discarded = 0

    @property
    def lost(self) -> int:
        """Number of items that are lost: series if the exporter could not be created."""
        exporter = self._exporter.made()
        return self._discarded + (0 if exporter is None else exporter.lost)

    def send(self, interval: Snapshot, *, last: bool) -> bool:
        """Deliver one interval; return whether everything so far has been delivered."""
        if self._exporter.made() is None and not interval.series:
            # Nothing was recorded, for example in a program that ends at once: nothing to load for.
            return True
        exporter = self._exporter.load()
        if exporter is None:
            self._discarded += len(interval.series)
            return False
        return exporter.send(interval, last=last)

    def shutdown(self, timeout_s: float) -> None:
        """Close connections within ``timeout_s`` seconds."""
        exporter = self._exporter.made()
        if exporter is not None:
            exporter.shutdown(timeout_s)


class Loader:
    """
    Thread that imports modules and creates exporters before they are needed.

    Args:
        imports: Modules of packages that the application may import too.
        loads: Steps after these imports, in this order.
    """

    def __init__(self, imports: Sequence[Imports], loads: Sequence[Callable[[], object]]) -> None:
        self._imports = imports
        self._loads = loads
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. If none can be started any more, each part is created when needed."""
        _wait_at_fork_and_exit()
        thread = threading.Thread(target=self._run, name="latspan-loader", daemon=True)
        # Before the start, so that a fork by another thread cannot miss it.
        _threads.add(thread)
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread

    def stop(self, timeout_s: float) -> None:
        """
        Wait for the end of the thread; if the time is up, skip what is not begun.

        Args:
            timeout_s: Maximum wait, in seconds.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._stopped = True

    def _run(self) -> None:
        for load in (*map(self._importing, self._imports), *self._loads):
            if self._stopped:
                return
            with handle_internal_errors("the loading of exporters"):
                load()

    def _importing(self, imports: Imports) -> Callable[[], None]:
        return lambda: imports.load(lambda: self._stopped)


def load_later_modules() -> None:
    """
    Import the modules of latspan that calls and requests need later than at their start.

    Otherwise, the first call would import them while it is measured.
    """
    for module in (
        "latspan._live.operations._call_end",
        "latspan._live.operations._scope_end",
        "latspan._model.evidence",
        "latspan._live.instrument._promotion",
    ):
        import_module(module)


_threads: Final[weakref.WeakSet[threading.Thread]] = weakref.WeakSet()


def _wait_for_loaders(timeout_s: float = _MAX_WAIT_S) -> None:
    for thread in list(_threads):
        # The error is that the thread is not started yet, or is the current one.
        with suppress(RuntimeError):
            thread.join(timeout_s)


def _wait_before_fork() -> None:
    """Wait until no loader runs, neither in Python nor in the operating system."""
    _wait_for_loaders()
    if sys.version_info >= (3, 13):
        return
    for thread in list(_threads):
        # A thread without a number is not started yet: another thread forks just before its start.
        if thread.native_id is not None and not thread.is_alive():
            # The number of an ended thread may be given to another one: each is checked once.
            _threads.discard(thread)
            _wait_for_os_thread(thread.native_id)


def _wait_for_os_thread(native_id: int) -> None:
    """Wait until a thread has left the process; elsewhere than on Linux, return at once."""
    deadline = time.monotonic() + _MAX_WAIT_S
    entry = Path(f"/proc/self/task/{native_id}")
    while entry.exists() and time.monotonic() < deadline:
        time.sleep(_OS_THREAD_POLL_S)


@functools.cache
def _wait_at_fork_and_exit() -> None:
    """Have forks wait for loaders, and the interpreter's end before it refuses work."""
    # Of each kind of hook, the one that is registered last runs first. This import registers hooks
    # for both: one takes the lock at a fork without which no executor accepts work, and the SDK
    # uses an executor to detect the resource. The other refuses all work at the end.
    import_module("concurrent.futures.thread")
    os.register_at_fork(before=_wait_before_fork)

    register = getattr(threading, "_register_atexit", None)
    # The interpreter is ending already.
    with suppress(RuntimeError):
        if register is not None:
            register(_finish_loading)


def _finish_loading() -> None:
    """Wait for loaders while the interpreter ends, and keep the exit status."""
    if any(thread.is_alive() for thread in list(_threads)):
        _wait_for_loaders(_MAX_WAIT_AT_EXIT_S)
        # In an interactive session, the interrupt may have ended an earlier statement.
        if getattr(sys, "last_type", None) is KeyboardInterrupt and not hasattr(sys, "ps1"):
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")  # noqa: S102 - see the top of this file
