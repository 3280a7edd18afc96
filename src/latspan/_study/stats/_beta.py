"""
The regularised incomplete beta function, and with it Student's t distribution.

The function is the distribution function of a beta variable. Harrell-Davis weights are its
increments, and the tail of Student's t is a value of it, so both tests and quantiles rest on this
one module, and scipy is not needed.

Source: the continued fraction of Abramowitz and Stegun, 26.5.8, by the method of Lentz; Student's t
by 26.7.1.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TINY: Final = 1e-300
_PRECISION: Final = 1e-13
_MAX_TERMS: Final = 20_000
_DEVIATIONS: Final = 12.0
"""Standard deviations from the mean beyond which the tail is below 1e-13 of the whole."""
_LARGE: Final = 50.0
"""Parameters above which that is true: the distribution is close to a normal one."""


def beta_distribution(x: NDArray[np.float64], a: float, b: float) -> NDArray[np.float64]:
    """
    Return the probability that a beta variable is at most ``x``.

    Args:
        x: Values in [0, 1], of any shape.
        a: First parameter, more than 0.
        b: Second parameter, more than 0.

    Returns:
        Probabilities of the shape of ``x``, with an absolute error below 1e-11.
    """
    result = np.where(x < 1, 0.0, 1.0)
    mean = a / (a + b)
    inside = (x > 0) & (x < 1)
    if min(a, b) > _LARGE:
        reach = _DEVIATIONS * math.sqrt(mean * (1 - mean) / (a + b + 1))
        result = np.where(x > mean, 1.0, 0.0)
        inside &= np.abs(x - mean) < reach
    lower = inside & (x <= (a + 1) / (a + b + 2))
    upper = inside & ~lower
    if lower.any():
        result[lower] = _tail(x[lower], a, b)
    if upper.any():
        result[upper] = 1 - _tail(1 - x[upper], b, a)
    return result


def _tail(x: Any, a: float, b: float) -> Any:
    """
    Return the function where its continued fraction converges fast.

    Args:
        x: An array, or a plain float, for which the same code is several times as fast.
        a: First parameter.
        b: Second parameter.
    """
    front = np.exp(
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * np.log(x)
        + b * np.log1p(-x)
        - math.log(a)
    )
    c = 1.0
    d = 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    fraction = d
    for term in range(1, _MAX_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1) * (a + 2 * term))
        d = 1 / _away_from_zero(1 + even * d)
        c = _away_from_zero(1 + even / c)
        fraction = fraction * (d * c)
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1))
        d = 1 / _away_from_zero(1 + odd * d)
        c = _away_from_zero(1 + odd / c)
        change = d * c
        fraction = fraction * change
        error = abs(change - 1)
        if (error if isinstance(error, float) else error.max()) < _PRECISION:
            break
    return front * fraction


def _away_from_zero(values: Any) -> Any:
    if isinstance(values, float):
        return values if abs(values) >= _TINY else _TINY
    return np.where(np.abs(values) < _TINY, _TINY, values)


def student_tail(t: float, freedom: float) -> float:
    """
    Return the probability that Student's t is more than ``t``.

    Args:
        t: Any number.
        freedom: Degrees of freedom, more than 0; not necessarily whole.
    """
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    x = freedom / (freedom + t * t)
    a, b = freedom / 2, 0.5
    if x >= 1:
        return 0.5
    whole = _tail(x, a, b) if x <= (a + 1) / (a + b + 2) else 1 - _tail(1 - x, b, a)
    half = float(whole) / 2
    return half if t >= 0 else 1 - half


def student_quantile(probability: float, freedom: float) -> float:
    """
    Return the value that Student's t does not exceed with a probability.

    Args:
        probability: In (0, 1).
        freedom: Degrees of freedom, at least 1.
    """
    if probability < 0.5:
        return -student_quantile(1 - probability, freedom)
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > 1 - probability:
        low, high = high, 2 * high
    value = min(max(NormalDist().inv_cdf(probability), low), high)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(
        freedom * math.pi
    )
    for _ in range(60):
        excess = student_tail(value, freedom) - (1 - probability)
        if excess > 0:
            low = value
        else:
            high = value
        density = scale * (1 + value * value / freedom) ** (-(freedom + 1) / 2)
        step = value + excess / density
        # Newton's method where it stays inside the bracket, otherwise bisection.
        following = step if low < step < high else (low + high) / 2
        if abs(following - value) <= 1e-12 * max(1.0, abs(value)):
            return following
        value = following
    return value
