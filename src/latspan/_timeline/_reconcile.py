"""Fitting of the times that servers and gateways report into the times the client measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from latspan._segments import ReportedTimings
from latspan._timeline._constants import (
    DECODE,
    ESTIMATED,
    GATEWAY,
    MODEL_LOAD,
    PREFILL,
    QUEUE,
    SERVER_REPORTED,
    SERVER_WAIT,
)
from latspan._timeline._reconciled import NO_EVIDENCE, Part, Reconciled, Stage
from latspan._units import NS_PER_MS

__all__ = ["Observed", "fits", "reconcile"]

_SLACK_NS: Final = 5 * NS_PER_MS
_SLACK_DIVISOR: Final = 100


class Observed(NamedTuple):
    """
    The client's own times; monotonic nanoseconds.

    Args:
        sending_ns: Sending began.
        begin_ns: The last byte was sent.
        first_ns: The first token was there; the end, for a response in one piece.
        last_ns: The last token was there; the end, for a response in one piece.
        over_ns: The response was over.
        headers_ns: The headers of a stream were received, if that is known.
        streamed: The response came in chunks.
    """

    sending_ns: int
    begin_ns: int
    first_ns: int
    last_ns: int
    over_ns: int
    headers_ns: int | None
    streamed: bool

    @property
    def head_ns(self) -> int:
        """Latest instant at which the response's head can have arrived."""
        return self.first_ns if self.headers_ns is None else min(self.headers_ns, self.first_ns)


def reconcile(reports: Sequence[ReportedTimings], seen: Observed) -> Reconciled:
    """
    Place reported times into the intervals they belong to.

    A client's timestamp is taken at the earliest when the event has happened, and later if the
    process had to wait for a processor. So the server may have begun when sending did, and the
    first token may have come when the reported prefill was over. The time reported before the
    first token may exceed the time from the start of sending to that token, and all of it
    together the time to the stream's end, by up to 5 ms or 1 %, whichever is more: the excess is
    cut. A larger excess, or a negative time, rejects a report as a whole.

    Each report is judged on its own, from the inside out: a gateway's report must leave room for
    the times of its server, since the server was nearer to its own work.

    Args:
        reports: Reported times, if any, from the outside in.
        seen: The client's times that they are compared with.
    """
    if not reports:
        return NO_EVIDENCE
    combined = _Reports(seen)
    rejected = [report.system for report in reversed(reports) if not combined.takes(report)]
    return combined.reconciled(tuple(reversed(rejected)))


