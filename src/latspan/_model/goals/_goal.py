"""
Goal: a percentile of a metric, with or without a limit, and the one parser of its text.

The text is ``p95 ttft <= 500ms``. Commands, functions, assertions of tests and files of inference
paths read it with :func:`parse_percentile_goal`, so a form that one of them accepts is accepted by
all. The percentile and the metric can change places or be joined by ``_``. The sign of the limit
can be ``<=``, ``≤`` or ``<``, or be left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from latspan._base.nanoseconds import NS_PER_MS, NS_PER_S
from latspan._base.shown import printable
from latspan._model.goals._fields import FieldError
from latspan._model.metrics import LATENCY_METRICS, metric_named
from latspan._model.units import NS_PER
from latspan.errors import ConfigError, UnknownNameError

TARGET_METRICS: Final = tuple(
    name
    for name, each in LATENCY_METRICS.items()
    # Several values of one request depend on each other, so a test of them would be too certain.
    if each.unit == "s" and not each.distribution
)
"""Metrics that a target can limit: times of which a request has one value."""

MAX_LIMIT_NS: Final = 10**15
"""Largest limit that a text or a file can have, in nanoseconds: 11 days."""

_MAX_SHOWN: Final = 60
_PERCENTILE: Final = r"p(?P<percentile>[0-9]+(?:\.[0-9]+)?)"
_METRIC: Final = r"(?P<metric>[a-z]\w*)"
_LIMIT: Final = (
    r"(?:(?:\s*(?:<=|<|≤)\s*|\s+)(?P<limit>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ns|us|ms|s|min))?"
)
_FORMS: Final = (
    re.compile(rf"{_PERCENTILE}[\s_]+{_METRIC}{_LIMIT}"),
    re.compile(rf"{_METRIC}\s+{_PERCENTILE}{_LIMIT}"),
)
_NS_PER: Final = {**NS_PER, "min": 60 * NS_PER_S}
# Keyboards produce the micro sign, and lower-casing or Unicode normalization the Greek letter.
_MICRO: Final = str.maketrans({"\N{MICRO SIGN}": "u", "\N{GREEK SMALL LETTER MU}": "u"})
_HINT: Final = "for example 'p95 ttft <= 500ms' or 'p99 duration <= 10s'"


@dataclass(frozen=True, slots=True)
class PercentileGoal:
    """
    A percentile of a metric, and the limit that it must not exceed.

    Args:
        metric: Name or alias of one of :data:`TARGET_METRICS`; stored as its name.
        percentile: In [1, 100): that share of the requests, in percent.
        limit_ns: In nanoseconds, more than 0; ``None`` without a limit.

    Raises:
        ConfigError: A value is outside its range.
    """

    metric: str
    percentile: float
    limit_ns: int | None = None

    def __post_init__(self) -> None:
        self._name_metric()
        object.__setattr__(self, "percentile", float(self.percentile))
        if not 1 <= self.percentile < 100:
            fraction = 0 < self.percentile < 1
            raise FieldError(
                "percentile",
                f"{{key}} is {self.percentile:g}, which is not in [1, 100)",
                hint=f"use {{key}} = {self.percentile * 100:g}"
                if fraction
                else "use a number such as 95 or 99.9",
            )
        if self.limit_ns is not None and self.limit_ns <= 0:
            raise FieldError(
                "limit_ns", "{key} must be more than 0", hint="use the time that the user accepts"
            )

    def _name_metric(self) -> None:
        try:
            metric = metric_named(self.metric).name
        except UnknownNameError as error:
            raise FieldError("metric", error.message, hint=error.hint or "") from None
        if metric not in TARGET_METRICS:
            raise FieldError(
                "metric",
                f"{{key}} is '{metric}', which is not one time per request",
                hint=f"one of {', '.join(TARGET_METRICS)}",
            )
        object.__setattr__(self, "metric", metric)

    def __str__(self) -> str:
        return f"p{self.percentile:g} {self.metric}"

    @property
    def required_limit_ns(self) -> int:
        """
        The limit in nanoseconds.

        Raises:
            ConfigError: The goal has no limit.
        """
        if self.limit_ns is None:
            raise ConfigError(f"'{self}' has no limit", hint=_HINT)
        return self.limit_ns

    def with_limit_of(self, targets: Iterable[PercentileGoal]) -> PercentileGoal:
        """Return the goal; without a limit, with that of the first target of its percentile."""
        for each in targets:
            same = (each.metric, each.percentile) == (self.metric, self.percentile)
            if same and self.limit_ns is None:
                return replace(self, limit_ns=each.limit_ns)
        return self


def parse_percentile_goal(text: str, *, limit_ms: float | None = None) -> PercentileGoal:
    """
    Return the goal that a text describes, such as ``p95 ttft <= 500ms`` or ``p95 ttft``.

    Args:
        text: Percentile and metric, and perhaps a limit with its unit: ns, us, µs, ms, s or min.
        limit_ms: Limit in milliseconds that is given next to the text, more than 0.

    Raises:
        ConfigError: The text is not a goal, the limit is out of range, or the text and
            ``limit_ms`` have different limits.
        UnknownNameError: There is no such metric.
    """
    plain = text.strip().lower().translate(_MICRO)
    found = next(filter(None, (form.fullmatch(plain) for form in _FORMS)), None)
    shown = printable(text, max_length=_MAX_SHOWN)
    if found is None or not 1 <= float(found["percentile"]) < 100:
        raise ConfigError(f"'{shown}' is not a goal", hint=_HINT)
    # Raises the error about an unknown name with its own class.
    metric = metric_named(found["metric"]).name
    limit_ns = _separate_limit_ns(limit_ms)
    if found["limit"] is not None:
        in_text_ns = _limit_ns(shown, found["limit"], found["unit"])
        if limit_ns not in (None, in_text_ns):
            raise ConfigError(
                f"'{shown}' has a limit, and a limit of {limit_ms:g} ms is given next to it",
                hint="give the limit once: 'p95 ttft <= 500ms'",
            )
        limit_ns = in_text_ns
    return PercentileGoal(metric, float(found["percentile"]), limit_ns)


def requested_goal(
    text: str | None,
    *,
    limit_ms: float | None,
    targets: Sequence[PercentileGoal],
    default: str,
) -> PercentileGoal:
    """
    Return the goal that ``--goal`` and ``--limit-ms`` request.

    Args:
        text: Text of the goal; ``None`` for the first target, or ``default`` without targets.
        limit_ms: Limit in milliseconds; it replaces the limit of the first target.
        targets: Targets of the measured system; one with the same percentile provides the limit
            of a goal that has none.
        default: Text of the goal if nothing else names one.

    Raises:
        ConfigError: The text is not a goal, or a limit is out of range or differs from the other.
        UnknownNameError: There is no such metric.
    """
    if text is None and targets:
        first = targets[0]
        limit_ns = _separate_limit_ns(limit_ms)
        return PercentileGoal(first.metric, first.percentile, limit_ns or first.limit_ns)
    return parse_percentile_goal(text or default, limit_ms=limit_ms).with_limit_of(targets)


def _limit_ns(shown: str, number: str, unit: str) -> int:
    # In binary floating point 0.1 ms is not a whole number of nanoseconds.
    limit_ns = Decimal(number) * _NS_PER[unit]
    if limit_ns > MAX_LIMIT_NS:
        raise ConfigError(f"the limit of '{shown}' is more than 11 days", hint=_HINT)
    if round(limit_ns) == 0:
        raise ConfigError(f"the limit of '{shown}' must be more than 0", hint=_HINT)
    return round(limit_ns)


def _separate_limit_ns(limit_ms: float | None) -> int | None:
    if limit_ms is None:
        return None
    if not (math.isfinite(limit_ms) and limit_ms > 0):
        raise ConfigError(
            f"the limit must be more than 0 ms (got {limit_ms:g})",
            hint="use a number greater than 0",
        )
    # A limit below half a nanosecond must not become none at all.
    return max(1, round(limit_ms * NS_PER_MS))
