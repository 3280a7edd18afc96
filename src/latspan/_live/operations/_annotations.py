"""
Annotations of a request or stage.

Application code and tracked tokens set them while it is open, and integrations at its end.

An attribute that is set after the response has begun may follow from how long it took, for example
``slo="violated"``. So the instant is kept at which each attribute got its last value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from latspan import semconv
from latspan._base.log import warn_once
from latspan._live.otel.spans import AttributeValue
from latspan._model.metrics import (
    TIME_PER_OUTPUT_TOKEN,
    TIME_TO_FIRST_TOKEN,
    MetricValue,
    time_per_output_token,
)
from latspan._model.segments import Outcome

MAX_CUSTOM: Final = 1_000
"""Maximum number of the application's own attributes held for a request or stage."""


class Generation:
    """
    Tokens of one response that this process generates or forwards.

    Args:
        begun_ns: Time at which the first token was requested, monotonic nanoseconds.
    """

    __slots__ = ("begun_ns", "count", "first_ns", "last_ns")

    def __init__(self, begun_ns: int) -> None:
        self.begun_ns = begun_ns
        self.first_ns: int | None = None
        self.last_ns = begun_ns
        self.count = 0

    def token(self, instant_ns: int, count: int = 1) -> None:
        """
        Record the arrival of tokens.

        Args:
            instant_ns: Time of arrival, monotonic nanoseconds.
            count: Number of tokens that arrived together, more than 0.
        """
        if self.first_ns is None:
            self.first_ns = instant_ns
        self.last_ns = instant_ns
        self.count += count

    def so_far(self) -> Generation:
        """Return a copy of the current state."""
        known = Generation(self.begun_ns)
        known.first_ns, known.last_ns, known.count = self.first_ns, self.last_ns, self.count
        return known


_NOTHING: Final[Mapping[str, object]] = {}


class Annotations:
    """
    Annotations set so far; empty at first.

    Args:
        now: Clock, in monotonic nanoseconds.
        before: Attributes that the surrounding code had set at the start.
    """

    __slots__ = (
        "_before",
        "_now",
        "attributes",
        "changed_ns",
        "custom",
        "degraded",
        "generations",
        "metrics",
        "outcome",
        "series",
    )

    def __init__(
        self, now: Callable[[], int] = int, before: Mapping[str, object] = _NOTHING
    ) -> None:
        self._now = now
        self._before = before
        self.changed_ns: dict[str, int] = {}
        """
        Instant at which each attribute in ``custom`` and ``series`` got its value, monotonic
        nanoseconds. An attribute that was set to its earlier value again is not in it.
        """
        self.attributes: dict[str, AttributeValue] = {}
        """Span attributes under names that latspan defines."""
        self.custom: dict[str, AttributeValue] = {}
        """Span attributes under the application's own names."""
        self.series: dict[str, str] = {}
        """Series attributes, by latspan's names."""
        self.degraded: list[str] = []
        self.outcome: Outcome | None = None
        """Outcome set by the application, which replaces ``completed`` and ``error`` at the end."""
        self.generations: list[Generation] = []
        self.metrics: dict[str, MetricValue] = {}

    def closed(self) -> None:
        """
        Freeze attributes and token counts at the end of the request or stage.

        Another thread may be about to set an attribute, or to record a token: it then changes the
        object that is replaced here.
        """
        self.custom = self.custom.copy()
        self.changed_ns = self.changed_ns.copy()
        self.generations = [each.so_far() for each in self.generations]

    def add_custom(self, given: Mapping[str, AttributeValue]) -> None:
        """Add span attributes under the application's own names, in bounded memory."""
        if not given:
            return
        custom, before, now_ns = self.custom, self._before, self._now()
        for name, value in given.items():
            if name in custom or len(custom) < MAX_CUSTOM:
                if custom.get(name, before.get(name)) != value:
                    self.changed_ns[name] = now_ns
                custom[name] = value
            else:
                warn_once(
                    f"a request or stage has more than {MAX_CUSTOM} attributes of the application:"
                    " the others are not set"
                )

    def add_series(self, given: Mapping[str, str]) -> None:
        """Add series attributes, by latspan's names."""
        if not given:
            return
        series, before, now_ns = self.series, self._before, self._now()
        for name, value in given.items():
            if series.get(name, before.get(name)) != value:
                self.changed_ns[name] = now_ns
            series[name] = value

    @property
    def output_tokens(self) -> int | None:
        """Number of tokens of all responses, ``None`` if none were tracked or none arrived."""
        return sum(each.count for each in self.generations) or None

    @property
    def first_token_ns(self) -> int | None:
        """Time of the first token, monotonic nanoseconds; ``None`` if none arrived."""
        came = [each.first_ns for each in self.generations if each.first_ns is not None]
        return min(came, default=None)

    @property
    def last_token_ns(self) -> int | None:
        """Time of the last token, monotonic nanoseconds; ``None`` if none arrived."""
        came = [each.last_ns for each in self.generations if each.count]
        return max(came, default=None)

    def all_metrics(self, start_ns: int) -> dict[str, MetricValue]:
        """
        Return the annotated metrics and the metrics of the tracked tokens.

        Args:
            start_ns: Start of the request or stage, monotonic nanoseconds.
        """
        metrics = dict(self.metrics)
        came = [(each.first_ns, each) for each in self.generations if each.first_ns is not None]
        if not came:
            return metrics
        first_ns = min(first_ns for first_ns, _ in came)
        metrics[TIME_TO_FIRST_TOKEN] = MetricValue(first_ns - start_ns)
        if len(came) == 1:
            ((_, only),) = came
            pace = time_per_output_token(only.last_ns - first_ns, only.count)
            if pace is not None:
                metrics[TIME_PER_OUTPUT_TOKEN] = MetricValue(pace)
        return metrics

    def span_attributes(self) -> dict[str, AttributeValue]:
        """Return the annotations that have names of latspan's as span attributes."""
        attributes = dict(self.attributes)
        if self.output_tokens is not None:
            attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = self.output_tokens
        if self.degraded:
            attributes[semconv.LATSPAN_DEGRADED] = tuple(dict.fromkeys(self.degraded))
        return attributes


class Known(NamedTuple):
    """
    Values of a request or stage that are known only at its end.

    Args:
        name: Final name; ``None`` keeps the first name.
        attributes: Additional attributes of the span.
        metrics: Additional metrics of the record.
        series: Series attributes, in addition to those of the surrounding code; an empty mapping
            keeps those known at the start.
    """

    name: str | None = None
    attributes: Mapping[str, AttributeValue] = {}
    metrics: Mapping[str, MetricValue] = {}
    series: Mapping[str, str] = {}


NOTHING_MORE: Final = Known()
