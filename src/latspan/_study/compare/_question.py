"""The question that a comparison answers, and the possible answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from latspan._study.compare._run import Run
from latspan._targets import Target, parse_percentile_of
from latspan.errors import ConfigError

__all__ = ["Judgement", "Question", "question"]


class Judgement(StrEnum):
    """What a comparison concludes."""

    IMPROVED = "improved"
    NO_WORSE = "no worse"
    WORSE = "worse"
    INCONCLUSIVE = "inconclusive"
    NOT_INTERPRETABLE = "not interpretable"


@dataclass(frozen=True, slots=True)
class Question:
    """
    The percentile that a comparison is about.

    Args:
        metric: Name of the metric.
        percentile: In [1, 100).
        limit_ns: Target in nanoseconds; ``None`` without one.
        margin: Largest ratio at which it is no worse; ``None`` for 1.1 below p90, 1.2 from p90 on.
    """

    metric: str
    percentile: float
    limit_ns: int | None = None
    margin: float | None = None

    def __str__(self) -> str:
        return f"p{self.percentile:g} {self.metric}"


def question(
    text: str | None,
    before: Sequence[Run],
    after: Sequence[Run],
    *,
    limit_ms: float | None = None,
    margin: float | None = None,
) -> Question:
    """
    Return the question of a text such as ``p95 ttft``.

    Args:
        text: Percentile and metric; if ``None``, the first target of the load test, and without one
            the p95 of the duration.
        before: Runs of the first side.
        after: Runs of the second side.
        limit_ms: Target in milliseconds, more than 0.
        margin: Largest ratio at which it is no worse, more than 1.

    Raises:
        ConfigError: The text is not a question, or a number is outside its range.
        UnknownNameError: There is no such metric.
    """
    targets: Sequence[Target] = after[0].targets or before[0].targets
    if limit_ms is not None and not (math.isfinite(limit_ms) and limit_ms > 0):
        raise ConfigError(f"a limit of {limit_ms:g} ms", hint="use a number greater than 0")
    if margin is not None and not (math.isfinite(margin) and margin > 1):
        raise ConfigError(
            f"a margin of {margin:g}", hint="use a ratio above 1: 1.1 allows 10 percent more"
        )
    limit_ns = None if limit_ms is None else round(limit_ms * 1e6)
    if text is None and targets:
        first = targets[0]
        return Question(first.metric, first.percentile, limit_ns or first.limit_ns, margin)
    metric, percentile = parse_percentile_of(text or "p95 duration")
    for each in targets:
        if limit_ns is None and (each.metric, each.percentile) == (metric, percentile):
            limit_ns = each.limit_ns
    return Question(metric, percentile, limit_ns, margin)
