"""Exact test of whether a group is over-represented in a part of the units."""

from __future__ import annotations

from math import comb
from statistics import NormalDist
from typing import Final

__all__ = ["hypergeometric_tail"]

_EXACT_UP_TO: Final = 3_000
"""Number of units up to which the probability is exact."""


def hypergeometric_tail(found: int, size: int, members: int, drawn: int) -> float:
    """
    Return the probability of at least ``found`` members in a random draw.

    Source: the one-sided exact test of Fisher.
    """
    if size > _EXACT_UP_TO:
        return _normal_tail(found, size, members, drawn)
    total, most = comb(size, drawn), min(members, drawn)
    favourable = sum(
        comb(members, count) * comb(size - members, drawn - count)
        for count in range(found, most + 1)
        if drawn - count <= size - members
    )
    return favourable / total


def _normal_tail(found: int, size: int, members: int, drawn: int) -> float:
    """Return the normal approximation of :func:`hypergeometric_tail` for many units."""
    mean = drawn * members / size
    variance = mean * (1 - members / size) * (size - drawn) / (size - 1)
    if variance <= 0:
        return 1.0
    return 1 - NormalDist().cdf((found - 0.5 - mean) / variance**0.5)
