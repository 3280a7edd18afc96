"""Goal of a diagnosis: a metric and its percentile, of one kind of unit, perhaps with a limit."""

from __future__ import annotations

from dataclasses import dataclass

from latspan._model.goals import PercentileGoal, parse_percentile_goal
from latspan._model.metrics import DIVISIBLE, DURATION, OF_PACE
from latspan._model.segments import Kind
from latspan.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Goal(PercentileGoal):
    """
    The percentile of a metric that a diagnosis explains.

    Args:
        metric: ``duration``, ``time_to_first_token``, ``time_to_first_visible_token``,
            ``time_per_output_token`` or ``chunk_gap_max``.
        percentile: In [50, 100).
        limit_ns: Target of the percentile in nanoseconds; ``None`` without one.
        kind: Kind of the units: requests or calls; ``None`` for the outermost kind that occurs.

    Raises:
        ConfigError: A value is not in its range, or there is no such metric.
    """

    metric: str = DURATION
    percentile: float = 95.0
    kind: Kind | None = None

    def __post_init__(self) -> None:
        # A class with slots is created twice, so super() without arguments fails in it.
        PercentileGoal.__post_init__(self)
        if self.metric not in DIVISIBLE:
            raise ConfigError(
                f"'{self.metric}' cannot be divided into segments",
                hint=f"use one of {', '.join(DIVISIBLE)}",
            )
        if self.kind is None and self.metric in OF_PACE:
            # A request with several calls has no pace of its own.
            object.__setattr__(self, "kind", Kind.CALL)
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


def goal_of(goal: PercentileGoal, kind: Kind | None = None) -> Goal:
    """Return the goal of a diagnosis of a target or of another goal."""
    return Goal(goal.metric, goal.percentile, goal.limit_ns, kind)


def parse_goal(text: str, *, limit_ms: float | None = None, kind: Kind | None = None) -> Goal:
    """
    Return the goal that a text describes, for example ``p95 ttft <= 500ms``.

    Args:
        text: Percentile and metric, perhaps with a limit.
        limit_ms: Limit in milliseconds, more than 0, if the text does not have it.
        kind: Kind of the units.

    Raises:
        ConfigError: The text is not a goal.
        UnknownNameError: There is no such metric.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            f"{type(text).__name__} is not a goal",
            hint="a goal is text, for example 'p95 ttft <= 500ms'; data has arguments of their own:"
            " latspan.diagnose(snapshot=...)",
        )
    return goal_of(parse_percentile_goal(text, limit_ms=limit_ms), kind)
