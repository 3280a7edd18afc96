"""Exact comparison of two proportions, for example of the requests that failed."""

from __future__ import annotations

import math

__all__ = ["more_often"]


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
