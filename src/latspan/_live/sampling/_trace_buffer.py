"""
Buffer of the ended spans of open traces.

**States of a trace.** ``kept`` is ``None`` while the trace is undecided, then ``True`` or
``False``. A trace in the random sample is kept from its start. Any other trace is undecided at
first, and holds its ended spans. It is kept as soon as a span fails or a decision is positive, and
dropped if it is still undecided when its last span ends. Whether kept or dropped, a trace is closed
once none of its spans is open; a later span of the same trace id begins a new entry.

**Threads.** Spans begin and end on any thread, and in finalisers, which may run while the same
thread holds the lock. Therefore nothing here waits for the lock. Beginning a span takes no lock: it
uses only atomic operations on the dict of traces and on the trace's list of open spans. Every other
change is an event in a queue. The thread that gets the lock without waiting handles all queued
events, its own and those of other threads. A span must never be added to a closed trace;
:meth:`TraceBuffer._close_if_over` describes how opening and closing threads ensure this.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from latspan._base.fork import register_after_fork
from latspan._base.nanoseconds import NS_PER_S
from latspan._live.sampling._decisions import Decisions, Ended

MAX_SPANS_PER_TRACE: Final = 500
"""Maximum number of held spans of a trace, without children. Others are lost if it is kept."""

MAX_SPANS: Final = 5_000
"""Maximum number of held spans of all traces; a span with its segments takes about 5 kB."""

MAX_HELD_EXEMPLARS: Final = 1_000
"""
Maximum number of held exemplars: recorded requests that are offered as exemplars once their trace
is kept.

