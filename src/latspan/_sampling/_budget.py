"""Budget for keeping more traces than usual, filled with the allowance that was not used."""

from __future__ import annotations

from typing import Final

__all__ = ["Budget"]

_FREE: Final = 300
"""Number of first requests without a limit: too few durations are known to detect slow ones."""

_ON_TRUST: Final = 1_000
"""Number of requests whose allowance is available at the start, for an early burst."""

_LONGEST: Final = 10_000
"""Maximum number of requests whose allowance adds up, to limit a burst after a quiet year."""


class Budget:
    """
    Number of traces that were allowed and not kept. Not thread-safe.

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
        """Subtract a kept trace, even if none is allowed."""
        self._left -= 1

    @property
    def suffices(self) -> bool:
        """Whether one more trace may be kept because its duration is unusual."""
        return self._left > 0 or self._seen <= _FREE

    @property
    def is_left_over(self) -> bool:
        """Whether one more trace may be kept for a weaker reason: more is left than initially."""
        return self._left > self._ratio * _ON_TRUST or self._seen <= _FREE
