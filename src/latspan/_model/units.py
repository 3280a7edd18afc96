"""
Units of metrics, and conversions of stored values.

A time is stored as an integer number of nanoseconds, a ratio as an integer number of billionths.
Both are integers, so the same histogram type holds times and ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan.errors import UnknownNameError

BILLIONTHS: Final = 1_000_000_000
"""Stored value of a ratio of 1."""

TimeUnit = Literal["ns", "us", "ms", "s"]
"""Unit of times in queries and results; ``us`` is the microsecond."""

MetricUnit = Literal["s", "1", "ratio"]
"""Time, stored as nanoseconds; count, stored unchanged; ratio, stored as billionths."""

NS_PER: Final[Mapping[str, int]] = {"ns": 1, "us": 1_000, "ms": NS_PER_MS, "s": NS_PER_S}
"""Nanoseconds per :data:`TimeUnit`."""


def _ns_per(unit: str) -> int:
    try:
        return NS_PER[unit]
    except KeyError:
        known = ", ".join(get_args(TimeUnit))
        raise UnknownNameError(
            f"'{unit}' is not a unit of time", hint=f"use one of {known}"
        ) from None


def in_metric_unit(value: float, unit: MetricUnit) -> float:
    """
    Return a stored value in its metric's own unit: seconds, a count or a ratio.

    Args:
        value: The stored value.
        unit: Unit of the metric.
    """
    if unit == "1":
        return value
    return value / (NS_PER_S if unit == "s" else BILLIONTHS)


def in_unit(value_ns: float, unit: TimeUnit) -> float:
    """
    Return nanoseconds in ``unit``.

    Raises:
        UnknownNameError: ``unit`` is not one of ``ns``, ``us``, ``ms``, ``s``.
    """
    return value_ns / _ns_per(unit)


def shown_in(value: float, metric_unit: MetricUnit, unit: TimeUnit) -> float:
    """
    Return a stored value as users see it: a time in ``unit``, or a count or a ratio.

    Args:
        value: The stored value.
        metric_unit: Unit of the metric.
        unit: Unit of the result if it is a time.

    Raises:
        UnknownNameError: The value is a time, and ``unit`` is not a unit of time.
    """
    return in_unit(value, unit) if metric_unit == "s" else in_metric_unit(value, metric_unit)


def from_unit(value: float, unit: TimeUnit) -> int:
    """
    Return ``value``, given in ``unit``, as nanoseconds rounded to the nearest.

    Raises:
        UnknownNameError: ``unit`` is not one of ``ns``, ``us``, ``ms``, ``s``.
    """
    return round(value * _ns_per(unit))


def milliseconds(value_ns: float) -> str:
    """Return a time in milliseconds with one decimal, for a column; ``<0.1 ms`` below 0.05 ms."""
    value_ms = value_ns / NS_PER_MS
    return "<0.1 ms" if value_ms < 0.05 else f"{value_ms:,.1f} ms"


def rounded_ms(value_ns: float) -> str:
    """Return a time in milliseconds for a sentence: whole from 100 ms on, else one decimal."""
    value_ms = value_ns / NS_PER_MS
    return f"{value_ms:,.0f} ms" if abs(value_ms) >= 100 else f"{value_ms:,.1f} ms"


def exact_ms(value_ns: int) -> str:
    """Return a limit in milliseconds, with the decimals that it was given with."""
    return f"{value_ns / NS_PER_MS:,.6f}".rstrip("0").rstrip(".") + " ms"
