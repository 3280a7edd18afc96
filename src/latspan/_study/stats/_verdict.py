"""
Verdict on a target: whether a percentile is within its limit, by an exact binomial test.

A request *misses* if it takes longer than the limit or fails. The target "p95 within the limit" is
the statement that at most 5 % of all requests miss. With 59 requests and no miss it is proven with
95 % confidence, because 0.95 ** 59 < 0.05: if more than 5 % missed, 59 requests without a miss
would be an event of less than 5 % probability. The opposite statement is proven in the same way.
Between the two, the answer is that more requests are needed.

The test assumes that requests are independent. In an overloaded system they are not, since a queue
delays many requests together; a longer measurement does not repair that, repeated ones do.

Source: MLPerf inference rules, early stopping with a tolerance of 0.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from latspan._study.stats._binomial import at_least, at_most, fraction_above
from latspan.errors import ConfigError

__all__ = ["TargetVerdict", "Verdict", "requests_needed", "target_verdict"]

_ROUNDING: Final = 1e-12
_MOST_NEEDED: Final = 10**9
"""Number of requests past which the search for the needed number stops."""


class Verdict(StrEnum):
    """What a measurement proves about a target."""

    MET = "met"
    """At most the allowed share of requests misses the limit, with the stated confidence."""
    MISSED = "missed"
    """More than the allowed share of requests misses the limit, with the stated confidence."""
    UNDECIDED = "undecided"
    """Neither is proven; more requests are needed."""


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """
    Verdict on a target, with the numbers that it rests on.

    Args:
        verdict: What is proven.
        requests: Number of measured requests.
        misses: Number of requests that took longer than the limit or failed.
        needed: Least number of further requests, all within the limit, that would prove the target
            to be met; 0 unless the verdict is undecided. Each further miss increases it.
    """

    verdict: Verdict
    requests: int
    misses: int
    needed: int

    def __str__(self) -> str:
        if self.verdict is Verdict.UNDECIDED:
            return f"needs {self.needed:,} more"
        return self.verdict.value


def target_verdict(
    requests: int, misses: int, percentile: float, *, confidence: float = 0.95
) -> TargetVerdict:
    """
    Return what a measurement proves about a target.

    Args:
        requests: Number of measured requests, failed ones included, at least 0.
        misses: Number of them that took longer than the limit or failed.
        percentile: Percentile of the target, in (0, 100).
        confidence: Probability in (0.5, 1) with which a wrong target is not called met, and a right
            one not called missed.

    Raises:
        ConfigError: A number is outside its range.
    """
    allowed = fraction_above(percentile)
    _check(requests, misses)
    level = _level(confidence)
    if at_most(misses, requests, allowed) <= level:
        return TargetVerdict(Verdict.MET, requests, misses, 0)
    if at_least(misses, requests, allowed) <= level:
        return TargetVerdict(Verdict.MISSED, requests, misses, 0)
    needed = requests_needed(misses, percentile, confidence=confidence) - requests
    return TargetVerdict(Verdict.UNDECIDED, requests, misses, needed)


def requests_needed(misses: int, percentile: float, *, confidence: float = 0.95) -> int:
    """
    Return the least number of requests that prove a target to be met, given how many of them miss.

    Args:
        misses: Number of requests that miss the limit, at least 0.
        percentile: Percentile of the target, in (0, 100).
        confidence: In (0.5, 1).

    Returns:
        Without a miss 59 for p95, 299 for p99 and 2995 for p99.9.

    Raises:
        ConfigError: A number is outside its range.
    """
    allowed = fraction_above(percentile)
    _check(misses, misses)
    level = _level(confidence)
    # More requests with the same misses are always stronger evidence.
    enough = max(misses, 1)
    while at_most(misses, enough, allowed) > level:
        enough *= 2
        if enough > _MOST_NEEDED:
            raise ConfigError(
                f"p{percentile:g} needs more than {_MOST_NEEDED:,} requests",
                hint="use a lower percentile",
            )
    counts = range(enough + 1)
    return bisect_left(counts, True, key=lambda count: at_most(misses, count, allowed) <= level)


def _check(requests: int, misses: int) -> None:
    if not 0 <= misses <= requests:
        raise ConfigError(
            f"{misses} of {requests} requests cannot miss",
            hint="count every request, and among them those that miss",
        )


def _level(confidence: float) -> float:
    """Return the largest probability of a wrong statement."""
    if not 0.5 < confidence < 1:
        raise ConfigError(
            f"{confidence} is not a confidence", hint="use a number between 0.5 and 1: 0.95"
        )
    # One miss of one request at p95 has a probability of 5 % exactly, which rounding must not hide.
    return (1 - confidence) * (1 + _ROUNDING)
