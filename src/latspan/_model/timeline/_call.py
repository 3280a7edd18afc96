"""
Timeline of one call: transport, wait, tokens, end.

Segments are laid (appended) from the start of the call to its end, in the order of the list below,
and each ends at a known instant. ``SegmentBuilder`` clamps every cut to the time that is left, so
an instant that is missing, early or late can shorten a segment but never cause a gap or an overlap.

1. Transport, up to the last byte sent: ``prepare``, ``retry`` (the attempts before the one that got
   the response), ``pool_wait``, ``connect`` or ``dns`` and ``tcp``, ``tls``, ``send``.
2. The wait and the tokens. In a stream, the intervals in which the caller held it are ``consumer``
   (see ``_stream``); the parts that servers reported are laid over the remaining intervals
   in order.
3. The end: ``stream_close``, ``postprocess``, or ``server_wait`` if the caller was waiting for
   another token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from latspan._model.metrics import (
    DURATION,
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_CHUNK,
    TIME_TO_FIRST_TOKEN,
    TIME_TO_FIRST_VISIBLE_TOKEN,
    MetricValue,
    time_per_output_token,
)
from latspan._model.segments import NOT_WAITING, Mark, Outcome, Segment, weaker
from latspan._model.timeline._constants import (
    CONNECT,
    CONSUMER,
    DNS,
    DONE,
    ESTIMATED,
    FIRST_CHUNK,
    FIRST_TOKEN,
    FIRST_VISIBLE,
    HEADERS,
    LAST_TOKEN,
    MEASURED,
    POOL_WAIT,
    POSTPROCESS,
    PREPARE,
    RETRY,
    SEND,
    SENT,
    SERVER_REPORTED,
    SERVER_WAIT,
    START,
    STREAM_CLOSE,
    STREAM_END,
    TCP,
    TLS,
    UNATTRIBUTED,
    UNKNOWN,
)
from latspan._model.timeline._delays import (
    Cuts,
    Delay,
    delayed_reads,
    delays_in,
    reported_ns,
    sent_before_its_block,
    shortened,
)
from latspan._model.timeline._marks import Attempt, Reads, answering
from latspan._model.timeline._observation import CallObservation, body_end_ns
from latspan._model.timeline._reconcile import NO_EVIDENCE, ObservedInstants, Reconciled, reconcile
from latspan._model.timeline._segment_builder import Cut, SegmentBuilder, Timeline
from latspan._model.timeline._stream import (
    Stream,
    is_buffered,
    read_stream,
    smoothness_metrics,
    with_late_arrivals,
)

_ROUNDS: Final = 3
"""
Maximum number of rounds that shorten the delays. A round may move reported generation from before
the first token to after it, so the result is checked in another round.
"""


def call_timeline(seen: CallObservation) -> Timeline:
    """Return the timeline of one call: its segments, metrics and marks."""
    return _delayed(seen) if seen.blocks else _laid(seen)


def _delayed(seen: CallObservation) -> Timeline:
    """
    Return the timeline of a call whose event loop was blocked.

    Metrics and marks are computed from the recorded instants. Only the segments are laid over the
    time without the delays, which are then inserted as ``event_loop``.
    """
    hidden, delays = delayed_reads(seen), delays_in(seen)
    timeline = _laid(seen, hidden)
    if not delays:
        return timeline
    rejected = timeline.rejected
    accepted = tuple(report for report in seen.reported if report.system not in rejected)
    seen = replace(seen, reported=accepted)
    if accepted:
        delays = _without_server_time(seen, hidden, delays)
    cuts = Cuts(delays)
    segments = _laid(cuts.observation(seen), hidden, trusted=True).segments
    return timeline._replace(segments=cuts.opened(segments, seen.start_ns))


def _without_server_time(
    seen: CallObservation, hidden: Sequence[bool], delays: list[Delay]
) -> list[Delay]:
    """Return the delays without the time in which the server worked, as its reports show."""
    fitting = reported_ns(_laid(sent_before_its_block(seen, delays), hidden).segments)
    for _ in range(_ROUNDS):
        segments = _laid(Cuts(delays).observation(seen), hidden, trusted=True).segments
        missing = [
            max(0, whole_ns - now_ns)
            for whole_ns, now_ns in zip(fitting, reported_ns(segments), strict=True)
        ]
        if not any(missing):
            break
        delays = shortened(seen, delays, *missing)
    return delays


def _laid(seen: CallObservation, hidden: Sequence[bool] = (), *, trusted: bool = False) -> Timeline:
    """
    Return the timeline of a call, its blocks disregarded.

    Args:
        seen: Observation of the call.
        hidden: For each read, whether a block may hide when its chunk arrived; empty if no block
            hides anything.
        trusted: Whether the reports have been checked, and are cut to fit.
    """
    done_ns = max(seen.start_ns, seen.done_ns)
    builder = SegmentBuilder(seen.start_ns, done_ns)
    attempt = _add_transport(builder, seen)
    marks = {START: seen.start_ns, DONE: done_ns}
    if attempt is not None:
        if attempt.sent_ns is not None:
            marks[SENT] = attempt.sent_ns
        if attempt.headers_ns is not None:
            marks[HEADERS] = attempt.headers_ns
    if seen.reads is not None and seen.returned_ns is not None:
        return _streamed_answer(
            builder,
            attempt,
            seen.reads,
            seen.returned_ns,
            seen,
            marks,
            hidden=hidden,
            trusted=trusted,
        )
    if attempt is not None and attempt.headers_ns is None:
        return _failed_before_an_answer(builder, attempt, seen, marks)
    return _whole_answer(builder, attempt, seen, marks, trusted=trusted)


def _add_transport(builder: SegmentBuilder, seen: CallObservation) -> Attempt | None:
    """Lay everything up to the last byte sent, and return the attempt that got the response."""
    last = answering(seen.attempts)
    if last is None:
        # Without transport marks it is unknown which part of this time was the client library,
        # the connection or the server.
        over_ns = seen.done_ns if seen.returned_ns is None else seen.returned_ns
        builder.lay([(over_ns, UNATTRIBUTED, UNKNOWN)])
        return None
    cuts: list[Cut] = []
    if len(seen.attempts) > 1:
        cuts.append((min(attempt.start_ns for attempt in seen.attempts), PREPARE, MEASURED))
    # Parallel attempts that began later and were not used cost the caller no time.
    cuts.append((last.start_ns, RETRY if cuts else PREPARE, MEASURED))
    if last.pool_acquired_ns is None and last.headers_ns is not None:
        # The transport reports no events, so it is unknown how the time inside it was spent.
        cuts.append((last.headers_ns, UNATTRIBUTED, UNKNOWN))
    else:
        cuts += [
            (last.pool_acquired_ns, POOL_WAIT, MEASURED),
            (last.dns_done_ns, DNS, MEASURED),
            (last.connected_ns, CONNECT if last.dns_done_ns is None else TCP, MEASURED),
            (last.tls_done_ns, TLS, MEASURED),
            (last.sent_ns, SEND, MEASURED),
        ]
    builder.lay(cuts)
    return last


def _failed_before_an_answer(
    builder: SegmentBuilder, attempt: Attempt, seen: CallObservation, marks: dict[Mark, int]
) -> Timeline:
    """Lay the time of an attempt without a response as the segment in which the attempt ended."""
    # An attempt that is still open, for example at shutdown, is in this segment until the end.
    end_ns = seen.done_ns if attempt.end_ns is None else attempt.end_ns
    builder.lay([(end_ns, str(attempt.phase), MEASURED)])
    return _timeline(seen, marks, builder.build(_after(attempt, seen.outcome)))


def _after(attempt: Attempt | None, outcome: Outcome) -> str:
    """Return the segment after the last attempt: the client library's own work, or a back-off."""
    if attempt is None or outcome is not Outcome.CANCELLED or not attempt.failed:
        return POSTPROCESS
    # The cancellation of the attempt itself is not followed by a back-off.
    return POSTPROCESS if attempt.is_cancelled else RETRY


