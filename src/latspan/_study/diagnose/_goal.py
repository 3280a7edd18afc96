"""Goal of a diagnosis: a metric and its percentile, of one kind of unit, perhaps with a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from latspan._metrics import FIRST_TOKENS, metric_named
from latspan._segments import Kind
from latspan._targets import Target, percentile_of
from latspan._units import NS_PER_MS
from latspan.errors import ConfigError

__all__ = ["DURATION", "Goal", "goal_of", "parse_goal"]

DURATION: Final = "duration"
_EXPLAINED: Final = (DURATION, *FIRST_TOKENS)
"""Metrics that segments add up to, so that their time can be divided among them."""


@dataclass(frozen=True, slots=True)
class Goal:
    """
    The percentile of a metric that a diagnosis explains.

    Args:
        metric: ``duration``, ``time_to_first_token`` or ``time_to_first_visible_token``.
        percentile: In [50, 100).
        limit_ns: Target of the percentile in nanoseconds; ``None`` without one.
        kind: Kind of the units: requests or calls; ``None`` for the outermost kind that occurs.

    Raises:
        ConfigError: A value is not in its range.
        UnknownNameError: There is no such metric.
    """

    metric: str = DURATION
    percentile: float = 95.0
    limit_ns: int | None = None
    kind: Kind | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", metric_named(self.metric).name)
        if self.metric not in _EXPLAINED:
            raise ConfigError(
                f"'{self.metric}' cannot be divided into segments",
                hint=f"use one of {', '.join(_EXPLAINED)}",
            )
        if not 50 <= self.percentile < 100:
            raise ConfigError(
                f"p{self.percentile:g} is not a percentile to diagnose",
                hint="use one from 50 to 99.9, for example p95",
            )
        if self.kind not in (None, Kind.REQUEST, Kind.CALL):
            raise ConfigError(
                f"'{self.kind}' is not a kind to diagnose", hint="use request or call"
            )

    @property
    def tail_fraction(self) -> float:
        """
        Fraction of the units that form the tail band, in (0, 0.5].

        The band has twice the fraction above the percentile: the slowest 10 % for p95, 2 % for
        p99. So the percentile is in its middle.
        """
        return min(0.5, 2 * (100 - self.percentile) / 100)

    def __str__(self) -> str:
        return f"p{self.percentile:g} {self.metric}"


def goal_of(target: Target, kind: Kind | None = None) -> Goal:
    """Return the goal of a target."""
    return Goal(target.metric, target.percentile, target.limit_ns, kind)


def parse_goal(text: str, *, limit_ms: float | None = None, kind: Kind | None = None) -> Goal:
    """
    Return the goal that a text names, for example ``p95 ttft``.

    Args:
        text: Percentile and metric, separated by a space and in either order.
        limit_ms: Target in milliseconds, more than 0.
        kind: Kind of the units.

    Raises:
        ConfigError: The text is not a goal.
        UnknownNameError: There is no such metric.
    """
    found = percentile_of(text)
    if found is None:
        raise ConfigError(
            f"'{text}' is not a goal", hint="for example 'p95 ttft' or 'p99 duration'"
        )
    limit_ns = None
    if limit_ms is not None:
        if not (math.isfinite(limit_ms) and limit_ms > 0):
            raise ConfigError(f"a limit of {limit_ms} ms", hint="use a number greater than 0")
        limit_ns = round(limit_ms * NS_PER_MS)
    return Goal(found.metric, found.percentile, limit_ns, kind)