The record of a long stream takes 50 kB. Past the limit, the exemplars of the interval refer
to other traces.
"""

MAX_HELD_NS: Final = 600 * NS_PER_S
"""Age in nanoseconds from which the end of an open trace is no longer awaited."""

_LOOK_EVERY_NS: Final = 60 * NS_PER_S
_REMEMBERED: Final = 1_000
"""Number of kept traces to remember, so that a span that begins after its trace ended is kept."""


class HeldTrace:
    """
    State of a trace in this process. Only :class:`TraceBuffer` changes it.

    Args:
        trace_id: Id of the trace.
        begun_epoch_ns: Unix time at which it began in this process, in nanoseconds.
        kept: Whether the trace is already known to be kept.
    """

    __slots__ = (
        "begun_epoch_ns",
        "exemplars",
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
        # One item per open span; any thread appends and pops, and both are atomic.
        self.unfinished: list[bool] = []
        self.held: list[Callable[[], None]] = []
        self.exemplars: list[Callable[[], None]] = []
        self.not_held = 0


class TraceBuffer:
    """
    Holds the ended spans of traces until the decision to keep or drop them.

    A trace is kept from its start if it is in the random sample; otherwise as soon as a span in it
    fails, or when an outermost span has ended and the decision is to keep the trace. If neither has
    happened when the last span ends, the trace is dropped. Safe to use from many threads and from
    finalisers, which may run inside any lock: events are queued, and the thread that gets the lock
    without waiting handles them.

    Args:
        decisions: Returns the object that decides; called again in each forked child.
    """

    def __init__(self, decisions: Callable[[], Decisions]) -> None:
        self._make_verdicts = decisions
        self._begin()
        register_after_fork(self._begin)

    def _begin(self) -> None:
        # A forked child begins empty: the parent process keeps or drops the spans that ended in it.
        self._verdicts = self._make_verdicts()
        self._traces: dict[int, HeldTrace] = {}
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._events: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._held = self._exemplars = self._looked_epoch_ns = 0
        self._left_out = self._lost = 0

    @property
    def sampled_out(self) -> int:
        """Number of traces that this process dropped."""
        return self._left_out

    @property
    def lost(self) -> int:
        """Number of spans of kept traces that were lost because too many spans were held."""
        return self._lost

    def open(self, trace_id: int, begun_epoch_ns: int, *, has_local_parent: bool) -> HeldTrace:
        """
        Record that a span of a trace begins.

        Args:
            trace_id: Id of the trace.
            begun_epoch_ns: Start of the span, Unix time in nanoseconds.
            has_local_parent: Whether the parent of the span is in this process. A span with such a
                parent is kept if its trace has already ended and was kept.
        """
        trace = self._begun(trace_id, begun_epoch_ns, has_local_parent=has_local_parent)
        while trace.is_over:
            # The trace is being closed after its last span, so this span begins a new one. The call
            # must not wait: it may be in a finaliser on the thread that is closing.
            trace.unfinished.pop()
            if self._traces.get(trace_id) is trace:
                self._traces.pop(trace_id, None)
            self._soon(partial(self._close_if_over, trace))
            trace = self._begun(trace_id, begun_epoch_ns, has_local_parent=has_local_parent)
        return trace

    def _begun(self, trace_id: int, begun_epoch_ns: int, *, has_local_parent: bool) -> HeldTrace:
        """Return the trace with one more open span; the trace may be over by then."""
        trace = self._traces.get(trace_id)
        if trace is None:
            was_kept = has_local_parent and trace_id in self._kept
            kept = was_kept or self._verdicts.by_chance(trace_id)
            fresh = HeldTrace(trace_id, begun_epoch_ns, kept=kept)
            trace = self._traces.setdefault(trace_id, fresh)
        trace.unfinished.append(True)
        return trace

    def end(
        self,
        trace: HeldTrace,
        end: Callable[[], None],
        *,
        end_epoch_ns: int,
        spans: int,
        failed: bool,
        first_token_ns: int | None,
        ended: Ended | None,
    ) -> None:
        """
        Record that a span has ended.

        Args:
            trace: Result of :meth:`open` for the span.
            end: Passes the span on.
            end_epoch_ns: End of the span, Unix time in nanoseconds.
            spans: Number of spans, children included.
            failed: Whether the span failed.
            first_token_ns: Nanoseconds from its start to its first token, if it streamed.
            ended: Data for the decision, if the span is an outermost one.
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
                end()
            elif trace.kept is None:
                self._hold(trace, end, spans)
            self._close_if_over(trace)
            self._let_go_of_old(end_epoch_ns)

        self._soon(happened)

    def when_kept(self, trace: HeldTrace, do: Callable[[], None]) -> None:
        """Call ``do`` when the trace is kept; not if it is dropped, or too many calls are held."""

        def happened() -> None:
            if trace.kept:
                do()
            elif trace.kept is None and self._exemplars < MAX_HELD_EXEMPLARS:
                self._exemplars += 1
                trace.exemplars.append(do)

        self._soon(happened)

    def hand_on(self, trace_id: int, end: Callable[[], None], *, spans: int) -> None:
        """Hold ended child spans while their trace is undecided; pass them on at once otherwise."""

        def happened() -> None:
            trace = self._traces.get(trace_id)
            if trace is not None and trace.kept is None:
                self._hold(trace, end, spans)
            else:
                end()

        self._soon(happened)

    def release(self) -> None:
        """Close the open traces now, and keep those about which no decision was made."""

        def released() -> None:
            for trace in list(self._traces.values()):
                self._let_go(trace)

        self._soon(released)

    def _soon(self, event: Callable[[], None]) -> None:
        self._events.append(event)
        # In a loop, because the thread with the lock may have checked the queue for the last time
        # just before this event was appended.
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

    def _hold(self, trace: HeldTrace, end: Callable[[], None], spans: int) -> None:
        if len(trace.held) >= MAX_SPANS_PER_TRACE or self._held >= MAX_SPANS:
            trace.not_held += spans
            return
        trace.held.append(end)
        self._held += 1

    def _keep(self, trace: HeldTrace) -> None:
        trace.kept = True
        self._lost += trace.not_held
        held, exemplars = trace.held, trace.exemplars
        self._forget_held(trace)
        for each in (*held, *exemplars):
            each()

    def _close_if_over(self, trace: HeldTrace) -> None:
        """
        Close a trace that has no open span.

        Spans begin without the lock. A span that begins before the check keeps the trace open; a
        span that begins after it finds ``is_over`` set. So no span is added to a closed trace.
        """
        trace.is_over = True
        if trace.unfinished:
            trace.is_over = False
        else:
            self._close(trace)

    def _close(self, trace: HeldTrace) -> None:
        """Remove a trace that is over or no longer waited for, and drop it unless it is kept."""
        trace.is_over = True
        if trace.kept:
            # Before the removal below, so that a span that begins from now on finds the trace here.
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
        self._exemplars -= len(trace.exemplars)
        trace.held, trace.exemplars = [], []

    def _let_go_of_old(self, now_epoch_ns: int) -> None:
        if now_epoch_ns - self._looked_epoch_ns < _LOOK_EVERY_NS:
            return
        self._looked_epoch_ns = now_epoch_ns
        # An atomic copy, because other threads begin traces during the loop.
        for trace in list(self._traces.values()):
            if now_epoch_ns - trace.begun_epoch_ns > MAX_HELD_NS:
                self._let_go(trace)

    def _let_go(self, trace: HeldTrace) -> None:
        """Stop waiting for the end of a trace; keep it if no decision has been made."""
        if trace.kept is None and not trace.is_judged:
            self._keep(trace)
        self._close(trace)
