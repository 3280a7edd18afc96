"""
Worker thread of latspan: it processes finished requests.

**Submitting.** Any thread may submit a job, also in a finaliser or a signal handler, so ``submit``
never waits for a lock. It appends the job to a deque and, only if necessary, wakes the thread
through a ``SimpleQueue``, whose ``put`` is safe in a finaliser. Jobs run one after another in the
order of submission. If the queue is full or the worker has stopped, the submitter runs its job
itself; so a job must not assume that it runs on the worker thread.

**Giving way.** The thread works in slices of 0.2 ms, and gives way to other threads after a job
that uses its slice up. A job that takes longer calls ``give_way`` itself.

**Sleeping.** A job must not be left in the queue while the thread sleeps. The thread sets
``_asleep`` before it looks at the deque for the last time; a submitter appends its job before it
reads ``_asleep``. So either the thread finds the job, or the submitter wakes the thread.

**Polling.** A worker with the argument ``poll_s`` polls: for two seconds after a job, it looks at
the deque at regular intervals, and submitters need not wake it. This costs CPU time on the worker
thread, and saves it on the threads of the submitters. ``stop_polling`` switches polling off, for a
process in which the CPU time of all threads matters.

**Stopping.** The thread may end between the two steps of a submitter: the check of ``_stopped`` and
the append. The submitter therefore checks ``_stopped`` again after the append. If it is set, the
submitter runs the queued jobs itself.

**Forks.** A forked child does not have the thread, and the queued jobs are the parent's. The child
begins with empty queues, and starts a thread with its first job.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from latspan._base.fork import register_after_fork
from latspan._base.log import logger
from latspan._base.slices import Slices, give_way

_LIMIT: Final = 10_000
"""Maximum number of queued jobs. Past it, ``submit`` runs the job on the caller's thread."""

_POLLING_S: Final = 2.0
"""Seconds without a job after which a polling worker sleeps until it is woken."""


