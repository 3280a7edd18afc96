"""Decisions to keep or drop the trace of a request that has ended."""

from __future__ import annotations

from typing import Final, NamedTuple

from latspan._sampling._budget import Budget
from latspan._sampling._window import Window

__all__ = ["Decisions", "Ended"]

# Shares of the configured ratio: for the slowest traces, for late first tokens, and for the
# random sample. The rest of the ratio is for failures and unusual durations. The shares were chosen
# with the simulation in the tests.
_SLOWEST: Final = 0.4
_LATEST_TOKENS: Final = 0.1
_BY_CHANCE: Final = 0.05
_UNUSUAL: Final = 2.0
"""Share of the ratio for the slowest traces during a burst, and while few durations are known."""

_LITTLE: Final = 300
MOST_WINDOWS: Final = 100
_OTHERS: Final = ("", "")

_RANDOM_BITS: Final = (1 << 56) - 1
"""
Mask of the random part of a trace's id.

Source: W3C Trace Context Level 2, "Random Trace ID Flag"; OpenTelemetry, "TraceState: Probability
Sampling", for the threshold that it is compared with.
"""


class Ended(NamedTuple):
    """
    Data about the outermost span of a trace, on which the decision is based.

    Args:
        key: Kind, and inference path or name; durations with the same key are compared.
        duration_ns: Duration, in nanoseconds.
        first_token_ns: Nanoseconds to the first token of its slowest stream, ``None`` if none.
        kept: Whether its trace is already kept, at random or because a span in it failed.
    """

    key: tuple[str, str]
    duration_ns: int
    first_token_ns: int | None = None
    kept: bool = False


class _Windows(NamedTuple):
    durations: Window
    first_tokens: Window


class Decisions:
    """
    Decides at the end of each outermost span whether its trace is kept. Not thread-safe.

    A trace is kept if it failed, exceeds the fixed limit, is among the slowest of the last 2,000
    traces with the same kind and inference path, or is in the random sample, which its trace id
    determines. The rest of the ratio is spent on traces that are slower than the threshold of 2,000
    requests ago, which happens in a burst or after a permanent change. Failures are kept even if
    they alone exceed the ratio.

    Args:
        ratio: Maximum fraction of all traces that are kept in the long run, in (0, 1).
        slow_ns: Traces with a longer duration are always kept; ``None`` for no such limit.
    """

    def __init__(self, ratio: float, slow_ns: int | None = None) -> None:
        self._slow_ns = slow_ns
        self._slowest = _SLOWEST * ratio
        self._latest_tokens = _LATEST_TOKENS * ratio
        self._unusual = _UNUSUAL * ratio
        self._budget = Budget(ratio)
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
            if len(self._windows) >= MOST_WINDOWS:
                key = _OTHERS
            fresh = _Windows(Window(self._slowest), Window(self._latest_tokens))
            windows = self._windows.setdefault(key, fresh)
        return windows