def _whole_answer(
    builder: SegmentBuilder,
    attempt: Attempt | None,
    seen: CallObservation,
    marks: dict[Mark, int],
    *,
    trusted: bool,
) -> Timeline:
    """Lay a response that was not streamed."""
    begin, end = builder.cursor_ns, builder.clamp(body_end_ns(seen, attempt))
    marks[STREAM_END] = end
    sending_ns = begin if attempt is None else attempt.sending_ns
    reconciled = reconcile(
        seen.reported,
        ObservedInstants(sending_ns, begin, end, end, end, headers_ns=None, streamed=False),
        trusted=trusted,
    )
    if seen.body_is_the_callers and attempt is not None:
        builder.lay([(attempt.headers_ns, SERVER_WAIT, MEASURED), (end, UNATTRIBUTED, UNKNOWN)])
    builder.lay_parts(reconciled.first)
    builder.lay_parts(reconciled.parts(end - builder.cursor_ns))
    return _timeline(seen, marks, builder.build(_after(attempt, seen.outcome)), reconciled)


def _streamed_answer(
    builder: SegmentBuilder,
    attempt: Attempt | None,
    reads: Reads,
    handed_over_ns: int,
    seen: CallObservation,
    marks: dict[Mark, int],
    *,
    hidden: Sequence[bool],
    trusted: bool,
) -> Timeline:
    """Lay a stream: the wait for its first token, its tokens, its end."""
    handed_over_ns = builder.clamp(handed_over_ns)
    stream = read_stream(reads, handed_over_ns, hidden)
    if stream.chunks:
        marks[FIRST_CHUNK] = stream.returns_ns[stream.chunks[0]]
    if stream.tokens:
        marks[FIRST_TOKEN] = stream.arrivals_ns[0]
        marks[LAST_TOKEN] = stream.arrivals_ns[-1]
    if stream.first_visible is not None:
        marks[FIRST_VISIBLE] = stream.returns_ns[stream.first_visible]
    if reads.end is not None:
        marks[STREAM_END] = reads.end[1]
    reconciled, buffered = NO_EVIDENCE, False
    if stream.tokens and seen.reported:
        sent_ns = builder.cursor_ns
        reconciled = reconcile(
            seen.reported,
            ObservedInstants(
                sending_ns=sent_ns if attempt is None else attempt.sending_ns,
                begin_ns=sent_ns,
                first_ns=stream.arrivals_ns[0],
                last_ns=stream.arrivals_ns[-1],
                over_ns=stream.returns_ns[-1],
                headers_ns=None if attempt is None else attempt.headers_ns,
                streamed=True,
            ),
            trusted=trusted,
        )
        buffered = is_buffered(stream, reconciled.decode_ns)
        if buffered:
            stream = with_late_arrivals(stream)
    cuts = _cuts_to_last_token(builder, handed_over_ns, stream, reconciled, buffered=buffered)
    is_waiting = seen.outcome not in NOT_WAITING or (
        seen.outcome is Outcome.ABANDONED and reads.end is not None
    )
    tail = SERVER_WAIT if is_waiting else STREAM_CLOSE
    # The client library's own work on what had arrived is not a wait for the end of the stream.
    work = deque(reads.library_work(marks.get(LAST_TOKEN, 0)) if tail is STREAM_CLOSE else ())
    for end_ns, held in stream.intervals.tail:
        while work and not held and work[0][1] <= end_ns:
            begin_ns, done_ns = work.popleft()
            cuts += [(begin_ns, tail, MEASURED), (done_ns, POSTPROCESS, MEASURED)]
        name = CONSUMER if held else tail
        cuts.append((end_ns, name, MEASURED))
    if reads.end is None:
        # Left early: the time up to the close is the caller's, the close itself is
        # `stream_close`.
        left_ns = seen.done_ns if seen.close_started_ns is None else seen.close_started_ns
        cuts.append((left_ns, CONSUMER, MEASURED))
    builder.lay(cuts, keeps_empty=True)
    segments = builder.build(STREAM_CLOSE)
    return _timeline(seen, marks, segments, reconciled, stream=stream, buffered=buffered)


