"""A histogram loses no value and says no percentile below the true one."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan.errors import ConfigError, EmptyHistogramError, InvalidValueError
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS, index_of

durations = st.integers(0, HIGHEST_NS) | st.integers(0, 5_000)
any_values = st.lists(st.integers(-10, 2 * HIGHEST_NS) | durations)
percentiles = st.sampled_from([0, 0.1, 29, 50, 90, 95, 99, 99.9, 100]) | st.floats(0, 100)


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


def merged(*histograms: Histogram) -> Histogram:
    total = Histogram()
    for histogram in histograms:
        total.merge(histogram)
    return total


@given(st.lists(durations, min_size=1), percentiles)
def test_a_percentile_is_the_value_of_its_rank(values: list[int], percentile: float) -> None:
    """It is never below the sorted data's value, at most 1/1000 above, never above the maximum."""
    rank = max(math.ceil(Fraction(str(float(percentile))) * len(values) / 100), 1)
    true_value = sorted(values)[rank - 1]

    value = histogram_of(values).value_at_percentile(percentile)

    assert true_value <= value <= true_value + true_value / 1000
    assert value <= max(values)


@given(st.lists(durations, min_size=1), st.lists(percentiles, min_size=2))
def test_percentiles_are_monotone(values: list[int], asked: list[float]) -> None:
    """A higher percentile is never a lower value."""
    histogram = histogram_of(values)

    answers = [histogram.value_at_percentile(percentile) for percentile in sorted(asked)]

    assert sorted(answers) == answers


@given(any_values)
def test_every_value_is_held_rejected_or_clamped(values: list[int]) -> None:
    """Nothing disappears: negative values are counted apart, too high ones held as the highest."""
    held = [min(value, HIGHEST_NS) for value in values if value >= 0]

    histogram = histogram_of(values)

    assert len(held) == histogram.count == sum(count for _, count in histogram)
    assert sum(held) == histogram.sum_ns
    assert len(values) - len(held) == histogram.rejected
    assert sum(value > HIGHEST_NS for value in values) == histogram.clamped


@given(any_values)
def test_many_values_at_once_are_as_good_as_one_by_one(values: list[int]) -> None:
    """The bulk loop and the single call hold the same."""
    one_by_one = Histogram()
    for value in values:
        one_by_one.record(value)

    assert one_by_one == histogram_of(values)


@given(any_values, any_values)
def test_merging_is_recording_together(first: list[int], second: list[int]) -> None:
    """A merge holds what recording all values in one histogram would."""
    assert histogram_of(first + second) == merged(histogram_of(first), histogram_of(second))


@given(any_values, any_values, any_values)
def test_merging_is_associative_and_commutative(
    first: list[int], second: list[int], third: list[int]
) -> None:
    """The order in which histograms are merged does not matter."""
    a, b, c = histogram_of(first), histogram_of(second), histogram_of(third)

    assert merged(merged(a, b), c) == merged(a, merged(b, c)) == merged(c, a, b)


@given(st.lists(durations, min_size=1), durations)
def test_the_share_above_a_limit_is_that_of_the_data(values: list[int], limit: int) -> None:
    """Values in buckets above the limit's count, the limit's own bucket does not."""
    above = sum(index_of(value) > index_of(limit) for value in values)

    assert above / len(values) == histogram_of(values).fraction_above(limit)


def test_everything_is_above_a_negative_limit() -> None:
    """A limit below 0 has no bucket, and excludes nothing."""
    assert histogram_of([0, 5]).fraction_above(-1) == 1


@given(st.lists(durations, min_size=1))
def test_extremes_and_mean_are_exact(values: list[int]) -> None:
    """They come from the values, not from the buckets."""
    histogram = histogram_of(values)

    assert (min(values), max(values)) == (histogram.min_ns, histogram.max_ns)
    assert sum(values) / len(values) == histogram.mean_ns


@pytest.mark.parametrize("odd", [1.5, math.nan, math.inf, -math.inf, "1", None, [1, 2]])
@pytest.mark.parametrize("others", [[], [7], [7] * 200])
def test_what_is_no_integer_is_refused_and_nothing_with_it(odd: Any, others: list[int]) -> None:
    """The error says what it was, and no value of the same call is counted."""
    histogram = histogram_of([5])

    with pytest.raises(InvalidValueError, match="integers"):
        histogram.record_many([*others, odd])
    with pytest.raises(InvalidValueError, match="integers"):
        histogram.record(odd)

    assert histogram_of([5]) == histogram


@pytest.mark.parametrize("value", [-(1 << 70), -1, HIGHEST_NS + 1, 1 << 63, 1 << 70])
def test_one_value_out_of_range_spoils_no_other(value: int) -> None:
    """It is rejected or clamped, visibly, and the others are counted."""
    many, single = histogram_of([7] * 200 + [value]), Histogram()
    for each in [7] * 200 + [value]:
        single.record(each)

    assert many == single
    assert (many.rejected, many.clamped) == (int(value < 0), int(value > 0))
    assert 200 + many.clamped == many.count


