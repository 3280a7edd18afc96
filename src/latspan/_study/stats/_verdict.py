"""
Verdict on a target: whether a percentile is within its limit, by an exact binomial test.

A request *misses* if it takes longer than the limit or fails. The target "p95 within the limit" is
the statement that at most 5 % of all requests miss. With 59 requests and no miss it is proven with
95 % confidence, because 0.95 ** 59 < 0.05: if more than 5 % missed, 59 requests without a miss
would be an event of less than 5 % probability. The opposite statement is proven in the same way.
Between the two, the answer is that more requests are needed.

The test assumes that requests are independent. In an overloaded system they are not, since a queue
delays many requests together; a longer measurement does not repair that, repeated ones do.

A request that its caller gave up before the limit may have missed it or not. A target is met only
if it is met with all of them as misses, and missed only if it is missed without any of them.

In a sample, each request stands for ``w`` requests. The fraction of the weight that misses varies
at most as much as that of ``W / w_max`` single requests, with ``W`` the sum of the weights: a
binomial test of so many requests is valid for every distribution of the weights. Kish's effective
sample size is larger, and too large if slow requests have larger weights than fast ones: in a
simulation of that case, 11 % of the targets at the limit were called met.

Source: MLPerf inference rules, early stopping with a tolerance of 0; Hoeffding (1963), Probability
inequalities for sums of bounded random variables, for weights in [0, 1].
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from latspan._study.stats._binomial import at_least, at_most, fraction_above
from latspan.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ROUNDING: Final = 1e-12
_MAX_NEEDED: Final = 10**9
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
        requests: Number of measured requests; of a sample, the effective number.
        misses: Number of requests that took longer than the limit or failed.
        needed: Least number of further requests, all within the limit, that would prove the target
            to be met; 0 unless the verdict is undecided. Each further miss increases it.
        undecided: Number of requests that their callers gave up before the limit, so that it is
            unknown whether they would have missed it.
    """

    verdict: Verdict
    requests: int
    misses: int
    needed: int
    undecided: int = 0

    def __str__(self) -> str:
        if self.verdict is Verdict.UNDECIDED:
            if self.undecided:
                return f"{self.undecided:,} of {self.requests:,} were left before the limit"
            return f"needs {self.needed:,} more"
        return self.verdict.value


def target_verdict(
    requests: int,
    misses: int,
    percentile: float,
    *,
    undecided: int = 0,
    confidence: float = 0.95,
) -> TargetVerdict:
    """
    Return what a measurement proves about a target.

    Args:
        requests: Number of measured requests, failed ones included, at least 0.
        misses: Number of them that took longer than the limit or failed.
        percentile: Percentile of the target, in (0, 100).
        undecided: Number of further requests that may have missed or not.
        confidence: Probability in (0.5, 1) with which a wrong target is not called met, and a right
            one not called missed.

    Raises:
        ConfigError: A number is outside its range.
    """
    allowed = fraction_above(percentile)
    _check(requests, misses + undecided)
    level = _level(confidence)
    if at_most(misses + undecided, requests, allowed) <= level:
        return TargetVerdict(Verdict.MET, requests, misses, 0, undecided)
    if at_least(misses, requests, allowed) <= level:
        return TargetVerdict(Verdict.MISSED, requests, misses, 0, undecided)
    needed = requests_needed(misses + undecided, percentile, confidence=confidence) - requests
    return TargetVerdict(Verdict.UNDECIDED, requests, misses, needed, undecided)


def weighted_target_verdict(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    weights: NDArray[np.float64],
    limit: float,
    percentile: float,
    *,
    confidence: float = 0.95,
) -> TargetVerdict:
    """
    Return what a measurement proves about a target, with weights and values that are not known.

    Args:
        low: Smallest possible value of each request; shape ``(n,)``, unit of the limit.
        high: Largest possible value, infinite if there is none; shape ``(n,)``.
        weights: Number of requests that each stands for, at least 1; shape ``(n,)``.
        limit: Limit of the target.
        percentile: Percentile of the target, in (0, 100).
        confidence: See :func:`target_verdict`.
    """
    if not len(weights):
        return target_verdict(0, 0, percentile, confidence=confidence)
    surely, perhaps = (float(weights[each > limit].sum()) for each in (low, high))
    return target_verdict_of_weights(
        float(weights.sum()),
        surely,
        perhaps,
        percentile,
        heaviest=float(weights.max()),
        confidence=confidence,
    )


def target_verdict_of_weights(
    requests: float,
    surely: float,
    perhaps: float,
    percentile: float,
    *,
    heaviest: float = 1.0,
    confidence: float = 0.95,
) -> TargetVerdict:
    """
    Return what sums of weights prove about a target; see :func:`weighted_target_verdict`.

    Args:
        requests: Sum of the weights of all requests, at least 0.
        surely: Sum of the weights of those that miss.
        perhaps: The same with those that may have missed or not.
        percentile: Percentile of the target, in (0, 100).
        heaviest: Largest weight of a request, at least 1.
        confidence: See :func:`target_verdict`.
    """
    # A sum of equal weights may be a rounding error below a whole number.
    size = math.floor(requests / heaviest * (1 + _ROUNDING))
    misses = min(size, math.floor(surely / heaviest * (1 + _ROUNDING)))
    most = max(misses, min(size, math.ceil(perhaps / heaviest * (1 - _ROUNDING))))
    found = target_verdict(size, misses, percentile, undecided=most - misses, confidence=confidence)
    if perhaps - surely > _ROUNDING * requests:
        return found
    # Nothing is open: only the number of misses is no whole number.
    return replace(found, misses=most, undecided=0)


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
        if enough > _MAX_NEEDED:
            raise ConfigError(
                f"p{percentile:g} needs more than {_MAX_NEEDED:,} requests",
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
