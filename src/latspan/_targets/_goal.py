"""The short form of a goal: a percentile and a metric, for example ``p95 ttft``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from latspan._metrics import metric_named
from latspan._targets._target import TARGET_METRICS
from latspan.errors import ConfigError

__all__ = ["PercentileOf", "parse_percentile_of"]

_FORM: Final = re.compile(r"p(?P<percentile>\d+(?:\.\d+)?)\s+(?P<metric>\w+)")


class PercentileOf(NamedTuple):
    """
    A percentile of a metric.

    Args:
        metric: Name of the metric.
        percentile: In [1, 100).
    """

    metric: str
    percentile: float

    def __str__(self) -> str:
        return f"p{self.percentile:g} {self.metric}"


def parse_percentile_of(text: str) -> PercentileOf:
    """
    Return the percentile and the metric that a text names.

    Args:
        text: Percentile and name or alias of a time, separated by a space: ``p95 ttft``.

    Raises:
        ConfigError: The text has another form, or the metric is not a time.
        UnknownNameError: There is no such metric.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or not 1 <= float(found["percentile"]) < 100:
        raise ConfigError(
            f"'{text}' is not a goal", hint="for example 'p95 ttft' or 'p99 duration'"
        )
    metric = metric_named(found["metric"]).name
    if metric not in TARGET_METRICS:
        raise ConfigError(
            f"'{metric}' is not a time", hint=f"use one of {', '.join(TARGET_METRICS)}"
        )
    return PercentileOf(metric, float(found["percentile"]))
