"""
Delays of a call by blocks of its event loop, and their separation from all other time.

**What counts.** A block counts where it delayed an instant that the call waited for: the stamp of
that instant lies in the block. The real instant is somewhere in the block, but unknown. The delay
ends at the stamp. It begins at the start of the block, or at the previous instant of the call if
that is later. Delays of less than 1 ms do not count. If the loop was idle again after a block,
before the awaited instant came, the block delayed nothing.

**Own code.** The code of a call, stage or request may itself block the loop until it reaches an
instant. Such an instant counts as delayed only if other code is known to have run on the loop since
the previous instant. The delay then ends at the last known time at which other code ran. The rest
of the time is that of the call, stage or request itself.

**How it is separated.** The delays are cut out of the time of the call: each delay shrinks to the
instant at which it began. The segments are laid over the time that remains, by the same code as for
a call without delays. Then the delays are inserted again where they were cut out. So the segments
and the delays together always cover the whole duration, without a gap or an overlap.

**Server time.** The server may have worked during a delay. If its reported times do not fit into
the time that remains, but fit into the time that passed, the difference is the server's: the delays
are shortened by it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from latspan._model.segments import Segment
from latspan._model.timeline._constants import (
    DECODE,
    EVENT_LOOP,
    MEASURED,
    REASONING,
    SERVER_REPORTED,
)
from latspan._model.timeline._marks import (
    READER_BOUND_NS,
    Attempt,
    Block,
    Reads,
    answering,
)
from latspan._model.timeline._observation import CallObservation, body_end_ns
from latspan._model.timeline._segment_builder import Part, SegmentBuilder

_GENERATION: Final = frozenset({REASONING, DECODE})


class Delay(NamedTuple):
    """
    Interval in which the loop did not run and the call waited for an instant.

    Args:
        begin_ns: Start of the interval, monotonic nanoseconds.
        until_ns: Stamp of the instant that was delayed.
        length_ns: Time from ``begin_ns`` that counts as a delay, at most up to ``until_ns``.
    """

    begin_ns: int
    until_ns: int
    length_ns: int


def delay_of_own_code(
    blocks: Sequence[Block], since_ns: int, instant_ns: int, other_ns: int | None
) -> Delay | None:
    """
    Return the delay of an instant, reached by code that may itself have blocked the loop.

    Args:
        blocks: Blocks of the event loop.
        since_ns: Previous instant of the code, monotonic nanoseconds.
        instant_ns: The instant, monotonic nanoseconds.
        other_ns: Last instant before it at which something else is known to have run on the loop;
            ``None`` if unknown.
    """
    if other_ns is None or not since_ns < other_ns <= instant_ns:
        return None
    block = _block_of(blocks, instant_ns)
    if block is None:
        return None
    begin_ns = max(since_ns, block[0])
    # Less than 1 ms of own code is not separated from the delay before it.
    until_ns = instant_ns if instant_ns - other_ns < READER_BOUND_NS else other_ns
    length_ns = until_ns - begin_ns
    return Delay(begin_ns, until_ns, length_ns) if length_ns >= READER_BOUND_NS else None


def delays_in(seen: CallObservation) -> list[Delay]:
    """Return the delays of a call, in order and without an overlap."""
    found: list[Delay] = []
    passed_ns, done_ns = seen.start_ns, max(seen.start_ns, seen.done_ns)
    if seen.attempts:
        first_ns = min(done_ns, *(attempt.start_ns for attempt in seen.attempts))
        delay = delay_of_own_code(seen.blocks, passed_ns, first_ns, seen.prepare_other_ns)
        if delay is not None:
            found.append(delay)
            passed_ns = delay.until_ns
    for since_ns, instant_ns in _awaited(seen):
        until_ns = min(instant_ns, done_ns)
        delay = _delay(seen.blocks, max(passed_ns, since_ns), until_ns)
        if delay is not None:
            found.append(delay)
        passed_ns = max(passed_ns, until_ns)
    return found


def delayed_reads(seen: CallObservation) -> list[bool]:
    """
    Return, for each read, whether a block may hide when its chunk arrived; empty if none is hidden.

    The chunk of the first read that returns in a block may have arrived at any time in the block.
    Further chunks that are read immediately afterwards may also have arrived in the block. If the
    caller received the stream in a block, the same is true of the first chunks of the stream.
    """
    if seen.reads is None or seen.returned_ns is None:
        return []
    behind = _block_of(seen.blocks, seen.returned_ns) is not None
    hidden: list[bool] = []
    for before_ns, after_ns in _reads(seen.reads):
        at_once = after_ns - before_ns < READER_BOUND_NS
        behind = (behind and at_once) or _delay(seen.blocks, before_ns, after_ns) is not None
        hidden.append(behind)
    return hidden if True in hidden else []


def _awaited(seen: CallObservation) -> Iterator[tuple[int, int]]:
    """Yield the start of each wait of the call and the instant that it waited for, in order."""
    transport = _transport(seen)
    yield from pairwise(transport)
    since_ns = transport[-1]
    last = answering(seen.attempts)
    if seen.reads is not None and seen.returned_ns is not None:
        yield from _awaited_reads(seen, seen.reads, since_ns, seen.returned_ns)
    elif last is not None and last.headers_ns is None:
        if last.end_ns is not None:
            yield since_ns, last.end_ns
    elif last is not None and last.headers_ns is not None and seen.body_is_the_callers:
        yield since_ns, last.headers_ns
    else:
        yield since_ns, body_end_ns(seen, last)


def _transport(seen: CallObservation) -> list[int]:
    """Return the start of the first wait, and the known instants up to the last byte sent."""
    last = answering(seen.attempts)
    if last is None:
        return [seen.start_ns, seen.done_ns if seen.returned_ns is None else seen.returned_ns]
    first_ns = min(attempt.start_ns for attempt in seen.attempts)
    if last.pool_acquired_ns is None and last.headers_ns is not None:
        instants = [last.headers_ns]
    else:
        instants = [
            instant
            for instant in (
                last.pool_acquired_ns,
                last.dns_done_ns,
                last.connected_ns,
                last.tls_done_ns,
                last.sent_ns,
            )
            if instant is not None
        ]
    return [first_ns, last.start_ns, *instants]


def _awaited_reads(
    seen: CallObservation, reads: Reads, since_ns: int, handed_over_ns: int
) -> Iterator[tuple[int, int]]:
    """Yield what the caller of a stream waited for: the stream, and the return of each read."""
    pairs = _reads(reads)
    first = next((at for at, kind in enumerate(reads.kinds) if kind), 0)
    if first < len(pairs) and _was_idle(seen.blocks, *pairs[first]):
        # The loop was idle before the first token came, so the server was still working when
        # headers and empty chunks were read. A block that delayed these delayed nothing else.
        yield from pairs[first:]
        return
    leading = [(since_ns, handed_over_ns)]
    for before_ns, after_ns in pairs[: first + 1]:
        begun_ns, earlier_ns = leading[-1]
        block = _block_of(seen.blocks, earlier_ns)
        is_held = before_ns - earlier_ns > READER_BOUND_NS
        if block is not None and after_ns <= block[1] and not is_held:
            # One delay up to the first token. Otherwise the few microseconds between the reads
            # would be a second interval of the wait, after the block.
            leading[-1] = (begun_ns, after_ns)
        else:
            leading.append((before_ns, after_ns))
    yield from leading
    yield from pairs[first + 1 :]


def _was_idle(blocks: Sequence[Block], before_ns: int, after_ns: int) -> bool:
    """Return whether a read waited for 1 ms or longer before a block in which it returned."""
    block = _block_of(blocks, after_ns)
    return (after_ns if block is None else block[0]) - before_ns >= READER_BOUND_NS


def _reads(reads: Reads) -> list[tuple[int, int]]:
    """Return the instants at which each read began and returned, the read of the end last."""
    pairs = list(zip(reads.stamps[::3], reads.stamps[1::3], strict=True))
    return pairs if reads.end is None else [*pairs, reads.end]


def _block_of(blocks: Sequence[Block], instant_ns: int) -> Block | None:
    """Return the block in which the loop was when an instant was stamped."""
    # The last block that began before the instant; blocks do not overlap.
    at = bisect_left(blocks, (instant_ns,)) - 1
    return blocks[at] if at >= 0 and instant_ns <= blocks[at][1] else None


def _delay(blocks: Sequence[Block], since_ns: int, instant_ns: int) -> Delay | None:
    """Return the delay of an instant that was awaited since ``since_ns``, if there is one."""
    block = _block_of(blocks, instant_ns)
    if block is None:
        return None
    begin_ns = max(since_ns, block[0])
    length_ns = instant_ns - begin_ns
    return Delay(begin_ns, instant_ns, length_ns) if length_ns >= READER_BOUND_NS else None


class Cuts:
    """
    The time of a call without its delays: each delay shrinks to the instant at which it begins.

    Args:
        delays: The delays, in order and without an overlap.
    """

    __slots__ = ("_begins", "_delays", "_removed")

    def __init__(self, delays: Sequence[Delay]) -> None:
        self._delays = delays
        self._begins = [delay.begin_ns for delay in delays]
        # Time cut out before each delay, and in all.
        self._removed = [0, *accumulate(delay.length_ns for delay in delays)]

    def instant(self, instant_ns: int) -> int:
        """Return an instant in the time without the delays."""
        at = bisect_left(self._begins, instant_ns)
        if at and instant_ns <= self._delays[at - 1].until_ns:
            return self._begins[at - 1] - self._removed[at - 1]
        return instant_ns - self._removed[at]

    def _maybe(self, instant_ns: int | None) -> int | None:
        return None if instant_ns is None else self.instant(instant_ns)

    def observation(self, seen: CallObservation) -> CallObservation:
        """Return an observation in the time without the delays."""
        done_ns = max(seen.start_ns, seen.done_ns)
        return replace(
            seen,
            done_ns=done_ns - self._removed[-1],
            attempts=[self._attempt(attempt) for attempt in seen.attempts],
            returned_ns=self._maybe(seen.returned_ns),
            reads=None if seen.reads is None else self._reads(seen.reads),
            close_started_ns=self._maybe(seen.close_started_ns),
            blocks=(),
        )

    def _attempt(self, attempt: Attempt) -> Attempt:
        return replace(
            attempt,
            start_ns=self.instant(attempt.start_ns),
            pool_acquired_ns=self._maybe(attempt.pool_acquired_ns),
            dns_done_ns=self._maybe(attempt.dns_done_ns),
            connected_ns=self._maybe(attempt.connected_ns),
            tls_done_ns=self._maybe(attempt.tls_done_ns),
            sent_ns=self._maybe(attempt.sent_ns),
            headers_ns=self._maybe(attempt.headers_ns),
            body_end_ns=self._maybe(attempt.body_end_ns),
            end_ns=self._maybe(attempt.end_ns),
        )

    def _reads(self, reads: Reads) -> Reads:
        cut = Reads()
        for before_ns, after_ns, kind in zip(
            *(reads.stamps[at::3] for at in range(3)), strict=True
        ):
            cut.add(self.instant(before_ns), self.instant(after_ns), kind)
        if reads.end is not None:
            cut.end = (self.instant(reads.end[0]), self.instant(reads.end[1]))
        return cut

    def opened(self, segments: Sequence[Segment], start_ns: int) -> tuple[Segment, ...]:
        """
        Return segments with the delays between and inside them, as ``event_loop``.

        Args:
            segments: Segments that tile the time without the delays.
            start_ns: Start of the call, monotonic nanoseconds.
        """
        waiting = deque(
            (delay.begin_ns - removed_ns - start_ns, delay.length_ns)
            for delay, removed_ns in zip(self._delays, self._removed, strict=False)
        )
        done_ns = segments[-1].end_ns if segments else 0
        parts: list[Part] = []
        for name, begin_ns, end_ns, source in segments:
            from_ns = begin_ns
            while waiting and waiting[0][0] < end_ns:
                at_ns, length_ns = waiting.popleft()
                if at_ns > from_ns:
                    parts.append((name, source, at_ns - from_ns))
                    from_ns = at_ns
                parts.append((EVENT_LOOP, MEASURED, length_ns))
            parts.append((name, source, end_ns - from_ns))
        builder = SegmentBuilder(start_ns, start_ns + done_ns + self._removed[-1])
        builder.lay_parts(parts)
        # What is left was delayed until the end of the call.
        return builder.build(EVENT_LOOP)


def reported_ns(segments: Iterable[Segment]) -> tuple[int, int]:
    """Return the times that servers reported: before the first token, and of the generation."""
    before_ns = generation_ns = 0
    for name, begin_ns, end_ns, source in segments:
        if name in _GENERATION:
            generation_ns += 0 if source is MEASURED else end_ns - begin_ns
        elif source is SERVER_REPORTED:
            before_ns += end_ns - begin_ns
    return before_ns, generation_ns


def sent_before_its_block(seen: CallObservation, delays: Iterable[Delay]) -> CallObservation:
    """
    Return the observation, with the last byte sent at the start of the delay that hides it.

    The server may have received the request at that time, and begun to work on it. If no delay
    hides the last byte, the observation is returned unchanged.
    """
    last = answering(seen.attempts)
    if last is None or last.sent_ns is None:
        return seen
    begins = [delay.begin_ns for delay in delays if delay.until_ns == last.sent_ns]
    if not begins:
        return seen
    sent = replace(last, sent_ns=begins[0])
    attempts = [sent if attempt is last else attempt for attempt in seen.attempts]
    return replace(seen, attempts=attempts)


def shortened(
    seen: CallObservation, delays: Iterable[Delay], before_ns: int, generation_ns: int
) -> list[Delay]:
    """
    Return the delays without the time in which the server worked, according to its report.

    Args:
        seen: Observation of the call.
        delays: Its delays.
        before_ns: Part of the reported time before the first token that does not fit into the time
            without the delays.
        generation_ns: The same part of the reported time of the generation.
    """
    first_ns = seen.done_ns
    if seen.reads is not None and seen.returned_ns is not None:
        stamps = zip(seen.reads.stamps[1::3], seen.reads.kinds, strict=True)
        first_ns = next((after_ns for after_ns, kind in stamps if kind), first_ns)
    wait_ns = _transport(seen)[-1]
    kept: list[Delay] = []
    for begin_ns, until_ns, length_ns in delays:
        if until_ns > first_ns:
            servers_ns = min(generation_ns, length_ns)
            generation_ns -= servers_ns
            kept.append(Delay(begin_ns + servers_ns, until_ns, length_ns - servers_ns))
        else:
            kept.append(Delay(begin_ns, until_ns, length_ns))
    # Tokens that were generated before the first one was read take time of the wait.
    before_ns += generation_ns
    for at, (begin_ns, until_ns, length_ns) in enumerate(kept):
        if wait_ns < until_ns <= first_ns:
            servers_ns = min(before_ns, length_ns)
            before_ns -= servers_ns
            kept[at] = Delay(begin_ns + servers_ns, until_ns, length_ns - servers_ns)
    for at, (begin_ns, until_ns, length_ns) in enumerate(kept):
        if until_ns == wait_ns:
            # The request was sent before the stamp that records it, at the latest when the server
            # began to work on it.
            kept[at] = Delay(begin_ns, until_ns, max(0, length_ns - before_ns))
    return [delay for delay in kept if delay.length_ns >= READER_BOUND_NS]
