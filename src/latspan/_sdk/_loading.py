"""
Creation of exporters on a thread of its own.

The packages of an exporter (requests or grpc, protobuf, a part of the SDK) take longer to import
than everything else that ``configure`` does. The loader thread imports them and creates the
exporters, one after the other, and ends. ``configure`` has validated the settings before.

**First export.** An export thread that needs an exporter waits until the loader has created it, or
creates it itself. So a program that ends right after ``configure`` loses nothing.

**Forks.** A child inherits the import locks of the modules that another thread was importing, and
no thread that releases them: its own import of such a module would never end. So a fork first waits
until the loader has ended. A program that is started by ``subprocess`` does not wait.

**Exit.** The loader is a daemon thread, and such a thread must not import an extension module while
the interpreter ends. So ``stop`` skips the exporters that were not begun, and waits for the current
one.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from latspan._sdk._per_process import PerProcess
from latspan._warn_once import warn_once

if TYPE_CHECKING:
    from latspan._export import IntervalExporter
    from latspan._recording import Snapshot

__all__ = ["DeferredExporter", "DeferredIntervalExporter", "Loader"]

_T_co = TypeVar("_T_co", covariant=True)

_LONGEST_FORK_WAIT_S: Final = 5.0
"""
Maximum wait of a fork, in seconds. Loading takes some 0.1 s; a longer wait means that the forking
thread holds an import lock that the loader needs.
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

    def send(self, interval: Snapshot, *, last: bool) -> bool:
        """Deliver one interval; return whether everything so far has been delivered."""
        exporter = self._exporter.load()
        return exporter is not None and exporter.send(interval, last=last)

    def shutdown(self, timeout_s: float) -> None:
        """Close connections within ``timeout_s`` seconds."""
        exporter = self._exporter.made()
        if exporter is not None:
            exporter.shutdown(timeout_s)


class Loader:
    """
    Thread that creates exporters before they are needed.

    Args:
        exporters: The exporters, in the order in which they are created.
    """

    def __init__(self, exporters: Sequence[DeferredExporter[object]]) -> None:
        self._exporters = exporters
        self._stopped = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if there is anything to load."""
        if not self._exporters:
            return
        self._thread = threading.Thread(target=self._run, name="latspan-loader", daemon=True)
        _threads.add(self._thread)
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """
        Skip the exporters that are not begun, and wait for the current one.

        Args:
            timeout_s: Maximum wait, in seconds.
        """
        self._stopped = True
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        for exporter in self._exporters:
            if self._stopped:
                return
            exporter.load()


_threads: Final[weakref.WeakSet[threading.Thread]] = weakref.WeakSet()


def _wait_for_loaders() -> None:
    for thread in list(_threads):
        if thread is not threading.current_thread():
            thread.join(_LONGEST_FORK_WAIT_S)


os.register_at_fork(before=_wait_for_loaders)
