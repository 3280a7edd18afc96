"""Fitting what a server reports into what the client measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latspan.segments import ReportedTimings, SegmentName, Source
from latspan.units import NS_PER_MS

__all__ = ["NO_EVIDENCE", "Fitted", "Part", "fit"]

_SLACK_NS: Final = 5 * NS_PER_MS
_SLACK_DIVISOR: Final = 100

Part = tuple[str, Source, int]
"""A segment's name, its source, and its length in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """
    A server's report that fits, or the fact that there is none.

    Args:
        parts: What happened before the first token, in order, with reported lengths.
        decode_ns: Reported generation after the first token; ``None`` if not reported.
        covers: The report speaks for the whole wait, so what it leaves over is the network.
        queue_until_ns: When the queue ended, where that is known by the headers; monotonic
            nanoseconds.
        rejected: There was a report, and it did not fit.
    """

    parts: tuple[tuple[SegmentName, int], ...] = ()
    decode_ns: int | None = None
    covers: bool = False
    queue_until_ns: int | None = None
    rejected: bool = False

    def wait(self, available_ns: int) -> tuple[Part, ...]:
        """
        Return the parts of a wait, cut so that they sum to ``available_ns``.

        Where the report covers everything, the network is what is left just before the first
        token, so that it joins what is left just after it; otherwise the composite comes first.
        """
        left = available_ns
        parts: list[Part] = []
        for name, reported_ns in self.parts:
            length = min(reported_ns, left)
            left -= length
            parts.append((name, Source.SERVER_REPORTED, length))
        if self.covers:
            return (*parts, (SegmentName.NETWORK, Source.ESTIMATED, left))
        return ((SegmentName.SERVER_WAIT, Source.MEASURED, left), *parts)

    def generation(
        self, name: SegmentName, flowing_ns: int, all_flowing_ns: int
    ) -> tuple[Part, ...]:
        """
        Return the parts of one phase of the generation, cut so that they sum to ``flowing_ns``.

        Args:
            name: ``reasoning`` or ``decode``.
            flowing_ns: How long the stream took in this phase.
            all_flowing_ns: How long it took in both; a reported time is shared between them in
                proportion, so the share of the reasoning is an estimate.
        """
        if not self.covers or self.decode_ns is None:
            return ((name, Source.MEASURED, flowing_ns),)
        network_ns = max(0, all_flowing_ns - self.decode_ns)
        share = network_ns * flowing_ns // all_flowing_ns if all_flowing_ns else 0
        split = flowing_ns != all_flowing_ns
        return (
            (SegmentName.NETWORK, Source.ESTIMATED, share),
            (name, Source.ESTIMATED if split else Source.SERVER_REPORTED, flowing_ns - share),
        )


NO_EVIDENCE: Final = Fitted()


def fit(
    reported: ReportedTimings | None,
    *,
    wait: tuple[int, int],
    headers_ns: int | None,
    generation: tuple[int, int] | None,
) -> Fitted:
    """
    Place a server's report into the intervals it belongs to.

    What happened before the first token may exceed the wait, and the generation the rest of the
    stream, by up to 5 ms or 1 %, whichever is more: that much is cut. More, or a negative time,
    rejects the report as a whole.

    Args:
        reported: What the server said, if anything.
        wait: From the last byte sent to the first token, or to the end of an answer that was not
            streamed; monotonic nanoseconds.
        headers_ns: When the response headers were in, ``None`` if unknown or if they came with
            the answer.
        generation: From the first token to the stream's end; ``None`` for an answer that was not
            streamed, whose generation lies within ``wait``.
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
            (SegmentName.DECODE, reported.decode_ns if generation is None else None),
        )
        if length is not None
    )
    before_ns = sum(length for _, length in before)
    if min((length for _, length in before), default=0) < 0 or not _fits(before_ns, begin, end):
        return Fitted(rejected=True)
    queue_until_ns = None
    if by_headers and headers_ns is not None:
        # A server may begin to work a little before its headers are out: the queue ended at the
        # latest with them, and early enough for what came after.
        begin = queue_until_ns = max(begin, min(headers_ns, end - before_ns))
    if generation is not None:
        # A first token that was read late may have come as soon as the prefill was over.
        first_token, stream_end = generation
        if not _fits(reported.decode_ns or 0, min(first_token, begin + before_ns), stream_end):
            return Fitted(rejected=True)
    covers = (
        (by_headers or reported.queue_ns is not None)
        and reported.prefill_ns is not None
        and reported.decode_ns is not None
    )
    return Fitted(before, reported.decode_ns, covers, queue_until_ns)


def _fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    interval = max(0, end_ns - begin_ns)
    return 0 <= length_ns <= interval + max(_SLACK_NS, interval // _SLACK_DIVISOR)
