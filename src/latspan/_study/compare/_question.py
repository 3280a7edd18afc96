"""The question that a comparison answers, and the possible answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from latspan._model.goals import PercentileGoal, requested_goal
from latspan._study.answer import Answer, ExitCode
from latspan._study.compare._run import Run
from latspan.errors import ConfigError


class Judgement(Answer):
    """What a comparison concludes."""

    IMPROVED = "improved", ExitCode.GOOD
    NO_WORSE = "no_worse", ExitCode.GOOD
    WORSE = "worse", ExitCode.MISSED
    INCONCLUSIVE = "inconclusive", ExitCode.INCONCLUSIVE
    NOT_INTERPRETABLE = "not_interpretable", ExitCode.NOT_INTERPRETABLE


@dataclass(frozen=True, slots=True)
class Question(PercentileGoal):
    """
    The percentile that a comparison is about.

    Args:
        metric: Name of the metric.
        percentile: In [1, 100).
        limit_ns: Target in nanoseconds; ``None`` without one.
        margin: Largest ratio at which it is no worse; ``None`` for 1.1 below p90, 1.2 from p90 on.
    """

    margin: float | None = None


def question(
    goal: str | PercentileGoal | None,
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    limit_ms: float | None = None,
    margin: float | None = None,
) -> Question:
    """
    Return the question of a goal such as ``p95 ttft <= 500ms``.

    Args:
        goal: Percentile and metric, perhaps with a limit; if ``None``, the first target of the load
            test, and without one the p95 of the duration.
        before: Runs of the first side.
        after: Runs of the second side.
        limit_ms: Limit of the goal in milliseconds, more than 0, if a text does not have it.
        margin: Largest ratio at which it is no worse, more than 1.

    Raises:
        ConfigError: The text is not a goal, or a number is outside its range.
        UnknownNameError: There is no such metric.
    """
    targets = after[0].targets or before[0].targets
    if margin is not None and not (math.isfinite(margin) and margin > 1):
        raise ConfigError(
            f"a margin of {margin:g}", hint="use a ratio above 1: 1.1 allows 10 percent more"
        )
    if isinstance(goal, PercentileGoal):
        goal = goal.with_limit_of(targets)
    else:
        goal = requested_goal(goal, limit_ms=limit_ms, targets=targets, default="p95 duration")
    return Question(goal.metric, goal.percentile, goal.limit_ns, margin)
