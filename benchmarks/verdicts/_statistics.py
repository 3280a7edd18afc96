"""Exact limits of a proportion (Clopper and Pearson, 1934), one-sided at 95 % confidence."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, fsum, lgamma, log
from typing import Final

_ALPHA: Final = 0.05
_STEPS: Final = 60


def upper_limit(count: int, size: int) -> float:
    """
    Return the largest probability with which at most this count still has 5 % probability.

    Args:
        count: Number of successes.
        size: Number of trials.
    """
    if count >= size:
        return 1.0
    return _root(lambda share: _at_most(count, size, share) > _ALPHA)


def lower_limit(count: int, size: int) -> float:
    """
    Return the smallest probability with which at least this count still has 5 % probability.

    Args:
        count: Number of successes.
        size: Number of trials.
    """
    return 0.0 if size == 0 else 1 - upper_limit(size - count, size)


def _root(is_below: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return high


def _at_most(count: int, size: int, share: float) -> float:
    """Return the probability of at most this many successes."""
    return fsum(
        exp(
            lgamma(size + 1)
            - lgamma(each + 1)
            - lgamma(size - each + 1)
            + each * log(share)
            + (size - each) * log(1 - share)
        )
        for each in range(count + 1)
    )
