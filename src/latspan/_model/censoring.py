"""
What is known of a value: exactly its size, a lower bound, or nothing.

A request that its caller gave up has no duration; it has a time after which its caller stopped
waiting. The duration that it would have had is *right-censored*: at least that long. Leaving such
requests out makes a system look faster the more of its users give up, and counting the time until
they gave up as a duration does the same. So each metric of each timeline is in one of five states
(:class:`ValueState`), and each state is an interval ``[low, high]`` that contains the value:

========================  ==========================================================  ============
state                     when                                                        interval
========================  ==========================================================  ============
``exact``                 the metric was complete when the timeline ended             ``[v, v]``
``at_least``              the caller ended it, and the metric grows with time         ``[t, inf]``
``never``                 it failed, or completed as a stream without a token         ``[inf, inf]``
``unknown``               the caller ended it before the metric was defined           ``[0, inf]``
``not_applicable``        the metric does not exist here; not part of the population
========================  ==========================================================  ============

The state follows from the outcome of *that* timeline and never from its children's: a request that
completed after it cancelled one of its calls is exact.

A percentile is then an interval too: its lower end ranks each value at ``low``, and its upper end
at ``high``. It is known only if both ends are the same finite value. A target is met only if it is
met with every value at ``high``, and missed only if it is missed with every value at ``low``.

The Kaplan-Meier estimator would give one number, but assumes that users leave independently of how
slow their request is. They leave *because* it is slow, so the bounds are used.

Source: Manski (2003), Partial Identification of Probability Distributions, for the bounds; Kaplan
and Meier (1958), Nonparametric Estimation from Incomplete Observations, for the assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from latspan._model.metrics import (
    CHUNK_GAP_MAX,
    DURATION,
    EVIDENCE_METRICS,
    FIRST_WAITS,
    GROWING,
    LATENCY_METRICS,
    MORE_IS_BETTER,
    OF_REQUESTS,
    SERVER_METRICS,
    TOKEN_METRICS,
)
from latspan._model.segments import CUT, FAILURES, Kind, Outcome, Segment, SegmentName

AT_LEAST: Final = ".at_least"
"""End of the name of the series that holds the lower bounds of a metric, and its failures."""

_ALWAYS_COMPLETE: Final = frozenset({*TOKEN_METRICS, *EVIDENCE_METRICS, *SERVER_METRICS})
"""Counts and flags: what was counted, whatever the outcome."""

_REQUESTS: Final = frozenset({Kind.REQUEST, Kind.INNER_REQUEST})
_OF_CALLS: Final = frozenset(LATENCY_METRICS) - frozenset(OF_REQUESTS)

_WAITED_FOR: Final = FIRST_WAITS | {CHUNK_GAP_MAX}
"""Metrics that have a lower bound before they have a value."""


class ValueState(StrEnum):
    """What is known of one metric of one timeline."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    NEVER = "never"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class CensoredValue(NamedTuple):
    """
    Interval that contains a value.

    Args:
        low: Smallest possible value, in the unit of the metric, at least 0.
        high: Largest possible value, at least ``low``; infinite if there is no upper limit.
    """

    low: float
    high: float

    @classmethod
    def of(cls, state: ValueState, value: float | None) -> CensoredValue | None:
        """
        Return the interval of a state; ``None`` if the metric is not applicable.

        Args:
            state: What is known.
            value: The value of ``exact``, or the lower bound of ``at_least``; otherwise unused.
        """
        if state is ValueState.NOT_APPLICABLE:
            return None
        if state is ValueState.NEVER:
            return cls(math.inf, math.inf)
        if state is ValueState.UNKNOWN or value is None:
            return cls(0.0, math.inf)
        return cls(value, value if state is ValueState.EXACT else math.inf)


class Bounds(NamedTuple):
    """
    Interval that contains a percentile, whatever the values that are not known would have been.

    Args:
        low: Lower end, in the unit of the metric; infinite if the percentile falls on failures.
        high: Upper end; infinite if the percentile may fall on a failure or on a value without an
            upper limit.
    """

    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether both ends are the same finite value."""
        return self.low == self.high and math.isfinite(self.low)

    def text(self, text_of: Callable[[float], str], *, unbounded: str = "—") -> str:
        """
        Return both ends as a text, for example ``≥ 5.0 s`` or ``98.0 ms to 112.4 ms``.

        Args:
            text_of: Returns the text of a finite end.
            unbounded: Text of a percentile that falls on failures.
        """
        if math.isinf(self.low):
            return unbounded
        low = text_of(self.low)
        if math.isinf(self.high):
            return f"≥ {low}" if self.low else "unknown"
        high = text_of(self.high)
        return low if low == high else f"{low} to {high}"


def state_of(
    metric: str,
    outcome: Outcome,
    *,
    has_value: bool,
    streamed: bool | None,
    kind: Kind = Kind.CALL,
) -> ValueState:
    """
    Return what is known of a metric of one timeline.

    Args:
        metric: Name of the metric.
        outcome: How the timeline ended.
        has_value: Whether the metric has a value, as far as the timeline got.
        streamed: Whether the response was requested as a stream, or, for a request, whether a call
            inside it was; ``None`` if that is unknown, for example because a request ended before
            its first call.
        kind: Kind of the timeline. A request has the metrics of its calls only if its server
            measured them.
    """
    if not has_value and kind in _REQUESTS and metric in _OF_CALLS:
        return ValueState.NOT_APPLICABLE
    if metric == DURATION:
        if outcome in FAILURES:
            return ValueState.NEVER
        return ValueState.AT_LEAST if outcome in CUT else ValueState.EXACT
    if metric in _ALWAYS_COMPLETE:
        return ValueState.EXACT if has_value else ValueState.NOT_APPLICABLE
    if streamed is False and not has_value:
        return ValueState.NOT_APPLICABLE
    if outcome in FAILURES:
        return ValueState.UNKNOWN if metric in MORE_IS_BETTER else ValueState.NEVER
    is_cut = outcome in CUT
    if has_value:
        return ValueState.AT_LEAST if is_cut and metric in GROWING else ValueState.EXACT
    if is_cut:
        waits = streamed and metric in _WAITED_FOR
        return ValueState.AT_LEAST if waits else ValueState.UNKNOWN
    is_without_token = streamed and metric in FIRST_WAITS
    return ValueState.NEVER if is_without_token else ValueState.NOT_APPLICABLE


_NOT_IN_PROGRESS: Final = frozenset(
    {
        SegmentName.CONSUMER.value,
        SegmentName.STREAM_CLOSE.value,
        SegmentName.POSTPROCESS.value,
        SegmentName.EVENT_LOOP.value,
    }
)
"""Segments at the end of a call in which the call's own work does not go on."""