class Worker:
    """
    Runs jobs one after another on its own thread, in the order of submission.

    The thread that wakes another thread makes a system call and, on a virtual machine, interrupts
    another core. This takes an application thread up to 0.1 ms, just after it has received its
    response. A polling worker is woken only if it has had no job for two seconds. Until then it
    polls, and each poll runs all queued jobs.

    Finalisers submit jobs too: a stream that is garbage collected ends its call on the thread that
    runs the collector.

    Args:
        name: Name of the thread.
        on_start: Called in each process before the thread starts, on the thread that starts it.
        when_idle: Job to repeat while there is no other.
        idle_s: Seconds without a job before ``when_idle`` runs, more than 0.
        slices: Division of the work into slices; of the usual length unless given.
        poll_s: Seconds between two polls. A job waits at most this long for an idle worker, and
            its submitter does not have to wake the thread. ``None`` if each job wakes the thread.

    Attributes:
        thread: The thread; ``None`` before it has been started in this process.
    """

    def __init__(
        self,
        name: str = "latspan-worker",
        *,
        on_start: Callable[[], None] | None = None,
        when_idle: Callable[[], None] | None = None,
        idle_s: float | None = None,
        poll_s: float | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._name = name
        self._on_start = on_start
        self._when_idle = when_idle
        self._idle_s = None if idle_s is None else min(idle_s, threading.TIMEOUT_MAX)
        self._poll_s = poll_s or 0.0
        self._polls = round(_POLLING_S / poll_s) if poll_s else 0
        self._delay_s = 0.0
        self._stopped = False
        self._slices = Slices() if slices is None else slices
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # A forked child has no thread, and the queued jobs are the parent's.
        self._jobs: deque[Callable[[], None]] = deque()
        self._wakeup: SimpleQueue[None] = SimpleQueue()
        self._asleep = False
        self.thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, job: Callable[[], None]) -> None:
        """Queue ``job``; if the queue is full or the worker has stopped, the caller runs it."""
        if self._stopped or len(self._jobs) >= _LIMIT:
            _do(job)
            return
        self._jobs.append(job)
        if self._stopped:
            # The worker was stopped in the meantime, and its thread may not have seen the job.
            self._run_jobs()
        elif self._asleep:
            self._wakeup.put(None)
        elif self.thread is None:
            self.start()

    def runs_here(self) -> bool:
        """Return whether the current thread is the worker's, and not that of a submitter."""
        return threading.current_thread() is self.thread

    def start(self) -> None:
        """Start the thread, unless it is already running in this process."""
        if self.thread is None and self._starting.acquire(blocking=False):
            try:
                self._start()
            finally:
                self._starting.release()

    def _start(self) -> None:
        if self.thread is None and not self._stopped:
            if self._on_start is not None:
                _do(self._on_start)
            # Assigned before the start, because the first job may call `runs_here`.
            thread = self.thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # From Python 3.12 on, no thread can start while the interpreter shuts down.
                self._stopped = True
                self.thread = None
                self._run_jobs()

    def waiting(self) -> int:
        """Return the approximate number of queued jobs."""
        return len(self._jobs)

    def drain(self, timeout_s: float | None = None) -> bool:
        """
        Wait until every job that was submitted before this call is done.

        On the worker thread, return true at once without waiting.

        Args:
            timeout_s: Maximum wait, in seconds; ``None`` waits without limit.

        Returns:
            Whether they are done.
        """
        if self._stopped or self.thread is None or self.runs_here():
            return True
        done = threading.Event()
        self._jobs.append(done.set)
        if self._stopped:
            self._run_jobs()
        self._wakeup.put(None)
        return done.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """End the thread after the queued jobs; return whether they ended in ``timeout_s`` s."""
        self.hurry()
        drained = self.drain(timeout_s)
        self._stopped = True
        self._wakeup.put(None)
        return drained

    def stop_polling(self) -> None:
        """
        Sleep whenever no job is queued, until the next job wakes the thread.

        A woken thread first waits for ``poll_s`` seconds, so that it does not compete with the
        submitter for the processor.
        """
        self._polls = 0
        self._delay_s = self._poll_s

    def hurry(self) -> None:
        """Finish the queued jobs without giving way: another thread waits for the last of them."""
        self._slices.hurry()

    def _run(self) -> None:
        with self._slices.here():
            self._run_until_stopped()

    def _run_until_stopped(self) -> None:
        polls_left = 0
        while self._jobs or not self._stopped:
            try:
                if self._jobs:
                    polls_left = self._polls
                    self._run_jobs()
                elif polls_left:
                    polls_left -= 1
                    self._rest(self._poll_s)
                elif self._sleep():
                    if self._delay_s:
                        self._rest(self._delay_s)
                elif self._when_idle is not None:
                    _do(self._when_idle)
            except BaseException:
                # If a job raises a `BaseException` such as `SystemExit` on this thread, only this
                # job ends and the thread continues. If the job runs on a caller's thread, the
                # exception reaches the caller.
                logger.exception(_LOST)

    def _run_jobs(self) -> None:
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:
                return
            _do(job)
            give_way()

    def _sleep(self) -> bool:
        """Wait for a job or the end of the idle time, and return whether there is work to do."""
        self._asleep = True
        try:
            # A job that was added before `_asleep` was set did not wake the thread.
            return bool(self._jobs) or self._stopped or self._rest(self._idle_s)
        finally:
            self._asleep = False

    def _rest(self, timeout_s: float | None) -> bool:
        """Wait at most ``timeout_s`` seconds; return whether the thread was woken."""
        try:
            self._wakeup.get(timeout=timeout_s)
        except Empty:
            return False
        # A submitter adds its job before it wakes the thread, so all of those jobs are visible now.
        while not self._wakeup.empty():
            self._wakeup.get_nowait()
        return True


_LOST: Final = "latspan lost the telemetry of a request"


def _do(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:
        logger.exception(_LOST)
