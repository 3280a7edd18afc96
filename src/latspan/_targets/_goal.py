"""The short form of a goal: a percentile and a metric, for example ``p95 ttft``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from latspan._metrics import metric_named
from latspan._targets._target import TARGET_METRICS
from latspan.errors import ConfigError

__all__ = ["PercentileOf", "parse_percentile_of", "percentile_of"]

_PERCENTILE: Final = r"p(?P<percentile>[0-9]+(?:\.[0-9]+)?)"
_METRIC: Final = r"(?P<metric>[a-z]\w*)"
_FORMS: Final = (
    re.compile(rf"{_PERCENTILE}[ _]+{_METRIC}"),
    re.compile(rf"{_METRIC}\s+{_PERCENTILE}"),
)


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


def percentile_of(text: str) -> PercentileOf | None:
    """
    Return the percentile and the metric that a text names, which may not exist.

    Args:
        text: Percentile and metric, separated by a space and in either order.

    Returns:
        ``None`` if the text has another form.
    """
    for form in _FORMS:
        found = form.fullmatch(text.strip())
        if found is not None:
            return PercentileOf(found["metric"], float(found["percentile"]))
    return None


def parse_percentile_of(text: str) -> PercentileOf:
    """
    Return the percentile and the metric that a text names.

    Args:
        text: Percentile and name or alias of a time, separated by a space and in either order:
            ``p95 ttft``.

    Raises:
        ConfigError: The text has another form, or the metric is not a time.
        UnknownNameError: There is no such metric.
    """
    found = percentile_of(text)
    if found is None or not 1 <= found.percentile < 100:
        raise ConfigError(
            f"'{text}' is not a goal", hint="for example 'p95 ttft' or 'p99 duration'"
        )
    metric = metric_named(found.metric).name
    if metric not in TARGET_METRICS:
        raise ConfigError(
            f"'{metric}' is not a time", hint=f"use one of {', '.join(TARGET_METRICS)}"
        )
    return found._replace(metric=metric)
