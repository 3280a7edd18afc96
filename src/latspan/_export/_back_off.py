"""When to try again, where nobody took what was sent."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from latspan._clock import Clock
from latspan._units import NS_PER_S

__all__ = ["BackOff"]

_FIRST_S: Final = 1.0
_LONGEST_S: Final = 60.0
_LONGEST_ASKED_S: Final = 600.0
"""A receiver that asks for more is asked again after so long all the same."""

_JITTER: Final = 0.2
"""So that a fleet does not come back all at once."""


class BackOff:
    """
    Pauses that double from 1 s to 60 s, a fifth more or less, until something is taken.

    A receiver may ask for a longer one, up to ten minutes.

    Args:
        clock: The time.
        spread: Returns a number in [a, b); ``random.uniform`` unless given.
    """

    def __init__(
        self, clock: Clock, spread: Callable[[float, float], float] = random.uniform
    ) -> None:
        self._clock = clock
        self._spread = spread
        self._failures = 0
        self._over_ns = self._asked_over_ns = clock.monotonic_ns()

    def taken(self) -> None:
        """Begin anew, and end the pause: something was taken."""
        self._failures = 0
        self._over_ns = self._asked_over_ns = self._clock.monotonic_ns()

    def not_taken(self, asked_s: float = 0.0) -> None:
        """
        Begin a pause.

        Args:
            asked_s: How long the receiver asked for, in seconds; 0 where it did not.
        """
        own_s = min(_LONGEST_S, _FIRST_S * 2**self._failures)
        # 2**6 s is more than the longest.
        self._failures = min(self._failures + 1, 6)
        now_ns = self._clock.monotonic_ns()
        self._asked_over_ns = now_ns + round(min(asked_s, _LONGEST_ASKED_S) * NS_PER_S)
        self._over_ns = max(
            self._asked_over_ns,
            now_ns + round(own_s * self._spread(1 - _JITTER, 1 + _JITTER) * NS_PER_S),
        )

    def is_over(self, *, asked_alone: bool = False) -> bool:
        """
        Return whether to try again now.

        Args:
            asked_alone: Whether to keep no pause but one that the receiver asked for.
        """
        until_ns = self._asked_over_ns if asked_alone else self._over_ns
        return self._clock.monotonic_ns() >= until_ns