@given(any_values, any_values)
def test_what_was_merged_can_be_taken_out_again(first: list[int], second: list[int]) -> None:
    """Counts, sums and odd values are exact; extremes are within a bucket."""
    a, b = histogram_of(first), histogram_of(second)

    left = merged(a, b).subtract(b)

    assert list(a) == list(left)
    assert (a.count, a.sum_ns, a.rejected, a.clamped) == (
        left.count,
        left.sum_ns,
        left.rejected,
        left.clamped,
    )
    if a.count:
        assert index_of(a.min_ns) == index_of(left.min_ns)
        assert index_of(a.max_ns) == index_of(left.max_ns)


def test_what_is_not_held_cannot_be_taken_out() -> None:
    """No count becomes negative in silence."""
    with pytest.raises(ConfigError, match="does not"):
        histogram_of([1]).subtract(histogram_of([2]))


def test_correction_adds_what_a_waiting_generator_did_not_send() -> None:
    """After a stall of 100 at an interval of 25 three requests are missing: 75, 50 and 25."""
    histogram = histogram_of([10, 100])

    corrected = histogram.corrected_for_coordinated_omission(25)

    assert histogram_of([10, 100, 75, 50, 25]) == corrected
    assert (
        histogram_of([10_000_500_000]).corrected_for_coordinated_omission(1_000_000).max_ns
        == 10_000_500_000
    )
    assert histogram_of([10, 100]) == histogram


@pytest.mark.parametrize("interval_ns", [0, -1, 1])
def test_a_correction_that_makes_no_sense_is_refused(interval_ns: int) -> None:
    """No such interval, or one so short that it would be busy for hours."""
    with pytest.raises(ConfigError, match=r"interval|sent"):
        histogram_of([HIGHEST_NS]).corrected_for_coordinated_omission(interval_ns)


@given(any_values)
def test_a_histogram_is_made_again_from_what_it_holds(values: list[int]) -> None:
    """Buckets and the exact numbers beside them are all there is."""
    histogram = histogram_of(values)
    exact = (
        {
            "sum_ns": histogram.sum_ns,
            "min_ns": histogram.min_ns,
            "max_ns": histogram.max_ns,
        }
        if histogram.count
        else {}
    )

    made = Histogram.from_buckets(
        histogram, rejected=histogram.rejected, clamped=histogram.clamped, **exact
    )

    assert histogram == made


def test_buckets_alone_determine_sum_and_extremes_within_a_bucket() -> None:
    """Where nobody knows the exact ones: middles, the lowest value, the highest."""
    made = Histogram.from_buckets([(index_of(1_000_000), 2)])

    assert made.count == 2
    assert abs(made.sum_ns - 2_000_000) < 2_000
    assert made.min_ns <= 1_000_000 <= made.max_ns < 1_001_000


@pytest.mark.parametrize("total", [1 << 32, 1 << 40])
def test_counters_grow_with_what_they_count(total: int) -> None:
    """None overflows, whatever the order in which values come."""
    histogram = Histogram.from_buckets([(7, total - 1)])

    histogram.record_many([7, 7, 9])

    assert list(histogram) == [(7, total + 1), (9, 1)]


def test_merging_with_itself_doubles() -> None:
    """Whatever form its counts have."""
    for values in ([1, 5], [1, 5, 5, 5] * 10, list(range(1_000_000, 1_000_100))):
        histogram = histogram_of(values)

        histogram.merge(histogram)

        assert histogram == histogram_of(values * 2)


def test_more_values_than_files_can_represent_are_refused() -> None:
    """The histogram is as it was before."""
    histogram = Histogram.from_buckets([(7, (1 << 63) - 2)])

    with pytest.raises(ConfigError, match="cannot hold"):
        histogram.merge(histogram_of([7, 7]))

    assert list(histogram) == [(7, (1 << 63) - 2)]


def test_a_copy_shares_nothing() -> None:
    """Recording into a copy leaves the original as it was."""
    histogram = histogram_of([1, 2_000_000])

    histogram.copy().record(7)

    assert histogram_of([1, 2_000_000]) == histogram


def test_buckets_come_lowest_first() -> None:
    """Iterating gives each occupied bucket once, sorted by index."""
    assert list(histogram_of([9, 1, 5, 1])) == [(1, 2), (5, 1), (9, 1)]


@pytest.mark.parametrize(
    "question",
    [
        lambda: Histogram().value_at_percentile(50),
        lambda: Histogram().fraction_above(0),
        lambda: Histogram().mean_ns,
        lambda: Histogram().min_ns,
        lambda: Histogram().max_ns,
    ],
)
def test_an_empty_histogram_has_no_answers(question: object) -> None:
    """Without values every number would be a lie."""
    assert callable(question)
    with pytest.raises(EmptyHistogramError):
        question()
