"""
Reconciliation of times that servers and gateways report with the times that the client measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from latspan._base.nanoseconds import NS_PER_MS
from latspan._model.segments import ReportedTimings
from latspan._model.timeline._constants import (
    DECODE,
    ESTIMATED,
    GATEWAY,
    MEASURED,
    MODEL_LOAD,
    NETWORK,
    PREFILL,
    QUEUE,
    REASONING,
    SERVER_REPORTED,
    SERVER_WAIT,
)
from latspan._model.timeline._segment_builder import Part

_SLACK_NS: Final = 5 * NS_PER_MS
_SLACK_DIVISOR: Final = 100

ReportedStage = tuple[str, int]
"""A segment's name, and its length in nanoseconds as a server reported it."""


class ObservedInstants(NamedTuple):
    """
    Instants that the client measured, in monotonic nanoseconds.

    Args:
        sending_ns: Sending began.
        begin_ns: The last byte was sent.
        first_ns: The first token arrived; for a response that is not streamed, its end.
        last_ns: The last token arrived; for a response that is not streamed, its end.
        over_ns: The response ended.
        headers_ns: The headers of a stream were received, if known.
        streamed: Whether the response was streamed.
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


class Reconciled(NamedTuple):
    """
    Combined content of the reports that fit, and the names of the systems whose reports do not.

    Args:
        first: Parts at the beginning of the wait, in order.
        before: Stages between ``first`` and the first token, in order, with reported lengths; all
            stages if the response is not streamed.
        decode_ns: Reported generation after the first token of a stream; ``None`` if not
            reported.
        covers: Whether the reports contain all of the server's time (queue, prefill and decode, or
            the total of a response that is not streamed), so that the time that they do not contain
            is network time.
        early_ns: Part of the generation that must have happened before the first token was read, in
            nanoseconds.
        has_unreported_front: Whether the remaining time also includes a part of the server that
            reports no time.
        rejected: Names of the systems whose reports do not fit.
    """

    first: Sequence[Part] = ()
    before: Sequence[ReportedStage] = ()
    decode_ns: int | None = None
    covers: bool = False
    early_ns: int = 0
    has_unreported_front: bool = False
    rejected: tuple[str, ...] = ()

    def parts(self, wait_ns: int, reasoning_ns: int = 0, decode_ns: int = 0) -> list[Part]:
        """
        Return the parts after ``first``, in order and cut to sum exactly to the given times.

        Args:
            wait_ns: Nanoseconds from the end of ``first`` to the first token, without the intervals
                in which the caller held the stream.
            reasoning_ns: The same from the first token to the first visible token.
            decode_ns: The same from the first visible token to the last token.
        """
        left = wait_ns
        before: list[Part] = []
        for name, reported_ns in self.before:
            length = min(reported_ns, left)
            left -= length
            before.append((name, SERVER_REPORTED, length))
        if self.covers and self.decode_ns is None:
            return [*before, (NETWORK, ESTIMATED, left)]
        if not self.covers or self.decode_ns is None:
            return [
                (SERVER_WAIT, MEASURED, left),
                *before,
                (REASONING, MEASURED, reasoning_ns),
                (DECODE, MEASURED, decode_ns),
            ]
        flowing_ns = reasoning_ns + decode_ns
        early_ns = min(self.early_ns, left)
        network_ns = left - early_ns + max(0, flowing_ns - self.decode_ns)
        generation_ns = left + flowing_ns - network_ns
        parts = [*before, (NETWORK, ESTIMATED, network_ns)]
        if self.has_unreported_front:
            parts = [(SERVER_WAIT, MEASURED, network_ns), *before]
        if not reasoning_ns:
            return [*parts, (DECODE, SERVER_REPORTED, generation_ns)]
        # The server reports a single time for both, which is divided in the measured proportion.
        thinking_ns = generation_ns * reasoning_ns // flowing_ns
        return [
            *parts,
            (REASONING, ESTIMATED, thinking_ns),
            (DECODE, ESTIMATED, generation_ns - thinking_ns),
        ]


NO_EVIDENCE: Final = Reconciled()


def reconcile(
    reports: Sequence[ReportedTimings], seen: ObservedInstants, *, trusted: bool = False
) -> Reconciled:
    """
    Place reported times into the intervals to which they belong.

    A client takes its timestamp after the event, and later still if the process has to wait for a
    processor. So the server may have begun its work as soon as sending began, and the first token
    may have arrived as soon as the reported prefill ended. Three durations are checked. Each is
    counted from the start of sending, and must end before an instant that the client measured:

    - The reported time until the headers must end before the headers arrive. It is the time of the
      gateways, or the elapsed time that a header reports, whichever is longer.
    - The reported time until the first token must end before the first token arrives.
    - The sum of all reported times, or the reported total if that is longer, must end before the
      end of the stream.

    Each may exceed its limit by 5 ms or 1 %, whichever is more; the excess is cut. A larger excess,
    or a negative time, rejects the whole report.

    Reports are checked one after the other, the server's first and the outermost gateway's last.
    The report of a gateway must leave room for the times of its server, because the server measured
    its own work directly.

    Args:
        reports: Reported times, the outermost gateway's first.
        seen: Times that the client measured.
        trusted: Whether an earlier call of this function, with the measured times that include the
            delays of a blocked event loop, accepted the reports. If so, they are not compared with
            the measured times again. They are only cut to fit the given times, from which these
            delays were removed.
    """
    if not reports:
        return NO_EVIDENCE
    combined = _Reports(seen, trusted=trusted)
    rejected: tuple[str, ...] = ()
    for report in reversed(reports):
        if not combined.takes(report):
            rejected = (report.system, *rejected)
    return combined.reconciled(rejected)


class _Reports:
    """
    Reports that fit each other and the client's times, added from the inside out.

    Args:
        seen: Times that the client measured.
        trusted: Whether the reports have been checked.
    """

    __slots__ = (
        "_before_ns",
        "_decode_ns",
        "_decodes_ns",
        "_gateway",
        "_gateways_ns",
        "_has_unreported_front",
        "_queue_until_headers",
        "_reach_ns",
        "_rest_ns",
        "_seen",
        "_stages",
        "_to_last_token",
        "_trusted",
    )

    def __init__(self, seen: ObservedInstants, *, trusted: bool) -> None:
        self._seen = seen
        self._trusted = trusted
        self._stages: list[ReportedStage] = []
        self._gateways_ns = self._before_ns = self._decodes_ns = 0
        # Longest total so far, counted from the arrival of the request at the outermost system.
        self._reach_ns = 0
        # Time of the innermost total that its parts do not explain; `None` without a total.
        self._rest_ns: int | None = None
        self._decode_ns: int | None = None
        self._gateway = self._queue_until_headers = False
        self._to_last_token = self._has_unreported_front = False

    def takes(self, report: ReportedTimings) -> bool:
        """Add the report of the next outer system, unless it contradicts what is known."""
        seen = self._seen
        gateway_ns = report.gateway_ns or 0
        decode_ns = (report.decode_ns or 0) if seen.streamed else 0
        head_ns = report.head_ns or 0
        total_ns = report.total_ns or 0
        # The stages before the first token, or all of them if the response is not streamed.
        stages: dict[str, int] = {}
        if report.queue_ns is not None and not (
            report.queue_until_headers and seen.headers_ns is not None
        ):
            stages[QUEUE] = report.queue_ns
        if report.model_load_ns is not None:
            stages[MODEL_LOAD] = report.model_load_ns
        if report.prefill_ns is not None:
            stages[PREFILL] = report.prefill_ns
        if report.decode_ns is not None and not seen.streamed:
            stages[DECODE] = report.decode_ns
        if min(gateway_ns, decode_ns, head_ns, total_ns, *stages.values()) < 0:
            return False
        gateways_ns = self._gateways_ns + gateway_ns
        before_ns = self._before_ns + sum(stages.values())
        decodes_ns = self._decodes_ns + decode_ns
        reported_ns = gateways_ns + before_ns + decodes_ns
        # The total of a system begins after the gateways in front of it.
        reach_ns = max(total_ns, gateway_ns + self._reach_ns)
        before_head_ns = max(head_ns, gateways_ns)
        if not self._trusted and not (
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
        self._has_unreported_front |= report.has_unreported_front
        return True

    def reconciled(self, rejected: tuple[str, ...]) -> Reconciled:
        """Return the reconciled result of the added reports."""
        seen, stages, decode_ns, rest_ns = self._seen, self._stages, self._decode_ns, self._rest_ns
        early_ns = 0
        if seen.streamed and decode_ns is not None:
            decoded_ns = seen.last_ns if self._to_last_token else seen.over_ns
            early_ns = max(0, decode_ns - max(0, decoded_ns - seen.first_ns))
        headers_ns = seen.headers_ns if self._queue_until_headers else None
        # The parts before all stages: gateway and estimated queue.
        until_ns = seen.first_ns
        if headers_ns is not None:
            # The queue ended before the headers arrived.
            until_ns = min(headers_ns, until_ns - self._before_ns - early_ns)
        room_ns = max(0, until_ns - seen.begin_ns)
        first: list[Part] = []
        if self._gateway:
            length_ns = min(self._gateways_ns, room_ns)
            first.append((GATEWAY, SERVER_REPORTED, length_ns))
            room_ns -= length_ns
        if headers_ns is not None:
            first.append((QUEUE, ESTIMATED, room_ns))
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
            # Server time that its parts do not explain is not network time.
            and (rest_ns is None or rest_ns <= _SLACK_NS)
        )
        has_unreported_front = rest_ns is None and self._has_unreported_front
        return Reconciled(
            first, stages, decode_ns, covers, early_ns, has_unreported_front, rejected
        )


def fits(length_ns: int, begin_ns: int, end_ns: int) -> bool:
    """Return whether parts of this total length fit between two instants, within the tolerance."""
    interval = max(0, end_ns - begin_ns)
    excess_ns = length_ns - interval
    return excess_ns <= _SLACK_NS or excess_ns <= interval // _SLACK_DIVISOR
