"""Draws of the mean times in a tail band, against means that are computed by sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from latspan._study.stats import tail_band_draws

if TYPE_CHECKING:
    from numpy.typing import NDArray

DRAWS = 400


def drawn(
    values: NDArray[np.float64],
    times: NDArray[np.float64],
    weights: NDArray[np.float64],
    part: float,
) -> NDArray[np.float64]:
    return tail_band_draws(
        values,
        weights,
        part,
        times=times,
        rows=np.arange(len(values)),
        draws=DRAWS,
        random=np.random.default_rng(1),
    )


def mean_of_slowest(values: NDArray[Any], times: NDArray[Any], part: float) -> NDArray[Any]:
    slowest = np.argsort(values)[-round(part * len(values)) :]
    return times[slowest].mean(axis=0)


@pytest.mark.parametrize("size", [100, 4_000])
def test_the_draws_vary_around_the_mean_of_the_slowest(size: int) -> None:
    """With few requests, which are drawn one by one, and with blocks of them."""
    times = np.random.default_rng(2).exponential((1.0, 3.0), (size, 2))
    values = times.sum(axis=1)
    found = drawn(values, times, np.ones(size), 0.1)

    errors = found.std(axis=0)
    assert found.shape == (DRAWS, 2)
    assert (errors > 0).all()
    assert (abs(found.mean(axis=0) - mean_of_slowest(values, times, 0.1)) < errors).all()


def test_a_weight_of_two_is_a_request_twice() -> None:
    """The band holds half as many requests if each of the slowest stands for two."""
    times = np.random.default_rng(2).permutation(np.linspace(1, 1_000, 1_000))[:, None]
    weights = np.where(times[:, 0] > 500, 2.0, 1.0)
    found = drawn(times[:, 0], times, weights, 0.1)

    repeated = np.repeat(times, weights.astype(int), axis=0)
    expected = mean_of_slowest(repeated[:, 0], repeated, 0.1)
    assert found.mean(axis=0) == pytest.approx(expected, rel=0.01)


def test_requests_without_a_value_are_left_out_by_their_rows() -> None:
    """The times of all requests are given, and the rows of those that have a value."""
    every = np.array([[5.0], [np.nan]] * 200)
    found = tail_band_draws(
        np.ones(200),
        np.ones(200),
        0.1,
        times=every,
        rows=np.arange(0, 400, 2),
        draws=10,
        random=np.random.default_rng(1),
    )

    assert found == pytest.approx(5.0)
