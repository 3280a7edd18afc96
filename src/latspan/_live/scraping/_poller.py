"""
Thread that calls a function at a fixed interval.

A forked child does not have the thread. There the poller gets a new event and a new lock, because a
thread that exists only in the parent may hold the copied ones for ever. `start` starts a thread for
the child.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from latspan._base.fork import register_after_fork
from latspan._base.internal_errors import handle_internal_errors
from latspan._live.otel.context_keys import suppress_instrumentation


def next_due(due: float, now: float, interval: float) -> float:
    """
    Return the time of the next poll: a whole number of intervals later, and not in the past.

    Missed polls are skipped, so that the polls neither drift nor catch up.

    Args:
        due: Time at which the last poll was due.
        now: Current time; all three arguments have the same unit.
        interval: Time between two polls, more than 0.
    """
    missed = max(0, (now - due) // interval)
    return due + (missed + 1) * interval


class Poller:
    """
    Polls on a separate thread until it is stopped, in each process that starts it.

    Instrumentation is suppressed on the thread: polls are neither traced nor counted.

    Args:
        name: Name of the thread.
        poll: Function to call.
        interval_s: Seconds between two polls, more than 0.
    """

    def __init__(self, name: str, poll: Callable[[], None], interval_s: float) -> None:
        self._name = name
        self._poll = poll
        self._interval_s = interval_s
        self._stopped = threading.Event()
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # A forked child does not have the thread, and the event's lock may be held for ever by a
        # thread of the parent.
        was_stopped = self._stopped.is_set()
        self._stopped = threading.Event()
        if was_stopped:
            self._stopped.set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, unless it already runs in this process or was stopped."""
        if self._thread is None and self._starting.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._starting.release()

    def _start(self) -> None:
        if self._thread is None and not self._stopped.is_set():
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # Since Python 3.12, threads cannot start while the interpreter shuts down.
                self._stopped.set()
            else:
                self._thread = thread

    def stop(self) -> None:
        """Make the thread end after the current poll, without waiting for it."""
        self._stopped.set()

    def _run(self) -> None:
        stopped = self._stopped
        due = time.monotonic()
        with suppress_instrumentation():
            while True:
                with handle_internal_errors("a poll of the servers and the host"):
                    self._poll()
                due = next_due(due, time.monotonic(), self._interval_s)
                # An interval may be longer than a thread can wait.
                wait_s = min(due - time.monotonic(), threading.TIMEOUT_MAX)
                if stopped.wait(max(0, wait_s)):
                    return