def _cuts_to_last_token(
    builder: SegmentBuilder,
    handed_over_ns: int,
    stream: Stream,
    reconciled: Reconciled,
    *,
    buffered: bool,
) -> list[Cut]:
    """
    Return the segments from the last byte sent to the last token, or to the end if none came.

    Parts are laid over the intervals of the stream, except those in which the caller held it.
    """
    cuts: list[Cut] = []
    at_ns, done_ns = builder.cursor_ns, builder.done_ns
    for name, source, length_ns in reconciled.first:
        at_ns = min(at_ns + length_ns, done_ns)
        cuts.append((at_ns, name, source))
    pieces, _, wait_ns, reasoning_ns, decode_ns = stream.intervals
    wait_ns += max(0, handed_over_ns - at_ns)
    if buffered and not reconciled.covers:
        # The burst is not the generation, which happened at an unknown time during the wait.
        wait_ns, reasoning_ns, decode_ns = wait_ns + reasoning_ns + decode_ns, 0, 0
    left = reconciled.parts(wait_ns, reasoning_ns, decode_ns)
    left.reverse()
    for piece_end_ns, held in pieces:
        end_ns = max(at_ns, min(piece_end_ns, done_ns))
        if held:
            cuts.append((end_ns, CONSUMER, MEASURED))
            at_ns = end_ns
            continue
        while left:
            name, source, length_ns = left.pop()
            room_ns = end_ns - at_ns
            if length_ns > room_ns:
                if room_ns:
                    cuts.append((end_ns, name, source))
                    at_ns = end_ns
                left.append((name, source, length_ns - room_ns))
                break
            at_ns += length_ns
            cuts.append((at_ns, name, source))
    return cuts


