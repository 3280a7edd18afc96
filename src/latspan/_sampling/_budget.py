"""Budget of traces that may be kept in addition, filled by the unused allowance of all requests."""

from __future__ import annotations

from typing import Final

__all__ = ["Budget"]

_FREE: Final = 300
"""Number of requests at the start without a limit, because too few durations are known yet."""

_ON_TRUST: Final = 1_000
"""Number of requests whose allowance is available from the start, for an early burst."""

_LONGEST: Final = 10_000
"""
Maximum number of requests whose allowance can accumulate, which limits a burst after a long quiet
time.
"""


class Budget:
    """
    Number of traces that may be kept in addition. Not thread-safe.

    Args:
        ratio: Number of kept traces that each request allows, in (0, 1).
    """

    __slots__ = ("_left", "_ratio", "_seen")

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._left = ratio * _ON_TRUST
        self._seen = 0

    def earn(self) -> None:
        """Add the allowance of one request."""
        self._seen += 1
        self._left = min(self._left + self._ratio, self._ratio * _LONGEST)

    def spend(self) -> None:
        """Subtract a kept trace; the budget may become negative."""
        self._left -= 1

    @property
    def suffices(self) -> bool:
        """Whether one more trace may be kept because its duration is unusual."""
        return self._left > 0 or self._seen <= _FREE

    @property
    def is_left_over(self) -> bool:
        """
        Whether one more trace may be kept for a weaker reason: the budget is larger than initially.
        """
        return self._left > self._ratio * _ON_TRUST or self._seen <= _FREE
