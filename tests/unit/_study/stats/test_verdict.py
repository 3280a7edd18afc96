"""A target is met or missed only if an exact binomial test proves it."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan._study.stats import (
    TargetVerdict,
    Verdict,
    at_least,
    at_most,
    requests_needed,
    target_verdict,
)
from latspan._study.stats._binomial import fraction_above
from latspan.errors import ConfigError


@pytest.mark.parametrize(
    ("percentile", "needed"),
    [
        (95, {0: 59, 1: 93, 2: 124, 5: 208, 10: 336}),
        (99, {0: 299, 1: 473, 2: 628, 5: 1049, 10: 1693}),
        (99.9, {0: 2995, 1: 4742, 2: 6294, 5: 10511, 10: 16959}),
    ],
)
def test_the_needed_requests_are_those_of_the_early_stopping_rule(
    percentile: float, needed: dict[int, int]
) -> None:
    """The table of MLPerf's rule for 95 % confidence, and one request fewer is not enough."""
    assert {each: requests_needed(each, percentile) for each in needed} == needed
    for misses, requests in needed.items():
        assert target_verdict(requests, misses, percentile).verdict is Verdict.MET
        assert target_verdict(requests - 1, misses, percentile) == TargetVerdict(
            Verdict.UNDECIDED, requests - 1, misses, 1
        )


@given(st.floats(1, 99.99), st.floats(0.6, 0.999))
def test_without_a_miss_the_number_has_a_closed_form(percentile: float, confidence: float) -> None:
    """The least n with ``q ** n <= 1 - confidence``."""
    exact = log(1 - confidence) / log(percentile / 100)

    assert requests_needed(0, percentile, confidence=confidence) == pytest.approx(exact, abs=1.001)


@given(st.integers(0, 2_000), st.integers(0, 2_000), st.sampled_from([50, 90, 95, 99, 99.9]))
def test_every_verdict_holds_its_level(requests: int, misses: int, percentile: float) -> None:
    """No verdict is stated whose opposite has a probability above 5 %, and none is withheld."""
    misses = min(misses, requests)
    allowed = fraction_above(percentile)
    answer = target_verdict(requests, misses, percentile)

    proves_met = at_most(misses, requests, allowed) <= 0.05 * (1 + 1e-12)
    proves_missed = at_least(misses, requests, allowed) <= 0.05 * (1 + 1e-12)
    assert answer.verdict is (
        Verdict.MET if proves_met else Verdict.MISSED if proves_missed else Verdict.UNDECIDED
    )
    assert (answer.needed > 0) == (answer.verdict is Verdict.UNDECIDED)
    if answer.needed:
        further = requests + answer.needed
        assert target_verdict(further, misses, percentile).verdict is Verdict.MET
        assert target_verdict(further - 1, misses, percentile).verdict is not Verdict.MET


@pytest.mark.parametrize(
    ("requests", "misses", "percentile", "shown"),
    [
        (0, 0, 95, "needs 59 more"),
        (58, 0, 95, "needs 1 more"),
        (59, 0, 95, "met"),
        (100, 5, 95, "needs 108 more"),
        # The probability of at least 10 of 100 is 0.028 at 5 %, of at least 9 it is 0.063.
        (100, 9, 95, "needs 211 more"),
        (100, 10, 95, "missed"),
        (1, 1, 99, "missed"),
        (1, 1, 95, "missed"),
        (1_000_000, 49_000, 95, "met"),
        (1_000_000, 51_000, 95, "missed"),
        (1_000_000, 50_000, 95, "needs 7,201 more"),
    ],
)
def test_a_verdict_is_one_word_or_a_number(
    requests: int, misses: int, percentile: float, shown: str
) -> None:
    """What a table prints."""
    assert str(target_verdict(requests, misses, percentile)) == shown


@pytest.mark.parametrize(
    ("arguments", "confidence"),
    [
        ((10, 11, 95), 0.95),
        ((10, -1, 95), 0.95),
        ((10, 0, 100), 0.95),
        ((10, 0, 0), 0.95),
        ((10, 0, 95), 1.0),
        ((10, 0, 95), 0.5),
    ],
)
def test_impossible_numbers_are_refused(
    arguments: tuple[int, int, float], confidence: float
) -> None:
    """An error, not a verdict."""
    with pytest.raises(ConfigError):
        target_verdict(*arguments, confidence=confidence)


def test_a_percentile_that_needs_too_many_requests_is_refused() -> None:
    """The search has an end."""
    with pytest.raises(ConfigError, match="needs more than 1,000,000,000 requests"):
        requests_needed(0, 99.9999999999)
