"""How many traces may be kept beyond the ordinary: what ordinary times have left over."""

from __future__ import annotations

from typing import Final

__all__ = ["Credit"]

_FREE: Final = 300
"""Requests before which nobody knows what is slow."""

_ON_TRUST: Final = 1_000
"""What so many requests would leave over is there from the start, for a burst that comes early."""

_LONGEST: Final = 10_000
"""What more requests than so many have left over is forgotten: a burst after a year is a burst."""


class Credit:
    """
    Traces that were allowed and not kept. Not thread-safe.

    Args:
        ratio: In (0, 1). How many traces each request allows.
    """

    __slots__ = ("_left", "_ratio", "_seen")

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._left = ratio * _ON_TRUST
        self._seen = 0

    def earn(self) -> None:
        """Allow for one request."""
        self._seen += 1
        self._left = min(self._left + self._ratio, self._ratio * _LONGEST)

    def spend(self) -> None:
        """Note that a trace is kept, allowed or not."""
        self._left -= 1

    @property
    def suffices(self) -> bool:
        """Whether one more trace may be kept because its like was not seen lately."""
        return self._left > 0 or self._seen <= _FREE

    @property
    def is_left_over(self) -> bool:
        """Whether one more may be kept for less, as nothing is owed."""
        return self._left > self._ratio * _ON_TRUST or self._seen <= _FREE
