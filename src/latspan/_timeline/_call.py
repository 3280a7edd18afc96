"""The timeline of one call: transport, wait, tokens, end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from latspan._timeline._buffered import is_buffered, known_at_the_latest
from latspan._timeline._evidence import NO_EVIDENCE, Fitted, Part, fit
from latspan._timeline._felt import felt_speed
from latspan._timeline._marks import Attempt, Reads
from latspan._timeline._stream import Phase, Stream, read_stream
from latspan._timeline._tiling import Tiling, Timeline
from latspan.metrics import (
    DEFAULT_EXPECTATIONS,
    Expectations,
    MetricValue,
    time_per_output_token,
)
from latspan.segments import Mark, Outcome, ReportedTimings, Segment, SegmentName, Source

__all__ = ["CallObservation", "call_timeline"]

_WHOLE_ENDS = frozenset({Outcome.COMPLETED, Outcome.CLOSED_EARLY, Outcome.ABANDONED})
"""Outcomes after which nobody was waiting for another token."""


@dataclass(slots=True)
class CallObservation:
    """
    Everything that was observed of one call. Instants are monotonic nanoseconds.

    Args:
        start_ns: The client library was called.
        done_ns: The call was over; see :class:`~latspan.segments.Outcome` for when that is.
        outcome: How it ended.
        attempts: Its tries on the transport, in any order.
        returned_ns: The client library handed back the stream or the answer.
        reads: The reads of a stream, ``None`` for an answer that was not streamed.
        close_started_ns: The caller began to close the stream before its end.
        reported: What was said of the server's own time and its gateways', from the outside in.
        output_tokens: How many tokens came, reasoning included.
        tokens_estimated: They were counted on this side, and not by the provider.
        choices: How many answers were asked for at once.
        body_is_the_callers: The response's body is read by the caller, unseen: the time after
            the headers is as much the caller's as the server's.
        expected: What a stream is held against.
    """

    start_ns: int
    done_ns: int
    outcome: Outcome = Outcome.COMPLETED
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    returned_ns: int | None = None
    reads: Reads | None = None
    close_started_ns: int | None = None
    reported: tuple[ReportedTimings, ...] = ()
    output_tokens: int | None = None
    tokens_estimated: bool = False
    choices: int = 1
    body_is_the_callers: bool = False
    expected: Expectations = DEFAULT_EXPECTATIONS


def call_timeline(seen: CallObservation) -> Timeline:
    """Return the segments and metrics of one call."""
    done_ns = max(seen.start_ns, seen.done_ns)
    tiling = Tiling(seen.start_ns, done_ns)
    attempt = _lay_transport(tiling, seen)
    marks = {Mark.START: seen.start_ns, Mark.DONE: done_ns}
    if attempt is not None:
        _mark(marks, Mark.SENT, attempt.sent_ns)
        _mark(marks, Mark.HEADERS, attempt.headers_ns)
    if seen.reads is not None and seen.returned_ns is not None:
        return _streamed_answer(tiling, attempt, seen.reads, seen.returned_ns, seen, marks)
    if attempt is not None and attempt.headers_ns is None:
        return _failed_before_an_answer(tiling, attempt, seen, marks)
    return _whole_answer(tiling, attempt, seen, marks)


def _mark(marks: dict[Mark, int], mark: Mark, instant_ns: int | None) -> None:
    if instant_ns is not None:
        marks[mark] = instant_ns


def _lay_transport(tiling: Tiling, seen: CallObservation) -> Attempt | None:
    """Lay everything up to the last byte sent, and return the last attempt."""
    if not seen.attempts:
        # Without transport marks nobody knows what of this was the client library, the
        # connection or the server.
        over_ns = seen.done_ns if seen.returned_ns is None else seen.returned_ns
        tiling.until(over_ns, SegmentName.UNATTRIBUTED, Source.UNKNOWN)
        return None
    attempts = sorted(seen.attempts, key=lambda attempt: attempt.start_ns)
    last = attempts[-1]
    tiling.until(attempts[0].start_ns, SegmentName.PREPARE)
    tiling.until(last.start_ns, SegmentName.RETRY)
    if last.pool_acquired_ns is None and last.headers_ns is not None:
        # A transport that gives no events: its inside is unknown.
        tiling.until(last.headers_ns, SegmentName.UNATTRIBUTED, Source.UNKNOWN)
        return last
    tiling.until(last.pool_acquired_ns, SegmentName.POOL_WAIT)
    if last.dns_done_ns is None:
        tiling.until(last.connected_ns, SegmentName.CONNECT)
    else:
        tiling.until(last.dns_done_ns, SegmentName.DNS)
        tiling.until(last.connected_ns, SegmentName.TCP)
    tiling.until(last.tls_done_ns, SegmentName.TLS)
    tiling.until(last.sent_ns, SegmentName.SEND)
    return last


def _failed_before_an_answer(
    tiling: Tiling, attempt: Attempt, seen: CallObservation, marks: dict[Mark, int]
) -> Timeline:
    """Count the time of a try that got no answer where it was spent."""
    tiling.until(attempt.end_ns, attempt.phase)
    return _timeline(seen, marks, tiling.finish(_after(attempt, seen.outcome)))


def _after(attempt: Attempt | None, outcome: Outcome) -> SegmentName:
    """Name what follows the last try: the client library's own work, or a back-off."""
    if attempt is not None and attempt.failed and outcome is Outcome.CANCELLED:
        return SegmentName.RETRY
    return SegmentName.POSTPROCESS


