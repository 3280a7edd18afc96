"""Fitting what servers and gateways report into what the client measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from latspan.segments import ReportedTimings, SegmentName, Source
from latspan.units import NS_PER_MS

__all__ = ["NO_EVIDENCE", "Fitted", "Part", "fit", "fits"]

_SLACK_NS: Final = 5 * NS_PER_MS
_SLACK_DIVISOR: Final = 100

Part = tuple[str, Source, int]
"""A segment's name, its source, and its length in nanoseconds."""


class Fitted(NamedTuple):
    """
    What the reports that fit say together, and which do not fit.

    Args:
        first: What came before everything else, in order, from the beginning of the wait.
        before: What happened after that and before the first token, in order, with reported
            lengths; of an answer in one piece all that happened.
        decode_ns: Reported generation after the first token of a stream; ``None`` if not
            reported.
        covers: The reports speak for the whole wait, so what they leave over is the network.
        early_ns: How much of the generation must have lain before the first token was read.
        front_untold: What they leave over is the network and a front of the server's, which says
            nothing of itself.
        rejected: The systems whose reports do not fit.
    """

    first: tuple[Part, ...] = ()
    before: tuple[tuple[SegmentName, int], ...] = ()
    decode_ns: int | None = None
    covers: bool = False
    early_ns: int = 0
    front_untold: bool = False
    rejected: tuple[str, ...] = ()

    def parts(self, wait_ns: int, reasoning_ns: int = 0, decode_ns: int = 0) -> list[Part]:
        """
        Return what the time after ``first`` was, in order and cut so that it sums exactly.

        Args:
            wait_ns: How long the stream, not its reader, took from there to the first token.
            reasoning_ns: The same, from there to the first visible token.
            decode_ns: The same, from there to the last token.
        """
        left = wait_ns
        before: list[Part] = []
        for name, reported_ns in self.before:
            length = min(reported_ns, left)
            left -= length
            before.append((name, Source.SERVER_REPORTED, length))
        if self.covers and self.decode_ns is None:
            return [*before, (SegmentName.NETWORK, Source.ESTIMATED, left)]
        if not self.covers or self.decode_ns is None:
            return [
                (SegmentName.SERVER_WAIT, Source.MEASURED, left),
                *before,
                (SegmentName.REASONING, Source.MEASURED, reasoning_ns),
                (SegmentName.DECODE, Source.MEASURED, decode_ns),
            ]
        flowing_ns = reasoning_ns + decode_ns
        early_ns = min(self.early_ns, left)
        network_ns = left - early_ns + max(0, flowing_ns - self.decode_ns)
        generation_ns = left + flowing_ns - network_ns
        parts = [*before, (SegmentName.NETWORK, Source.ESTIMATED, network_ns)]
        if self.front_untold:
            parts = [(SegmentName.SERVER_WAIT, Source.MEASURED, network_ns), *before]
        if not reasoning_ns:
            return [*parts, (SegmentName.DECODE, Source.SERVER_REPORTED, generation_ns)]
        # The server reports one time for both; their shares are those that were measured.
        thinking_ns = generation_ns * reasoning_ns // flowing_ns
        return [
            *parts,
            (SegmentName.REASONING, Source.ESTIMATED, thinking_ns),
            (SegmentName.DECODE, Source.ESTIMATED, generation_ns - thinking_ns),
        ]


NO_EVIDENCE: Final = Fitted()


class _Observed(NamedTuple):
    """
    The client's own times; monotonic nanoseconds.

    Args:
        sending_ns: Sending began.
        begin_ns: The last byte was sent.
        first_ns: The first token was there; the end, of an answer in one piece.
        head_ns: The head was there, at the latest.
        last_ns: The last token was there; the end, of an answer in one piece.
        over_ns: The answer was over.
        headers_ns: When the headers of a stream were in, where that is known.
        streamed: The answer came in chunks.
    """

    sending_ns: int
    begin_ns: int
    first_ns: int
    head_ns: int
    last_ns: int
    over_ns: int
    headers_ns: int | None
    streamed: bool


def fit(
    reports: Sequence[ReportedTimings],
    *,
    sending_ns: int,
    wait: tuple[int, int],
    headers_ns: int | None,
    last_token_ns: int | None = None,
    stream_end_ns: int | None,
) -> Fitted:
    """
    Place what was reported into the intervals it belongs to.

    A client's stamp comes at the earliest when the thing has happened, and later when the
    process had to wait for a processor. So the server may have begun when sending did, and the
    first token may have come when the reported prefill was over. What happened before the first
    token may exceed the time from there to that token, and all of it together the time to the
    stream's end, by up to 5 ms or 1 %, whichever is more: that much is cut. More, or a negative
    time, rejects a report as a whole.

    Each report is judged for itself, from the inside out: a gateway's must leave room for what its
    server says, since the server was nearer to its own work.

    Args:
        reports: What was said, if anything, from the outside in.
        sending_ns: When sending began; monotonic nanoseconds, as all instants here.
        wait: From the last byte sent to the first token, or to the end of an answer that was not
            streamed.
        headers_ns: When the response headers were in, ``None`` if unknown or if they came with
            the answer.
        last_token_ns: When the last token of a stream was there.
        stream_end_ns: When the stream was over; ``None`` for an answer that was not streamed,
            whose generation lies within ``wait``.
    """
    if not reports:
        return NO_EVIDENCE
    begin, end = wait
    seen = _Observed(
        sending_ns=sending_ns,
        begin_ns=begin,
        first_ns=end,
        head_ns=end if headers_ns is None else min(headers_ns, end),
        last_ns=end if last_token_ns is None else last_token_ns,
        over_ns=end if stream_end_ns is None else stream_end_ns,
        headers_ns=headers_ns,
        streamed=stream_end_ns is not None,
    )
    fitting: tuple[ReportedTimings, ...] = ()
    rejected: list[str] = []
    for report in reversed(reports):
        if _possible((report, *fitting), seen):
            fitting = (report, *fitting)
        else:
            rejected.insert(0, report.system)
    return _placed(fitting, seen)._replace(rejected=tuple(rejected))


