"""A spectrum shows a distribution from its smallest value to its largest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latspan.errors import ConfigError, EmptyHistogramError
from latspan.histogram import Histogram, SpectrumPoint, percentile_spectrum
from latspan.histogram._buckets import HIGHEST_NS


def histogram_of(values: list[int]) -> Histogram:
    histogram = Histogram()
    histogram.record_many(values)
    return histogram


@given(st.lists(st.integers(1, HIGHEST_NS), min_size=1), st.integers(1, 10))
def test_a_spectrum_rises_to_the_largest_value(values: list[int], ticks: int) -> None:
    """Percentiles strictly, values and counts never falling; it ends with all of them."""
    points = list(percentile_spectrum(histogram_of(values), ticks))

    percentiles = [point.percentile for point in points]
    held = [point.value for point in points]
    counts = [point.count for point in points]
    assert sorted(set(percentiles)) == percentiles
    assert (sorted(held), sorted(counts)) == (held, counts)
    assert points[-1] == SpectrumPoint(100, max(values), len(values))
    for point in points:
        assert point.count * 100 >= point.percentile * len(values) * (1 - 1e-12)


def test_each_half_of_what_is_left_has_as_many_points() -> None:
    """Five to 50 %, five to 75 %, five to 87.5 % and so on."""
    points = list(percentile_spectrum(histogram_of(list(range(1, 2_001)))))

    levels = [0, 10, 20, 30, 40, 50, 55, 60, 65, 70, 75, 77.5, 80, 82.5, 85, 87.5, 88.75]
    assert levels == [point.percentile for point in points[: len(levels)]]
    assert points[5] == SpectrumPoint(50, points[5].value, 1_000)
    assert points[10] == SpectrumPoint(75, points[10].value, 1_500)
    assert points[10].value == 1_500


def test_a_spectrum_needs_values_and_ticks() -> None:
    """Without either there is nothing to show."""
    with pytest.raises(EmptyHistogramError):
        next(percentile_spectrum(Histogram()))
    with pytest.raises(ConfigError, match="0 ticks"):
        next(percentile_spectrum(histogram_of([1]), 0))