def _whole_answer(
    tiling: Tiling, attempt: Attempt | None, seen: CallObservation, marks: dict[Mark, int]
) -> Timeline:
    """Lay an answer that came in one piece."""
    known = [seen.returned_ns, seen.done_ns]
    if attempt is not None:
        known = [attempt.body_end_ns, attempt.end_ns if attempt.failed else None, *known]
    body_end_ns = next(instant for instant in known if instant is not None)
    begin, end = tiling.cursor_ns, tiling.clamp(body_end_ns)
    marks[Mark.STREAM_END] = end
    fitted = fit(
        seen.reported,
        sending_ns=begin if attempt is None else attempt.sending_ns,
        wait=(begin, end),
        headers_ns=None,
        stream_end_ns=None,
    )
    if seen.body_is_the_callers and attempt is not None:
        tiling.until(attempt.headers_ns, SegmentName.SERVER_WAIT)
        tiling.until(end, SegmentName.UNATTRIBUTED, Source.UNKNOWN)
    _lay(tiling, fitted.first)
    _lay(tiling, fitted.parts(end - tiling.cursor_ns))
    return _timeline(seen, marks, tiling.finish(_after(attempt, seen.outcome)), fitted)


def _streamed_answer(
    tiling: Tiling,
    attempt: Attempt | None,
    reads: Reads,
    handed_over_ns: int,
    seen: CallObservation,
    marks: dict[Mark, int],
) -> Timeline:
    """Lay a stream: the wait for its first token, its tokens, its end."""
    stream = read_stream(reads, tiling.clamp(handed_over_ns))
    for mark, arrival in stream.arrivals.items():
        marks[mark] = arrival.instant_ns
    if reads.end is not None:
        marks[Mark.STREAM_END] = reads.end[1]
    fitted = _fit_stream(tiling, attempt, stream, seen)
    buffered = is_buffered(stream, fitted.decode_ns)
    if buffered:
        stream = known_at_the_latest(stream)
    _lay_stream(tiling, stream, fitted, buffered=buffered)
    tail = SegmentName.STREAM_CLOSE
    if seen.outcome not in _WHOLE_ENDS:
        tail = SegmentName.SERVER_WAIT
    for piece in stream.pieces(Phase.TAIL):
        tiling.until(piece.end_ns, SegmentName.CONSUMER if piece.held else tail)
    if reads.end is None:
        # Left early: up to the close the caller held the stream; closing is the stream's.
        tiling.until(
            seen.done_ns if seen.close_started_ns is None else seen.close_started_ns,
            SegmentName.CONSUMER,
        )
    segments = tiling.finish(SegmentName.STREAM_CLOSE)
    return _timeline(seen, marks, segments, fitted, stream=stream, buffered=buffered)


def _fit_stream(
    tiling: Tiling, attempt: Attempt | None, stream: Stream, seen: CallObservation
) -> Fitted:
    first = stream.arrivals.get(Mark.FIRST_TOKEN)
    if first is None:
        return NO_EVIDENCE
    return fit(
        seen.reported,
        sending_ns=tiling.cursor_ns if attempt is None else attempt.sending_ns,
        wait=(tiling.cursor_ns, first.instant_ns),
        headers_ns=None if attempt is None else attempt.headers_ns,
        last_token_ns=stream.arrivals[Mark.LAST_TOKEN].instant_ns,
        stream_end_ns=stream.last_return_ns,
    )