class _Reports:
    """
    Combined times of the reports that can all be true, added from the inside out.

    Args:
        seen: The client's times that they are compared with.
    """

    __slots__ = (
        "_before_ns",
        "_decode_ns",
        "_decodes_ns",
        "_front_untold",
        "_gateway",
        "_gateways_ns",
        "_queue_until_headers",
        "_reach_ns",
        "_rest_ns",
        "_seen",
        "_stages",
        "_to_last_token",
    )

    def __init__(self, seen: Observed) -> None:
        self._seen = seen
        self._stages: list[Stage] = []
        self._gateways_ns = self._before_ns = self._decodes_ns = 0
        # Extent of the totals, from the request's arrival at the outermost of the systems.
        self._reach_ns = 0
        # Time in the innermost total beyond its parts, ``None`` without such a total.
        self._rest_ns: int | None = None
        self._decode_ns: int | None = None
        self._gateway = self._queue_until_headers = False
        self._to_last_token = self._front_untold = False

    def takes(self, report: ReportedTimings) -> bool:
        """Add a report from outside the others, unless it contradicts them or the measurements."""
        seen = self._seen
        gateway_ns = report.gateway_ns or 0
        decode_ns = (report.decode_ns or 0) if seen.streamed else 0
        head_ns = report.head_ns or 0
        total_ns = report.total_ns or 0
        stages = _stages(report, seen)
        if min(gateway_ns, decode_ns, head_ns, total_ns, *stages.values()) < 0:
            return False
        gateways_ns = self._gateways_ns + gateway_ns
        before_ns = self._before_ns + sum(stages.values())
        decodes_ns = self._decodes_ns + decode_ns
        reported_ns = gateways_ns + before_ns + decodes_ns
        # A system's total begins when the request has passed the gateways before it.
        reach_ns = max(total_ns, gateway_ns + self._reach_ns)
        before_head_ns = max(head_ns, gateways_ns)
        if not (
            # A time of zero fits anywhere.
            (not before_head_ns or fits(before_head_ns, seen.sending_ns, seen.head_ns))
            and fits(gateways_ns + before_ns, seen.sending_ns, seen.first_ns)
            and fits(max(reported_ns, reach_ns), seen.sending_ns, seen.over_ns)
        ):
            return False
        self._stages = [*stages.items(), *self._stages]
        self._gateways_ns, self._before_ns, self._decodes_ns = gateways_ns, before_ns, decodes_ns
        self._reach_ns = reach_ns
        if self._rest_ns is None and report.total_ns is not None:
            self._rest_ns = max(0, total_ns - reported_ns)
        if report.decode_ns is not None:
            self._decode_ns = report.decode_ns
        self._gateway |= report.gateway_ns is not None
        self._queue_until_headers |= report.queue_until_headers
        self._to_last_token |= report.decode_to_last_token
        self._front_untold |= report.front_untold
        return True

    def reconciled(self, rejected: tuple[str, ...]) -> Reconciled:
        """Return the reconciled result of the added reports."""
        seen, stages, decode_ns, rest_ns = self._seen, self._stages, self._decode_ns, self._rest_ns
        early_ns = 0
        if seen.streamed and decode_ns is not None:
            decoded_ns = seen.last_ns if self._to_last_token else seen.over_ns
            early_ns = max(0, decode_ns - max(0, decoded_ns - seen.first_ns))
        headers_ns = seen.headers_ns if self._queue_until_headers else None
        first = self._first(headers_ns, early_ns)
        if not seen.streamed:
            if rest_ns:
                stages = [(SERVER_WAIT, rest_ns), *stages]
            return Reconciled(first, stages, covers=rest_ns is not None, rejected=rejected)
        by_name = dict(stages)
        if rest_ns and fits(self._before_ns + rest_ns, seen.sending_ns, seen.first_ns):
            stages = [(SERVER_WAIT, rest_ns), *stages]
            rest_ns = 0
        covers = (
            (headers_ns is not None or QUEUE in by_name)
            and PREFILL in by_name
            and decode_ns is not None
            # Server time beyond its parts is not network time, wherever it lay.
            and (rest_ns is None or rest_ns <= _SLACK_NS)
        )
        front_untold = rest_ns is None and self._front_untold
        return Reconciled(first, stages, decode_ns, covers, early_ns, front_untold, rejected)

    def _first(self, headers_ns: int | None, early_ns: int) -> list[Part]:
        """Return the parts before all stages."""
        seen = self._seen
        until = seen.first_ns
        if headers_ns is not None:
            # The headers show when the queue ended at the latest.
            until = min(headers_ns, until - self._before_ns - early_ns)
        room_ns = max(0, until - seen.begin_ns)
        first: list[Part] = []
        if self._gateway:
            length = min(self._gateways_ns, room_ns)
            first.append((GATEWAY, SERVER_REPORTED, length))
            room_ns -= length
        if headers_ns is not None:
            first.append((QUEUE, ESTIMATED, room_ns))
        return first


def _stages(report: ReportedTimings, seen: Observed) -> dict[str, int]:
    """Return a server's stages before the first token; for an unstreamed response, all of them."""
    stages: dict[str, int] = {}
    reported_in_headers = report.queue_until_headers and seen.headers_ns is not None
    if report.queue_ns is not None and not reported_in_headers:
        stages[QUEUE] = report.queue_ns
    if report.model_load_ns is not None:
        stages[MODEL_LOAD] = report.model_load_ns
    if report.prefill_ns is not None:
        stages[PREFILL] = report.prefill_ns
    if report.decode_ns is not None and not seen.streamed:
        stages[DECODE] = report.decode_ns
    return stages


def fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    """Return whether reported parts of this total length can have lain between two instants."""
    interval = max(0, end_ns - begin_ns)
    excess_ns = length_ns - interval
    return excess_ns <= _SLACK_NS or excess_ns <= interval // _SLACK_DIVISOR
