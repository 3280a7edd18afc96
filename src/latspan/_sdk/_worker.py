"""latspan's own thread: where finished requests are settled."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from latspan._fork import register_after_fork
from latspan._log import logger

__all__ = ["Worker"]


_LIMIT: Final = 10_000
"""Jobs that may wait. Beyond, who brings one does it: late is better than lost."""

_NAP_S: Final = 0.1
_NAPS: Final = 20
"""So many naps a patient worker takes after a job, before it sleeps until it is woken."""


class Worker:
    """
    Runs jobs one after another on a thread of its own, in the order in which they came.

    To wake a thread costs who wakes it a system call, and on a virtual machine an interrupt of
    another core: up to 0.1 ms on the thread of an application that has just had its answer. A
    patient worker is woken only where it has been without a job for two seconds. Otherwise it
    looks for itself, ten times a second, and does at once all that has come.

    The bell is a ``SimpleQueue``, whose ``put`` may be called from a finaliser: a stream that is
    garbage collected ends its call wherever the collector happens to run.

    Args:
        name: The thread's name.
        on_start: Called in each process just before its thread starts, by who starts it.
        when_idle: A job to do again and again when there is no other.
        idle_s: After how long without a job, in seconds, more than 0.
        patient: Whether a job may wait for 0.1 s, to spare who brings it the waking.
    """

    def __init__(
        self,
        name: str = "latspan-worker",
        *,
        on_start: Callable[[], None] | None = None,
        when_idle: Callable[[], None] | None = None,
        idle_s: float | None = None,
        patient: bool = False,
    ) -> None:
        self._name = name
        self._on_start = on_start
        self._when_idle = when_idle
        self._idle_s = None if idle_s is None else min(idle_s, threading.TIMEOUT_MAX)
        self._naps = _NAPS if patient else 0
        self._stopped = False
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # A forked child has no thread, and what waits is the parent's to do.
        self._jobs: deque[Callable[[], None]] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._asleep = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, job: Callable[[], None]) -> None:
        """Run ``job`` soon; at once, on this thread, when too many wait or it has stopped."""
        if self._stopped or len(self._jobs) >= _LIMIT:
            _do(job)
            return
        self._bring(job)
        if self._asleep:
            self._bell.put(None)
        elif self._thread is None:
            self.start()

    def _bring(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if self._stopped:
            # Meanwhile: its thread may not have seen the job.
            self._do_what_waits()

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
                self._do_what_waits()

    def waiting(self) -> int:
        """Return how many jobs wait, more or less."""
        return len(self._jobs)

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
        self._bring(done.set)
        self._bell.put(None)
        return done.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Finish what waits, at most ``timeout_s`` seconds long, and end the thread."""
        drained = self.drain(timeout_s)
        self._stopped = True
        self._bell.put(None)
        return drained

    def _run(self) -> None:
        naps_left = 0
        while self._jobs or not self._stopped:
            try:
                if self._jobs:
                    naps_left = self._naps
                    self._do_what_waits()
                elif naps_left:
                    naps_left -= 1
                    self._rest(_NAP_S)
                elif not self._sleep() and self._when_idle is not None:
                    _do(self._when_idle)
            except BaseException:
                # Here it ends nothing but the job; on a caller's thread it is the caller's.
                logger.exception(_LOST)

    def _do_what_waits(self) -> None:
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            _do(job)

    def _sleep(self) -> bool:
        """Return whether there is something to do, as soon as there is or it has been idle."""
        self._asleep = True
        try:
            # Who brought a job before that did not ring.
            return bool(self._jobs) or self._stopped or self._rest(self._idle_s)
        finally:
            self._asleep = False

    def _rest(self, longest_s: float | None) -> bool:
        """Return whether the bell rang, as soon as it does."""
        try:
            self._bell.get(timeout=longest_s)
        except Empty:
            return False
        # Whoever rang brought something first, and all of that is seen now.
        while not self._bell.empty():
            self._bell.get_nowait()
        return True


_LOST: Final = "latspan lost the telemetry of a request"


def _do(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:
        logger.exception(_LOST)
