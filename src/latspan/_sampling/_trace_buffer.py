"""Traces whose end is awaited, and what of them has ended meanwhile."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from latspan._fork import register_after_fork
from latspan._sampling._decisions import Ended, Verdicts
from latspan._units import NS_PER_S

__all__ = ["HeldTrace", "TraceBuffer"]

MOST_OF_ONE: Final = 500
MOST_OF_ALL: Final = 5_000
"""Spans with their segments: some 5 kB each."""

MOST_EXAMPLES: Final = 1_000
"""Records of long streams take 50 kB; without them an interval names other traces."""

LONGEST_NS: Final = 600 * NS_PER_S
_LOOK_EVERY_NS: Final = 60 * NS_PER_S
_REMEMBERED: Final = 1_000
"""Traces that were kept, for what begins in them after their end."""


class HeldTrace:
    """
    What this process knows of a trace. Changed by :class:`TraceBuffer` alone.

    Args:
        trace_id: Its id.
        begun_epoch_ns: Unix time at which it began here, in nanoseconds.
        kept: Whether it is kept, as far as that is known already.
    """

    __slots__ = (
        "begun_epoch_ns",
        "examples",
        "first_token_ns",
        "held",
        "is_judged",
        "is_over",
        "kept",
        "not_held",
        "trace_id",
        "unfinished",
    )

    def __init__(self, trace_id: int, begun_epoch_ns: int, *, kept: bool) -> None:
        self.trace_id = trace_id
        self.begun_epoch_ns = begun_epoch_ns
        self.kept: bool | None = kept or None
        self.is_judged = False
        self.is_over = False
        self.first_token_ns: int | None = None
        # One for each span that is open: appended and popped atomically, on any thread.
        self.unfinished: list[bool] = []
        self.held: list[Callable[[], None]] = []
        self.examples: list[Callable[[], None]] = []
        self.not_held = 0


class TraceBuffer:
    """
    Holds what has ended of traces until it is known whether they are kept.

    A trace is kept as soon as anything in it fails, or when an outermost unit of work has ended
    and the verdict is so. It is left out when the last of its spans has ended, and nothing spoke
    for it. Safe to use from many threads and from finalisers, which may run inside any lock: what
    happens is queued, and done by whoever gets the lock without waiting.

    Args:
        verdicts: Returns what decides, made anew in each forked child.
    """

    def __init__(self, verdicts: Callable[[], Verdicts]) -> None:
        self._make_verdicts = verdicts
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # What has ended in a parent is the parent's to keep.
        self._verdicts = self._make_verdicts()
        self._traces: dict[int, HeldTrace] = {}
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._events: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._held = self._examples = self._looked_epoch_ns = 0
        self._left_out = self._lost = 0

    @property
    def left_out(self) -> int:
        """How many traces were not kept, in this process."""
        return self._left_out

    @property
    def lost(self) -> int:
        """How many spans of traces that are kept were lost, because too many were held."""
        return self._lost

    def open(self, trace_id: int, begun_epoch_ns: int, *, is_late: bool) -> HeldTrace:
        """
        Note that a span of a trace begins.

        Args:
            trace_id: The trace.
            begun_epoch_ns: When, Unix nanoseconds.
            is_late: Whether its parent is of this process, and so no new unit of work where the
                trace has ended.
        """
        trace = self._begun(trace_id, begun_epoch_ns, is_late=is_late)
        while trace.is_over:
            # Its last span has just ended on another thread, and this one begins it anew. It is
            # not waited for: this may be a finaliser on the very thread that is closing it.
            trace.unfinished.pop()
            if self._traces.get(trace_id) is trace:
                self._traces.pop(trace_id, None)
            self._soon(partial(self._close_if_over, trace))
            trace = self._begun(trace_id, begun_epoch_ns, is_late=is_late)
        return trace

    def _begun(self, trace_id: int, begun_epoch_ns: int, *, is_late: bool) -> HeldTrace:
        """Return the trace, with one span more that is open, whether or not it is over by now."""
        trace = self._traces.get(trace_id)
        if trace is None:
            kept = (is_late and trace_id in self._kept) or self._verdicts.by_chance(trace_id)
            fresh = HeldTrace(trace_id, begun_epoch_ns, kept=kept)
            trace = self._traces.setdefault(trace_id, fresh)
        trace.unfinished.append(True)
        return trace

    def end(
        self,
        trace: HeldTrace,
        finish: Callable[[], None],
        *,
        end_epoch_ns: int,
        spans: int,
        failed: bool,
        first_token_ns: int | None,
        ended: Ended | None,
    ) -> None:
        """
        Note that a span has ended.

        Args:
            trace: What :meth:`open` returned for it.
            finish: Hands it on.
            end_epoch_ns: When, Unix nanoseconds.
            spans: How many it is, children included.
            failed: Whether it failed.
            first_token_ns: Nanoseconds from its start to its first token, if it streamed.
            ended: Of an outermost unit of work, what the verdict is about.
        """

        def happened() -> None:
            trace.unfinished.pop()
            if first_token_ns is not None:
                trace.first_token_ns = max(trace.first_token_ns or 0, first_token_ns)
            if failed and trace.kept is None:
                self._keep(trace)
            if ended is not None:
                self._judge(trace, ended)
            if trace.kept or (failed and trace.kept is False):
                finish()
            elif trace.kept is None:
                self._hold(trace, finish, spans)
            self._close_if_over(trace)
            self._let_go_of_old(end_epoch_ns)

        self._soon(happened)

    def when_kept(self, trace: HeldTrace, do: Callable[[], None]) -> None:
        """Call ``do`` once the trace is kept, if it is."""

        def asked() -> None:
            if trace.kept:
                do()
            elif trace.kept is None and self._examples < MOST_EXAMPLES:
                self._examples += 1
                trace.examples.append(do)

        self._soon(asked)

    def hand_on(self, trace_id: int, finish: Callable[[], None], *, spans: int) -> None:
        """Hand on spans that ended beneath one of a trace, or hold them with it."""

        def happened() -> None:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.kept is None:
                self._hold(trace, finish, spans)
            else:
                finish()

        self._soon(happened)

    def release(self) -> None:
        """Keep what is open: nobody waits for its end any more."""

        def released() -> None:
            for trace in list(self._traces.values()):
                self._let_go(trace)

        self._soon(released)

    def _soon(self, event: Callable[[], None]) -> None:
        self._events.append(event)
        # Again: who holds the lock may have looked for the last time before this one came.
        while self._events and self._lock.acquire(blocking=False):
            try:
                for happen in self._waiting():
                    happen()
            finally:
                self._lock.release()

    def _waiting(self) -> Iterator[Callable[[], None]]:
        while True:
            try:
                yield self._events.popleft()
            except IndexError:
                return

    def _judge(self, trace: HeldTrace, ended: Ended) -> None:
        trace.is_judged = True
        first_token_ns = trace.first_token_ns
        known = ended._replace(first_token_ns=first_token_ns, kept=trace.kept is True)
        if self._verdicts.keeps(known) and trace.kept is None:
            self._keep(trace)

    def _hold(self, trace: HeldTrace, finish: Callable[[], None], spans: int) -> None:
        if len(trace.held) >= MOST_OF_ONE or self._held >= MOST_OF_ALL:
            trace.not_held += spans
            return
        trace.held.append(finish)
        self._held += 1

    def _keep(self, trace: HeldTrace) -> None:
        trace.kept = True
        self._lost += trace.not_held
        held, examples = trace.held, trace.examples
        self._forget_held(trace)
        for each in (*held, *examples):
            each()

    def _close_if_over(self, trace: HeldTrace) -> None:
        """
        Close a trace of which no span is open.

        Spans begin without the lock. One that begins before this has looked keeps the trace open;
        one that begins later sees that the trace is over. So none is added to what is closed.
        """
        trace.is_over = True
        if trace.unfinished:
            trace.is_over = False
        else:
            self._close(trace)

    def _close(self, trace: HeldTrace) -> None:
        """Forget a trace that is over, or waits for no one; left out unless it is kept."""
        trace.is_over = True
        if trace.kept:
            # First, for what begins in it from now on.
            self._kept[trace.trace_id] = None
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
        if self._traces.get(trace.trace_id) is trace:
            del self._traces[trace.trace_id]
        if trace.kept is None:
            trace.kept = False
            self._left_out += 1
            self._forget_held(trace)

    def _forget_held(self, trace: HeldTrace) -> None:
        self._held -= len(trace.held)
        self._examples -= len(trace.examples)
        trace.held, trace.examples = [], []

    def _let_go_of_old(self, now_epoch_ns: int) -> None:
        if now_epoch_ns - self._looked_epoch_ns < _LOOK_EVERY_NS:
            return
        self._looked_epoch_ns = now_epoch_ns
        # A copy, made at once: others begin traces meanwhile.
        for trace in list(self._traces.values()):
            if now_epoch_ns - trace.begun_epoch_ns > LONGEST_NS:
                self._let_go(trace)

    def _let_go(self, trace: HeldTrace) -> None:
        """Wait no longer: what has not ended matters, and what has is judged."""
        if trace.kept is None and not trace.is_judged:
            self._keep(trace)
        self._close(trace)
