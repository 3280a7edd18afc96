"""Exact comparisons of proportions: of two measurements, and of a group in a part of the units."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

_EXACT_UP_TO: Final = 3_000
"""Number of units up to which the probability is exact."""


def more_often(before: int, before_of: int, after: int, after_of: int) -> float:
    """
    Return the p-value of the hypothesis that something is not more frequent after than before.

    Args:
        before: Number of trials before in which it happened.
        before_of: Number of trials before.
        after: Number of trials after in which it happened.
        after_of: Number of trials after.

    Source: Fisher's exact test, one-sided.
    """
    happened, every = before + after, before_of + after_of

    def log_choose(size: int, chosen: int) -> float:
        return math.lgamma(size + 1) - math.lgamma(chosen + 1) - math.lgamma(size - chosen + 1)

    whole = log_choose(every, happened)
    most = min(happened, after_of)
    return min(
        1.0,
        sum(
            math.exp(log_choose(after_of, count) + log_choose(before_of, happened - count) - whole)
            for count in range(after, most + 1)
            if happened - count <= before_of
        ),
    )


def hypergeometric_tail(found: int, size: int, members: int, drawn: int) -> float:
    """
    Return the probability of at least ``found`` members in a random draw.

    Source: the one-sided exact test of Fisher.
    """
    if size > _EXACT_UP_TO:
        return _normal_tail(found, size, members, drawn)
    total, most = math.comb(size, drawn), min(members, drawn)
    favourable = sum(
        math.comb(members, count) * math.comb(size - members, drawn - count)
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
