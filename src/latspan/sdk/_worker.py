"""latspan's own thread: where finished requests are settled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from latspan._fork import begin_again_in_child

__all__ = ["Worker"]

_logger = logging.getLogger("latspan")

_LIMIT: Final = 10_000
"""Jobs that may wait. Beyond, who brings one does it: late is better than lost."""


class Worker:
    """
    Runs jobs one after another on a thread of its own, in the order in which they came.

    The queue is a ``SimpleQueue``, the one whose ``put`` may be called from a finaliser: a
    stream that is garbage collected ends its call wherever the collector happens to run.

    Args:
        name: The thread's name.
        on_start: Called in each process just before its thread starts, by who starts it.
        when_idle: A job to do again and again when there is no other.
        idle_s: After how long without a job, in seconds, more than 0.
    """

    def __init__(
        self,
        name: str = "latspan-worker",
        *,
        on_start: Callable[[], None] | None = None,
        when_idle: Callable[[], None] | None = None,
        idle_s: float | None = None,
    ) -> None:
        self._name = name
        self._on_start = on_start
        self._when_idle = when_idle
        self._idle_s = None if idle_s is None else min(idle_s, threading.TIMEOUT_MAX)
        self._stopped = False
        self._begin()
        begin_again_in_child(self._begin)

    def _begin(self) -> None:
        # A forked child has no thread, and what waits is the parent's to do.
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` soon; at once, on this thread, when too many wait or it has stopped."""
        if self._stopped or self._jobs.qsize() >= _LIMIT:
            _do(job)
            return
        self._jobs.put(job)
        self.start()

    @property
    def started(self) -> bool:
        """Whether it has had a job in this process."""
        return self._thread is not None

    def runs_here(self) -> bool:
        """Return whether this is its thread, and not that of somebody who brings a job."""
        return threading.current_thread() is self._thread

    def start(self) -> None:
        """Start the thread, unless it runs in this process."""
        if self._thread is None and self._starting.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._starting.release()

    def _start(self) -> None:
        if self._thread is None and not self._stopped:
            if self._on_start is not None:
                _do(self._on_start)
            # At once: its first job may ask whose thread it is on.
            thread = self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # From Python 3.12 on no thread starts any more when the interpreter goes down.
                self._stopped = True
                self._thread = None
                self._finish_here()

    def _finish_here(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            if job is not None:
                _do(job)

    def waiting(self) -> int:
        """Return how many jobs wait, more or less."""
        return self._jobs.qsize()

    def drain(self, timeout_s: float | None = None) -> bool:
        """
        Wait until every job that was submitted before is done.

        Args:
            timeout_s: How long to wait at most; ``None`` waits as long as it takes.

        Returns:
            Whether they are done.
        """
        if self._stopped or self._thread is None or self.runs_here():
            return True
        done = threading.Event()
        self._jobs.put(done.set)
        return done.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Finish what waits, at most ``timeout_s`` seconds long, and end the thread."""
        drained = self.drain(timeout_s)
        self._stopped = True
        self._jobs.put(None)
        return drained

    def _run(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s)
            except Empty:
                job = self._when_idle or _nothing
            if job is None:
                return
            try:
                _do(job)
            except BaseException:
                # Here it ends nothing but the job; on a caller's thread it is the caller's.
                _logger.exception("latspan lost the telemetry of a request")


def _nothing() -> None:
    pass


def _do(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:
        _logger.exception("latspan lost the telemetry of a request")
