"""
Tails of the binomial distribution: the probability of at most, or at least, so many misses.

A tail is a sum of terms, each of which follows from its neighbour by one multiplication. The sum
starts at the term nearest to the expected number, which is the largest one, and moves away from it
until a term no longer changes it. Its first term comes from a logarithm of factorials, so it does
not underflow where ``(1 - p) ** n`` would. The relative error is below 1e-8 for a million trials.
"""

from __future__ import annotations

import math
from fractions import Fraction

from latspan.errors import ConfigError


def fraction_below(percentile: float) -> float:
    """
    Return the fraction of the values that are below a percentile.

    Args:
        percentile: In (0, 100); it counts as the decimal number that the user wrote.

    Raises:
        ConfigError: ``percentile`` is outside (0, 100).
    """
    return float(_exact(percentile) / 100)


def fraction_above(percentile: float) -> float:
    """
    Return the fraction of the values that are above a percentile.

    Args:
        percentile: In (0, 100); it counts as the decimal number that the user wrote.

    Raises:
        ConfigError: ``percentile`` is outside (0, 100).
    """
    return float(1 - _exact(percentile) / 100)


def _exact(percentile: float) -> Fraction:
    if not 0 < percentile < 100:
        raise ConfigError(
            f"{percentile} is not a percentile with values on both sides",
            hint="use a number between 0 and 100, for example 95 or 99.9",
        )
    return Fraction(str(float(percentile)))


def at_most(successes: int, trials: int, probability: float) -> float:
    """
    Return the probability of at most so many successes.

    Args:
        successes: Number of successes; any integer.
        trials: Number of independent trials, at least 0.
        probability: Probability of a success in each trial, in (0, 1).
    """
    if successes < 0:
        return 0.0
    if successes >= trials:
        return 1.0
    if successes > trials * probability:
        return 1 - _upper_tail(successes + 1, trials, probability)
    return _lower_tail(successes, trials, probability)


def at_least(successes: int, trials: int, probability: float) -> float:
    """
    Return the probability of at least so many successes.

    Args:
        successes: Number of successes; any integer.
        trials: Number of independent trials, at least 0.
        probability: Probability of a success in each trial, in (0, 1).
    """
    # A success in one direction is a failure in the other.
    return at_most(trials - successes, trials, 1 - probability)


def _lower_tail(successes: int, trials: int, probability: float) -> float:
    term = _term(successes, trials, probability)
    odds = (1 - probability) / probability
    total = 0.0
    for count in range(successes, -1, -1):
        total += term
        term *= count / (trials - count + 1) * odds
        if term <= total * 1e-17:
            break
    return min(total, 1.0)


def _upper_tail(successes: int, trials: int, probability: float) -> float:
    return _lower_tail(trials - successes, trials, 1 - probability)


def _term(successes: int, trials: int, probability: float) -> float:
    """Return the probability of exactly so many successes."""
    return math.exp(
        math.lgamma(trials + 1)
        - math.lgamma(successes + 1)
        - math.lgamma(trials - successes + 1)
        + successes * math.log(probability)
        + (trials - successes) * math.log1p(-probability)
    )
