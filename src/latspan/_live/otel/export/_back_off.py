"""Exponential back-off between attempts to export, with jitter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from latspan._base.clock import Clock
from latspan._base.nanoseconds import NS_PER_S

_FIRST_S: Final = 1.0
_MAX_S: Final = 60.0
_MAX_RETRY_AFTER_S: Final = 600.0
"""Longest pause that a receiver can request, in seconds; a longer request is shortened to it."""

_JITTER: Final = 0.2
"""Fraction by which a pause varies, so that the processes of a fleet do not retry all at once."""


class BackOff:
    """
    Pauses that double from 1 s to 60 s, plus or minus a fifth, until a message is accepted.

    A receiver may request a longer pause, up to ten minutes.

    Args:
        clock: The clock that pauses are measured with.
        spread: Function that returns a random number in [a, b); ``random.uniform`` if not given.
    """

    def __init__(
        self, clock: Clock, spread: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._failures = 0
        self._until_ns = self._requested_until_ns = clock.monotonic_ns()

    def accepted(self) -> None:
        """Reset the back-off and end the pause, because a message was accepted."""
        self._failures = 0
        self._until_ns = self._requested_until_ns = self._clock.monotonic_ns()

    def refused(self, retry_after_s: float = 0.0) -> None:
        """
        Start a pause, because a message was not accepted.

        Args:
            retry_after_s: Pause that the receiver requested, in seconds; 0 if it requested none.
        """
        own_s = min(_MAX_S, _FIRST_S * 2**self._failures)
        # Pauses double up to 60 s, so powers above 2**6 are not needed.
        self._failures = min(self._failures + 1, 6)
        now_ns = self._clock.monotonic_ns()
        self._requested_until_ns = now_ns + round(min(retry_after_s, _MAX_RETRY_AFTER_S) * NS_PER_S)
        self._until_ns = max(
            self._requested_until_ns,
            now_ns + round(own_s * self._spread(1 - _JITTER, 1 + _JITTER) * NS_PER_S),
        )

    def is_over(self, *, only_requested: bool = False) -> bool:
        """
        Return whether the pause is over and the next attempt may start.

        Args:
            only_requested: Whether to consider only a pause that the receiver requested.
        """
        until_ns = self._requested_until_ns if only_requested else self._until_ns
        return self._clock.monotonic_ns() >= until_ns
