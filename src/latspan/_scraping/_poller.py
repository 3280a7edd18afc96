"""A thread that does one thing again and again, at the same pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from opentelemetry.instrumentation.utils import suppress_instrumentation

from latspan._fork import register_after_fork
from latspan._runtime import handle_internal_errors

__all__ = ["Poller", "next_due"]


def next_due(due: float, now: float, interval: float) -> float:
    """
    Return when to poll next: a whole number of intervals later, and not in the past.

    What was missed is left out, so that the pace neither drifts nor catches up.

    Args:
        due: When the last poll was due.
        now: What time it is; all three in one unit.
        interval: The pace, more than 0.
    """
    missed = max(0, (now - due) // interval)
    return due + (missed + 1) * interval


class Poller:
    """
    Polls on a thread of its own until it is stopped; in each process that starts it.

    Whatever it does is neither traced nor counted.

    Args:
        name: The thread's name.
        poll: What to do.
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
        # In a forked child there is no thread, and the event's lock may be somebody's for ever.
        was_stopped = self._stopped.is_set()
        self._stopped = threading.Event()
        if was_stopped:
            self._stopped.set()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Start the thread, unless it runs in this process or was stopped."""
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
                # From Python 3.12 on no thread starts any more when the interpreter goes down.
                self._stopped.set()
            else:
                self._thread = thread

    def stop(self) -> None:
        """End the thread, as soon as a poll that is under way is over; nobody waits for that."""
        self._stopped.set()

    def _run(self) -> None:
        stopped = self._stopped
        due = time.monotonic()
        with suppress_instrumentation():
            while True:
                with handle_internal_errors("a poll of what happens around requests"):
                    self._poll()
                due = next_due(due, time.monotonic(), self._interval_s)
                # An interval may be longer than a thread can wait.
                wait_s = min(due - time.monotonic(), threading.TIMEOUT_MAX)
                if stopped.wait(max(0, wait_s)):
                    return
