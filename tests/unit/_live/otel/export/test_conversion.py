"""Buckets that are kept from one export to the next equal those that are converted from scratch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from latspan._live.otel.export._conversion import Conversion, KeptConversion
from latspan._model.recording import Series, key_of
from latspan.histogram import Histogram
from latspan.histogram._buckets import HIGHEST_NS

KEY = key_of("segment", {"segment": "queue"})
BOUNDS = (0.01, 0.1, 1.0)
values = st.lists(
    st.integers(0, HIGHEST_NS) | st.integers(0, 5_000) | st.integers(10**8, 2 * 10**8), max_size=40
)


def series_of(recorded: list[int], start_epoch_ns: int = 0) -> Series:
    histogram = Histogram()
    histogram.record_many(recorded)
    return Series(histogram, start_epoch_ns, 1)


@given(
    st.lists(st.tuples(values, st.booleans()), max_size=6),
    st.sampled_from([-2, 8, 12]),
    st.sampled_from([2, 160, 50_000]),
)
def test_kept_buckets_equal_converted_ones(
    intervals: list[tuple[list[int], bool]], scale: int, max_buckets: int
) -> None:
    """After every interval, whether it was exported or not."""
    kept, scratch = KeptConversion(scale, max_buckets), Conversion(scale, max_buckets)
    total: list[int] = []
    for recorded, is_exported in intervals:
        total += recorded
        if not total or not is_exported:
            continue
        series = series_of(total)
        kept.begin({KEY: series_of(recorded)} if recorded else {})
        given_buckets = kept.exponential(KEY, series)
        expected = scratch.exponential(KEY, series)

        assert tuple(given_buckets.counts) == tuple(expected.counts)
        assert (given_buckets.scale, given_buckets.offset, given_buckets.zero_count) == (
            expected.scale,
            expected.offset,
            expected.zero_count,
        )


@given(st.lists(st.tuples(values, st.booleans()), max_size=6))
def test_kept_counts_of_explicit_buckets_equal_converted_ones(
    intervals: list[tuple[list[int], bool]],
) -> None:
    """After every interval, whether it was exported or not."""
    kept, scratch = KeptConversion(), Conversion()
    total: list[int] = []
    for recorded, is_exported in intervals:
        total += recorded
        if total and is_exported:
            series = series_of(total)
            kept.begin({KEY: series_of(recorded)} if recorded else {})

            assert kept.explicit(KEY, series, BOUNDS, 1e9) == scratch.explicit(
                KEY, series, BOUNDS, 1e9
            )


def test_a_series_that_started_again_is_converted_from_scratch() -> None:
    """It was forgotten as idle, and has as many values as before."""
    kept = KeptConversion()
    first, second = [10**8] * 1_000, [10**9] * 1_000
    kept.exponential(KEY, series_of(first))
    again = series_of(second, start_epoch_ns=5)

    assert kept.exponential(KEY, again) == Conversion().exponential(KEY, again)


def test_a_forgotten_series_is_converted_from_scratch() -> None:
    """What is no longer exported is not kept."""
    kept = KeptConversion()
    kept.exponential(KEY, series_of([10**8] * 1_000))
    kept.forget_all_but({})
    other = series_of([10**9] * 1_000)

    assert kept.exponential(KEY, other) == Conversion().exponential(KEY, other)


def test_many_values_in_a_bucket_are_counted() -> None:
    """More than a byte holds, with values of both kinds of histogram: lists and counters."""
    for count in (200, 300, 100_000):
        buckets = Conversion().exponential(KEY, series_of([0, *([10**8] * count), 2 * 10**9]))

        assert (buckets.zero_count, sum(buckets.counts), max(buckets.counts)) == (
            1,
            count + 1,
            count,
        )
