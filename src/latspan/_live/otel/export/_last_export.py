"""
Time limit of the last export, which ends early if the receiver is unavailable.

**Threads.** The export thread sends inside `observing()`, and reports what happens to each attempt
through the class methods `accepted` and `failed`, which find the object of their thread. The
thread that ends the process calls `begin` and then `wait`.

**Giving up.** `wait` returns before its timeout in two situations. *Silence*: the receiver has not
accepted a message for the given time. Each accepted message restarts this time, so a slow receiver
is not cut off. *Failure*: an attempt failed, and the attempt before `begin` did not succeed either,
or there was none. A receiver that accepted the message before gets further attempts until the time
of silence is over, because it may be restarting.

**A process that stands still.** The system may stop the process or give it no processor, for
example when a container has used up its share. The receiver cannot answer it in that time, so the
time does not count. `wait` therefore waits in short steps; a step that takes much longer than
requested shows how long the process stood still.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from latspan._base.clock import Clock, SystemClock
from latspan._base.fork import register_after_fork
from latspan._base.nanoseconds import NS_PER_S
from latspan._model.units import from_unit

_STEP_NS: Final = NS_PER_S // 10
"""Longest step of a wait, and how late it may end before the process counts as standing still."""

_observing = threading.local()


class LastExport:
    """
    Time limit of the last export of one thread.

    Args:
        clock: Clock that the time of silence is measured with.
    """

    _stood_still_ns: int = 0
    """Nanoseconds that this process stood still while one of its threads waited."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._begin_again()
        register_after_fork(self._begin_again)

    def _begin_again(self) -> None:
        # A forked child has no result of its own yet.
        self._changed = threading.Condition()
        self._reachable = False
        self._tries_again = True
        self._gives_up = False
        self._silent_ns: int | None = None
        self._until_ns = 0

    @contextmanager
    def observing(self) -> Generator[None]:
        """Receive the results of the messages that this thread sends inside the block."""
        outer: LastExport | None = getattr(_observing, "one", None)
        _observing.one = self
        try:
            yield
        finally:
            _observing.one = outer

    @staticmethod
    def accepted() -> None:
        """Record that the receiver accepted a message of this thread."""
        one: LastExport | None = getattr(_observing, "one", None)
        if one is not None:
            one.note(reachable=True)

    @staticmethod
    def failed() -> None:
        """Record that an attempt of this thread failed and might succeed later."""
        one: LastExport | None = getattr(_observing, "one", None)
        if one is not None:
            one.note(reachable=False)

    def note(self, *, reachable: bool) -> None:
        """Record the result of an attempt."""
        with self._changed:
            self._reachable = reachable
            if reachable:
                self._restart()
            elif not self._tries_again:
                self._gives_up = True
            self._changed.notify_all()

    def begin(self, silence_s: float | None) -> None:
        """
        Begin the last export.

        Args:
            silence_s: Time without an accepted message after which the export is given up, in
                seconds; ``None`` only keeps to the timeout of :meth:`wait`.
        """
        with self._changed:
            if silence_s is not None:
                self._silent_ns = from_unit(silence_s, "s")
                self._tries_again = self._reachable
                self._restart()

    @property
    def left_s(self) -> float | None:
        """Seconds until the export is given up, at least 0; ``None`` if there is no such limit."""
        if self._silent_ns is None:
            return None
        if self._gives_up:
            return 0.0
        return max(self._until_ns - self._now_ns(), 0) / NS_PER_S

    def notify(self) -> None:
        """Wake the waiting thread, because what it waits for may have happened."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """
        Wait until the export is done, or is given up.

        Args:
            is_done: Returns whether it is done; :meth:`notify` has it called again.
            timeout_s: Maximum wait, in seconds.

        Returns:
            Whether it is done.
        """
        with self._changed:
            before_ns = self._now_ns()
            ends_ns = before_ns + from_unit(timeout_s, "s")
            while True:
                # Also if it is done by now: another export is waited for after this one.
                is_over = is_done()
                late_ns = self._now_ns() - before_ns - _STEP_NS
                if late_ns > _STEP_NS:
                    LastExport._stood_still_ns += late_ns
                if is_over:
                    return True
                before_ns = self._now_ns()
                left_s = (ends_ns - before_ns) / NS_PER_S
                if self.left_s is not None:
                    left_s = min(left_s, self.left_s)
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, _STEP_NS / NS_PER_S))

    def _now_ns(self) -> int:
        """Return the time without that in which this process stood still, in nanoseconds."""
        return self._clock.monotonic_ns() - LastExport._stood_still_ns

    def _restart(self) -> None:
        if self._silent_ns is not None:
            self._until_ns = self._now_ns() + self._silent_ns
