"""
Decisions to keep or drop the trace of a request that has ended.

The duration of a request is compared with the latest durations of similar requests. Traces that are
kept in addition draw on a budget, which the unused allowance of all requests fills.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import Final, NamedTuple

# Shares of the configured ratio: for the slowest traces, for late first tokens, and for the
# random sample. The rest of the ratio is for failures and unusual durations. The shares were chosen
# with the simulation in the tests.
_SLOWEST: Final = 0.4
_LATEST_TOKENS: Final = 0.1
_BY_CHANCE: Final = 0.05
_UNUSUAL: Final = 2.0
"""Share of the ratio for the slowest traces during a burst, and while few durations are known."""

_LITTLE: Final = 300
MAX_WINDOWS: Final = 100
_OTHERS: Final = ("", "")

_RANDOM_BITS: Final = (1 << 56) - 1
"""
Mask of the random part of a trace's id.

Source: W3C Trace Context Level 2, "Random Trace ID Flag"; OpenTelemetry, "TraceState: Probability
Sampling", for the threshold that it is compared with.
"""

_UNLIMITED: Final = 300
"""Number of requests at the start without a limit, because too few durations are known yet."""

_FIRST_BUDGET: Final = 1_000
"""Number of requests whose allowance is available from the start, for an early burst."""

_MAX_BUDGET: Final = 10_000
"""
Maximum number of requests whose allowance can accumulate, which limits a burst after a long quiet
time.
"""

_WINDOW_SIZE: Final = 2_000
"""Number of durations: a p97 of 2,000 is between the true p96 and p98 in 99 of 100 windows."""

_THRESHOLD_STEP: Final = 100
"""Number of durations between two stored thresholds."""


class Ended(NamedTuple):
    """
    Data about the outermost span of a trace, on which the decision is based.

    Args:
        key: Kind, and inference path or name; durations with the same key are compared.
        duration_ns: Duration, in nanoseconds.
        first_token_ns: Nanoseconds to the first token of its slowest stream, ``None`` if none.
        kept: Whether its trace is already kept, at random or because a span in it failed.
        abandoned: Whether latspan ended it, for example at a shutdown; its duration is then a lower
            bound.
    """

    key: tuple[str, str]
    duration_ns: int
    first_token_ns: int | None = None
    kept: bool = False
    abandoned: bool = False


class _Windows(NamedTuple):
    durations: Window
    first_tokens: Window


class KeepAllowance:
    """
    Number of traces that may be kept in addition. Not thread-safe.

    Args:
        ratio: Number of kept traces that each request allows, in (0, 1).
    """

    __slots__ = ("_left", "_ratio", "_seen")

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._left = ratio * _FIRST_BUDGET
        self._seen = 0

    def earn(self) -> None:
        """Add the allowance of one request."""
        self._seen += 1
        self._left = min(self._left + self._ratio, self._ratio * _MAX_BUDGET)

    def spend(self) -> None:
        """Subtract a kept trace; the budget may become negative."""
        self._left -= 1

    @property
    def suffices(self) -> bool:
        """Whether one more trace may be kept because its duration is unusual."""
        return self._left > 0 or self._seen <= _UNLIMITED

    @property
    def is_left_over(self) -> bool:
        """
        Whether one more trace may be kept for a weaker reason: the budget is larger than initially.
        """
        return self._left > self._ratio * _FIRST_BUDGET or self._seen <= _UNLIMITED


class Window:
    """
    Sliding window of the latest 2,000 durations. Not thread-safe.

    Args:
        share: Fraction of the durations above the stored thresholds, in (0, 1).
    """

    __slots__ = ("_latest", "_ordered", "_seen", "_share", "_thresholds")

    def __init__(self, share: float) -> None:
        self._share = share
        self._latest: deque[int] = deque()
        self._ordered: list[int] = []
        self._thresholds: deque[int] = deque(maxlen=_WINDOW_SIZE // _THRESHOLD_STEP)
        self._seen = 0

    @property
    def seen(self) -> int:
        """Number of durations added so far."""
        return self._seen

    def slower_share(self, duration_ns: int) -> float:
        """Return the fraction, in [0, 1], of durations that are as long or longer; 0 if empty."""
        held = len(self._ordered)
        return (held - bisect_left(self._ordered, duration_ns)) / held if held else 0.0

    def is_unusual(self, duration_ns: int) -> bool:
        """
        Return whether a duration exceeds the threshold of 2,000 requests ago, or the oldest one.
        """
        return not self._thresholds or duration_ns > self._thresholds[0]

    def add(self, duration_ns: int) -> None:
        """Add a duration; a full window drops its oldest one."""
        if len(self._latest) == _WINDOW_SIZE:
            del self._ordered[bisect_left(self._ordered, self._latest.popleft())]
        self._latest.append(duration_ns)
        insort(self._ordered, duration_ns)
        self._seen += 1
        if self._seen % _THRESHOLD_STEP == 0:
            slow = max(1, round(self._share * len(self._ordered)))
            self._thresholds.append(self._ordered[-slow])


class Decisions:
    """
    Decides at the end of each outermost span whether its trace is kept. Not thread-safe.

    A trace is kept if it failed, was abandoned, exceeds the fixed limit, is among the slowest of
    the last 2,000 traces with the same kind and inference path, or is in the random sample, which
    its trace id determines. The rest of the ratio is spent on traces that are slower than the
    threshold of 2,000 requests ago, which happens in a burst or after a permanent change. Failures
    and abandoned traces are kept even if they alone exceed the ratio.

    Args:
        ratio: Maximum fraction of all traces that are kept in the long run, in (0, 1).
        slow_ns: Traces with a longer duration are always kept; ``None`` for no such limit.
    """

    def __init__(self, ratio: float, slow_ns: int | None = None) -> None:
        self._slow_ns = slow_ns
        self._slowest = _SLOWEST * ratio
        self._latest_tokens = _LATEST_TOKENS * ratio
        self._unusual = _UNUSUAL * ratio
        self._budget = KeepAllowance(ratio)
        self._least_random = round((1 - _BY_CHANCE * ratio) * (_RANDOM_BITS + 1))
        self._windows: dict[tuple[str, str], _Windows] = {}

    def by_chance(self, trace_id: int) -> bool:
        """
        Return whether a trace is in the random sample; the result is the same in every process.
        """
        return trace_id & _RANDOM_BITS >= self._least_random

    def keeps(self, ended: Ended) -> bool:
        """Return whether a trace is kept, and record its duration. Call it once per trace."""
        budget = self._budget
        budget.earn()
        if ended.abandoned:
            # Its duration is not the one that the request would have had.
            budget.spend()
            return True
        durations, first_tokens = self._windows_of(ended.key)
        kept = (
            ended.kept
            or (self._slow_ns is not None and ended.duration_ns > self._slow_ns)
            or self._is_slow(durations, ended.duration_ns)
        )
        durations.add(ended.duration_ns)
        if ended.first_token_ns is not None:
            late = first_tokens.slower_share(ended.first_token_ns) < self._latest_tokens
            kept = kept or (late and budget.is_left_over)
            first_tokens.add(ended.first_token_ns)
        if kept:
            budget.spend()
        return kept

    def _is_slow(self, durations: Window, duration_ns: int) -> bool:
        unusual = durations.seen < _LITTLE or durations.is_unusual(duration_ns)
        most = self._unusual if unusual and self._budget.suffices else self._slowest
        return durations.slower_share(duration_ns) < most

    def _windows_of(self, key: tuple[str, str]) -> _Windows:
        windows = self._windows.get(key)
        if windows is None:
            if len(self._windows) >= MAX_WINDOWS:
                key = _OTHERS
            fresh = _Windows(Window(self._slowest), Window(self._latest_tokens))
            windows = self._windows.setdefault(key, fresh)
        return windows