def _timeline(
    seen: CallObservation,
    marks: dict[Mark, int],
    segments: tuple[Segment, ...],
    reconciled: Reconciled = NO_EVIDENCE,
    *,
    stream: Stream | None = None,
    buffered: bool = False,
) -> Timeline:
    done_ns = marks[DONE]
    metrics = {DURATION: MetricValue(done_ns - seen.start_ns)}
    if reconciled.rejected:
        metrics["evidence_rejected"] = MetricValue(len(reconciled.rejected))
    if buffered:
        metrics["buffered"] = MetricValue(1)
    gaps: tuple[MetricValue, ...] = ()
    if stream is not None:
        late = stream.late
        for name, chunk in (
            (TIME_TO_FIRST_CHUNK, 0 if stream.chunks else None),
            (TIME_TO_FIRST_TOKEN, stream.tokens[0] if stream.tokens else None),
            (TIME_TO_FIRST_VISIBLE_TOKEN, stream.first_visible),
        ):
            if chunk is not None:
                source = ESTIMATED if late and late[chunk] else MEASURED
                metrics[name] = MetricValue(stream.returns_ns[chunk] - seen.start_ns, source)
        pace = _pace(seen, stream, reconciled)
        if pace is not None:
            metrics[TIME_PER_OUTPUT_TOKEN] = pace
        if not buffered:
            gaps = stream.gaps()
            metrics |= smoothness_metrics(
                stream,
                start_ns=seen.start_ns,
                tokens=seen.output_tokens if seen.choices == 1 else None,
                tokens_estimated=seen.tokens_estimated,
                expected=seen.expected,
            )
    return Timeline(seen.start_ns, done_ns, segments, metrics, marks, gaps, reconciled.rejected)


def _pace(seen: CallObservation, stream: Stream, reconciled: Reconciled) -> MetricValue | None:
    """Return the time per output token, from the server's report if it was not measured here."""
    tokens = stream.tokens
    if not tokens or seen.choices != 1 or seen.output_tokens is None:
        return None
    # If all tokens came in one chunk, their pace was not observed here.
    source = UNKNOWN if len(tokens) < 2 else stream.source(tokens[0], tokens[-1])
    generation_ns = stream.arrivals_ns[-1] - stream.arrivals_ns[0]
    if source is not MEASURED and reconciled.decode_ns is not None:
        source, generation_ns = SERVER_REPORTED, reconciled.decode_ns
    if source is UNKNOWN:
        return None
    if seen.tokens_estimated:
        source = weaker(source, ESTIMATED)
    value = time_per_output_token(generation_ns, seen.output_tokens)
    return None if value is None else MetricValue(value, source)