def _lay_stream(tiling: Tiling, stream: Stream, fitted: Fitted, *, buffered: bool) -> None:
    """Lay everything from the last byte sent to the last token, or to the end without one."""
    _lay(tiling, fitted.first)
    handed_over = tiling.clamp(stream.handed_over_ns)
    wait_ns = handed_over - tiling.cursor_ns + stream.flowing_ns(Phase.WAIT)
    tokens_ns = stream.flowing_ns(Phase.REASONING), stream.flowing_ns(Phase.DECODE)
    if buffered and not fitted.covers:
        # The burst is no generation, and nobody knows where in the wait that was.
        wait_ns, tokens_ns = wait_ns + sum(tokens_ns), (0, 0)
    parts = _Parts(tiling, fitted.parts(wait_ns, *tokens_ns))
    parts.lay(handed_over)
    for phase in (Phase.WAIT, Phase.REASONING, Phase.DECODE):
        for piece in stream.pieces(phase):
            parts.lay_piece(piece.end_ns, held=piece.held)


def _lay(tiling: Tiling, parts: Iterable[Part]) -> None:
    for name, source, length_ns in parts:
        tiling.exactly(length_ns, name, source)


class _Parts:
    """Lays a sequence of parts over pieces of a stream, stepping over what the caller held."""

    def __init__(self, tiling: Tiling, parts: Iterable[Part]) -> None:
        self._tiling = tiling
        self._left = list(parts)

    def lay_piece(self, end_ns: int, *, held: bool) -> None:
        if held:
            self._tiling.until(end_ns, SegmentName.CONSUMER)
        else:
            self.lay(end_ns)

    def lay(self, end_ns: int) -> None:
        while self._left:
            name, source, length_ns = self._left[0]
            room = self._tiling.clamp(end_ns) - self._tiling.cursor_ns
            if length_ns > room:
                self._tiling.until(end_ns, name, source)
                self._left[0] = (name, source, length_ns - room)
                return
            self._tiling.exactly(length_ns, name, source)
            self._left.pop(0)


def _timeline(
    seen: CallObservation,
    marks: dict[Mark, int],
    segments: tuple[Segment, ...],
    fitted: Fitted = NO_EVIDENCE,
    *,
    stream: Stream | None = None,
    buffered: bool = False,
) -> Timeline:
    metrics = {"duration": MetricValue(marks[Mark.DONE] - seen.start_ns)}
    if fitted.rejected:
        metrics["evidence_rejected"] = MetricValue(len(fitted.rejected))
    if buffered:
        metrics["buffered"] = MetricValue(1)
    gaps: tuple[MetricValue, ...] = ()
    if stream is not None:
        for name, mark in (
            ("time_to_first_chunk", Mark.FIRST_CHUNK),
            ("time_to_first_token", Mark.FIRST_TOKEN),
            ("time_to_first_visible_token", Mark.FIRST_VISIBLE),
        ):
            arrival = stream.arrivals.get(mark)
            if arrival is not None:
                metrics[name] = MetricValue(arrival.instant_ns - seen.start_ns, arrival.source)
        pace = _pace(seen, stream, fitted)
        if pace is not None:
            metrics["time_per_output_token"] = pace
        if not buffered:
            gaps = stream.gaps()
            metrics |= felt_speed(
                stream,
                gaps,
                start_ns=seen.start_ns,
                tokens=seen.output_tokens if seen.choices == 1 else None,
                expected=seen.expected,
            )
    return Timeline(
        start_ns=seen.start_ns,
        done_ns=marks[Mark.DONE],
        segments=segments,
        metrics=metrics,
        chunk_gaps=gaps,
        marks=marks,
        rejected=fitted.rejected,
    )


def _pace(seen: CallObservation, stream: Stream, fitted: Fitted) -> MetricValue | None:
    """Return the time per output token, by the server's own clock where ours cannot tell."""
    first = stream.arrivals.get(Mark.FIRST_TOKEN)
    last = stream.arrivals.get(Mark.LAST_TOKEN)
    if first is None or last is None or seen.choices != 1 or seen.output_tokens is None:
        return None
    source = first.source.weaker(last.source)
    if len(stream.token_arrivals) < 2:
        # All tokens came in one chunk: their pace was not seen here.
        source = Source.UNKNOWN
    generation_ns = last.instant_ns - first.instant_ns
    if source is not Source.MEASURED and fitted.decode_ns is not None:
        source, generation_ns = Source.SERVER_REPORTED, fitted.decode_ns
    if source is Source.UNKNOWN:
        return None
    if seen.tokens_estimated:
        source = source.weaker(Source.ESTIMATED)
    value = time_per_output_token(generation_ns, seen.output_tokens)
    return None if value is None else MetricValue(value, source)