def _possible(reports: Sequence[ReportedTimings], seen: _Observed) -> bool:
    """Return whether all of them can be true at once."""
    gateways_ns = 0
    claims: list[tuple[int, int]] = []
    for report in reports:
        if report.head_ns is not None:
            claims.append((report.head_ns, seen.head_ns))
        if report.total_ns is not None:
            # A system's total begins when the request is through the gateways before it.
            claims.append((gateways_ns + report.total_ns, seen.over_ns))
        gateways_ns += report.gateway_ns or 0
    before = [length for report in reports for _, length in _stages(report, seen)]
    before_ns = gateways_ns + sum(before)
    decodes = [report.decode_ns or 0 for report in reports if seen.streamed]
    claims += (
        (gateways_ns, seen.head_ns),
        (before_ns, seen.first_ns),
        (before_ns + sum(decodes), seen.over_ns),
    )
    lengths = [*before, *decodes, *(report.gateway_ns or 0 for report in reports)]
    lengths += (length for length, _ in claims)
    return min(lengths) >= 0 and all(
        fits(length, seen.sending_ns, until) for length, until in claims
    )


def _stages(report: ReportedTimings, seen: _Observed) -> list[tuple[SegmentName, int]]:
    """Return a server's parts before the first token, of an answer in one piece all of them."""
    told_by_headers = report.queue_until_headers and seen.headers_ns is not None
    return [
        (name, length)
        for name, length in (
            (SegmentName.QUEUE, None if told_by_headers else report.queue_ns),
            (SegmentName.MODEL_LOAD, report.model_load_ns),
            (SegmentName.PREFILL, report.prefill_ns),
            (SegmentName.DECODE, None if seen.streamed else report.decode_ns),
        )
        if length is not None
    ]


def _placed(reports: Sequence[ReportedTimings], seen: _Observed) -> Fitted:
    """Lay out what reports say that can all be true."""
    if not reports:
        return NO_EVIDENCE
    stages = [stage for report in reports for stage in _stages(report, seen)]
    before_ns = sum(length for _, length in stages)
    decode_ns = next((r.decode_ns for r in reports if r.decode_ns is not None), None)
    early_ns = 0
    if seen.streamed and decode_ns is not None:
        exact = any(r.decode_to_last_token for r in reports)
        decoded_ns = seen.last_ns if exact else seen.over_ns
        early_ns = max(0, decode_ns - max(0, decoded_ns - seen.first_ns))
    until = seen.first_ns
    headers_ns = seen.headers_ns if any(r.queue_until_headers for r in reports) else None
    if headers_ns is not None:
        # The headers say when the queue ended at the latest.
        until = min(headers_ns, seen.first_ns - before_ns - early_ns)
    room_ns = max(0, until - seen.begin_ns)
    first: list[Part] = []
    gateways = [r.gateway_ns for r in reports if r.gateway_ns is not None]
    if gateways:
        length = min(sum(gateways), room_ns)
        first.append((SegmentName.GATEWAY, Source.SERVER_REPORTED, length))
        room_ns -= length
    if headers_ns is not None:
        first.append((SegmentName.QUEUE, Source.ESTIMATED, room_ns))
    rest_ns = _untold(reports, seen)
    if not seen.streamed:
        if rest_ns:
            stages.insert(0, (SegmentName.SERVER_WAIT, rest_ns))
        return Fitted(tuple(first), tuple(stages), covers=rest_ns is not None)
    told = {name for name, _ in stages}
    if rest_ns and fits(before_ns + rest_ns, seen.sending_ns, seen.first_ns):
        stages.insert(0, (SegmentName.SERVER_WAIT, rest_ns))
        rest_ns = 0
    covers = (
        (headers_ns is not None or SegmentName.QUEUE in told)
        and SegmentName.PREFILL in told
        and decode_ns is not None
        # What a server took beyond its parts is not the network's, wherever it lay.
        and (rest_ns is None or rest_ns <= _SLACK_NS)
    )
    front_untold = rest_ns is None and any(r.front_untold for r in reports)
    return Fitted(tuple(first), tuple(stages), decode_ns, covers, early_ns, front_untold)


def _untold(reports: Sequence[ReportedTimings], seen: _Observed) -> int | None:
    """Return what the innermost total holds beyond the parts within it, ``None`` without one."""
    told_ns = 0
    for report in reversed(reports):
        told_ns += sum(length for _, length in _stages(report, seen)) + (report.gateway_ns or 0)
        if seen.streamed:
            told_ns += report.decode_ns or 0
        if report.total_ns is not None:
            return max(0, report.total_ns - told_ns)
    return None


def fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    """Return whether reported parts of that length in all can have lain between two instants."""
    interval = max(0, end_ns - begin_ns)
    return length_ns <= interval + max(_SLACK_NS, interval // _SLACK_DIVISOR)
