"""Fitting what a server reports into what the client measured."""

from __future__ import annotations

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
    A server's report that fits, or the fact that there is none.

    Args:
        before: What happened before the first token, in order, with reported lengths.
        decode_ns: Reported generation after the first token; ``None`` if not reported.
        covers: The report speaks for the whole wait, so what it leaves over is the network.
        queue_until_ns: When the queue ended, where that is known by the headers; monotonic
            nanoseconds.
        early_ns: How much of the generation must have lain before the first token was read.
        rejected: There was a report, and it did not fit.
    """

    before: tuple[tuple[SegmentName, int], ...] = ()
    decode_ns: int | None = None
    covers: bool = False
    queue_until_ns: int | None = None
    early_ns: int = 0
    rejected: bool = False

    def parts(self, wait_ns: int, reasoning_ns: int = 0, decode_ns: int = 0) -> list[Part]:
        """
        Return what the time of the stream was, in order and cut so that it sums exactly.

        Args:
            wait_ns: How long the stream, not its reader, took up to the first token.
            reasoning_ns: The same, from there to the first visible token.
            decode_ns: The same, from there to the last token.
        """
        left = wait_ns
        before: list[Part] = []
        for name, reported_ns in self.before:
            length = min(reported_ns, left)
            left -= length
            before.append((name, Source.SERVER_REPORTED, length))
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


def fit(
    reported: ReportedTimings | None,
    *,
    sending_ns: int,
    wait: tuple[int, int],
    headers_ns: int | None,
    stream_end_ns: int | None,
) -> Fitted:
    """
    Place a server's report into the intervals it belongs to.

    A client's stamp comes at the earliest when the thing has happened, and later when the
    process had to wait for a processor. So the server may have begun when sending did, and the
    first token may have come when the reported prefill was over. What happened before the first
    token may exceed the time from there to that token, and all of it together the time to the
    stream's end, by up to 5 ms or 1 %, whichever is more: that much is cut. More, or a negative
    time, rejects the report as a whole.

    Args:
        reported: What the server said, if anything.
        sending_ns: When sending began; monotonic nanoseconds, as all instants here.
        wait: From the last byte sent to the first token, or to the end of an answer that was not
            streamed.
        headers_ns: When the response headers were in, ``None`` if unknown or if they came with
            the answer.
        stream_end_ns: When the stream was over; ``None`` for an answer that was not streamed,
            whose generation lies within ``wait``.
    """
    if reported is None:
        return NO_EVIDENCE
    begin, end = wait
    by_headers = reported.queue_until_headers and headers_ns is not None
    before = tuple(
        (name, length)
        for name, length in (
            (SegmentName.QUEUE, None if by_headers else reported.queue_ns),
            (SegmentName.MODEL_LOAD, reported.model_load_ns),
            (SegmentName.PREFILL, reported.prefill_ns),
            (SegmentName.DECODE, reported.decode_ns if stream_end_ns is None else None),
        )
        if length is not None
    )
    before_ns = sum(length for _, length in before)
    decode_ns = 0 if stream_end_ns is None else reported.decode_ns or 0
    over_ns = end if stream_end_ns is None else stream_end_ns
    if (
        min((*(length for _, length in before), decode_ns)) < 0
        or not fits(before_ns, sending_ns, end)
        or not fits(before_ns + decode_ns, sending_ns, over_ns)
    ):
        return Fitted(rejected=True)
    early_ns = max(0, decode_ns - max(0, over_ns - end))
    queue_until_ns = None
    if by_headers and headers_ns is not None:
        # The headers say when the queue ended at the latest.
        queue_until_ns = max(begin, min(headers_ns, end - before_ns - early_ns))
    covers = (
        (by_headers or reported.queue_ns is not None)
        and reported.prefill_ns is not None
        and reported.decode_ns is not None
        and stream_end_ns is not None
    )
    return Fitted(before, reported.decode_ns, covers, queue_until_ns, early_ns)


def fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    """Return whether reported parts of that length in all can have lain between two instants."""
    interval = max(0, end_ns - begin_ns)
    return length_ns <= interval + max(_SLACK_NS, interval // _SLACK_DIVISOR)