_GENERATION: Final = frozenset({SegmentName.REASONING.value, SegmentName.DECODE.value})


def open_segments(
    segments: Sequence[Segment], outcome: Outcome, kind: Kind, *, has_token: bool
) -> frozenset[str]:
    """
    Return the names of the segments that would have gone on if the timeline had not ended.

    Their lengths are lower bounds. Segments that ended before are exact, and later ones are absent.
    A call is left in the segment in which its server still worked, also if closing the stream took
    some time after that; a request or stage is left in its last segment.

    Args:
        segments: Segments of the timeline, in order.
        outcome: How it ended.
        kind: Kind of the timeline.
        has_token: Whether a token had arrived, so that the generation was going on.
    """
    if outcome is Outcome.COMPLETED or not segments:
        return frozenset()
    if kind not in (Kind.CALL, Kind.HTTP):
        return frozenset({str(segments[-1].name)})
    left = [str(each.name) for each in segments if each.name not in _NOT_IN_PROGRESS]
    if not left:
        return frozenset({str(segments[-1].name)})
    going_on = {left[-1]}
    if has_token:
        # The stream waits for its next token, or was left between two tokens.
        generating = [name for name in left if name in _GENERATION]
        going_on |= set(generating[-1:])
    return frozenset(going_on)


def waited_ns(segments: Sequence[Segment]) -> int:
    """
    Return the time up to which a timeline is known to have waited for what had not arrived yet.

    At its end, the caller of a stream may not have read for some time, and the next token may have
    arrived meanwhile. So that time is no lower bound of any wait.

    Args:
        segments: Segments of a timeline, in order.

    Returns:
        Nanoseconds since the start.
    """
    for segment in reversed(segments):
        if segment.name not in _NOT_IN_PROGRESS:
            return segment.end_ns
    return 0


def open_gap_ns(
    segments: Sequence[Segment], outcome: Outcome, *, first_token_ns: int | None
) -> int | None:
    """
    Return the time for which a stream had waited for its next token when it ended.

    The gap begins with the last token and ends when the caller was last known to wait for the next
    one, so it includes earlier time in which the caller held the stream.

    Args:
        segments: Segments of a call, in order.
        outcome: How it ended.
        first_token_ns: Time to the first token; ``None`` if none had arrived.

    Returns:
        Nanoseconds; 0 if the caller was not waiting after the last token. ``None`` if the stream is
        complete, or no token had arrived, so that no gap had begun.
    """
    if outcome is Outcome.COMPLETED or first_token_ns is None:
        return None
    begin_ns = first_token_ns
    for segment in reversed(segments):
        if segment.name != SegmentName.SERVER_WAIT and segment.name not in _NOT_IN_PROGRESS:
            # The last token ended this segment. Without one, the wait for the only token and the
            # wait for the next one are a single segment.
            begin_ns = max(begin_ns, segment.end_ns)
            break
    return max(0, waited_ns(segments) - begin_ns)


def percentile_bounds(
    values: Iterable[CensoredValue], percentile: float, weights: Iterable[float] | None = None
) -> Bounds:
    """
    Return the interval that contains a percentile of values of which some are not known.

    The percentile of exact values is the smallest one that covers the fraction ``percentile / 100``
    of the weight.

    Args:
        values: At least one interval.
        percentile: In (0, 100].
        weights: Weight of each value, more than 0; all 1 if not given.
    """
    pairs = list(values)
    weighing = [1.0] * len(pairs) if weights is None else list(weights)
    return Bounds(
        _quantile([each.low for each in pairs], weighing, percentile),
        _quantile([each.high for each in pairs], weighing, percentile),
    )


def _quantile(values: Sequence[float], weights: Sequence[float], percentile: float) -> float:
    total = math.fsum(weights)
    # The tolerance: 0.95 * 20 is 19.000000000000004 in floating point.
    wanted = percentile / 100 * total - 1e-9 * max(1.0, total)
    reached = 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= wanted:
            return value
    return max(values)
