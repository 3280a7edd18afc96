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
        queue_until_headers: The wait for the headers is the queue.
        rejected: There was a report, and it did not fit.
    """

    parts: tuple[tuple[SegmentName, int], ...] = ()
    decode_ns: int | None = None
    covers: bool = False
    queue_until_headers: bool = False
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

    A part may exceed its interval by up to 5 ms or 1 %, whichever is more: that much is cut. More,
    or a negative time, rejects the report as a whole.

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
    until_headers = reported.queue_until_headers and headers_ns is not None
    begin, end = wait
    if until_headers and headers_ns is not None:
        begin = headers_ns
    before = [
        (name, length)
        for name, length in (
            (SegmentName.QUEUE, None if until_headers else reported.queue_ns),
            (SegmentName.MODEL_LOAD, reported.model_load_ns),
            (SegmentName.PREFILL, reported.prefill_ns),
            (SegmentName.DECODE, reported.decode_ns if generation is None else None),
        )
        if length is not None
    ]
    if not all(_fits(length, 0, end - begin) for _, length in before) or not _fits(
        sum(length for _, length in before), begin, end
    ):
        return Fitted(rejected=True)
    if generation is not None:
        # A first token that was read late may have come as soon as the prefill was over.
        first_token, stream_end = generation
        earliest = min(first_token, begin + sum(length for _, length in before))
        if not _fits(reported.decode_ns or 0, earliest, stream_end):
            return Fitted(rejected=True)
    covers = (
        (until_headers or reported.queue_ns is not None)
        and reported.prefill_ns is not None
        and reported.decode_ns is not None
    )
    return Fitted(
        parts=tuple(before),
        decode_ns=reported.decode_ns,
        covers=covers,
        queue_until_headers=until_headers,
    )


def _fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    interval = max(0, end_ns - begin_ns)
    return 0 <= length_ns <= interval + max(_SLACK_NS, interval // _SLACK_DIVISOR)
