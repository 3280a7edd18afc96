"""Metrics about latspan itself: what was lost, and how much waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    NumberDataPoint,
    Sum,
)

from latspan import semconv
from latspan._recording import Recorder

__all__ = ["About", "Reading", "readings_of", "refused"]

_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    semconv.METRIC_DROPPED: ("Telemetry that was lost, by what it was and why", "{item}"),
    semconv.METRIC_TRACES_LEFT_OUT: ("Traces that were not among those to keep", "{trace}"),
    semconv.METRIC_CLAMPED: ("Values above 24 hours, which count as 24 hours", "{value}"),
    semconv.METRIC_SERIES_OVERFLOW: (
        "Values of series above the limit, which are counted together",
        "{value}",
    ),
    semconv.METRIC_QUEUE_SIZE: ("Finished requests that wait to be worked on", "{request}"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """
    One number about latspan itself.

    Args:
        metric: Its name, one of :mod:`latspan.semconv`.
        value: How many since the start; of the queue, now.
        attributes: What they were.
    """

    metric: str
    value: int
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


def refused(signal: str, count: int) -> Sequence[Reading]:
    """Return that a receiver refused so many for good, if it did."""
    attributes = {semconv.LATSPAN_SIGNAL: signal, semconv.LATSPAN_REASON: "not_taken"}
    return (Reading(semconv.METRIC_DROPPED, count, attributes),) if count else ()


def readings_of(recorder: Recorder) -> Iterable[Reading]:
    """Yield what became of values that a recorder could not count as they were."""
    tally = recorder.tally()
    yield Reading(
        semconv.METRIC_DROPPED,
        tally.rejected,
        {semconv.LATSPAN_SIGNAL: "values", semconv.LATSPAN_REASON: "negative"},
    )
    yield Reading(
        semconv.METRIC_DROPPED,
        tally.unreadable,
        {semconv.LATSPAN_SIGNAL: "records", semconv.LATSPAN_REASON: "unreadable"},
    )
    yield Reading(semconv.METRIC_CLAMPED, tally.clamped)
    for metric, count in tally.overflowed.items():
        yield Reading(semconv.METRIC_SERIES_OVERFLOW, count, {semconv.LATSPAN_METRIC: metric})


class About:
    """
    Turns readings into metrics: since the start, or since the last that arrived.

    Args:
        read: Returns the readings as they are now.
        start_epoch_ns: Unix time since when they count, in nanoseconds.
        temporality: Which of the two.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[Reading]],
        *,
        start_epoch_ns: int,
        temporality: AggregationTemporality,
    ) -> None:
        self._read = read
        self._start_epoch_ns = start_epoch_ns
        self._temporality = temporality
        self._arrived: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._latest: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self._latest_epoch_ns = start_epoch_ns

    def metrics(self, epoch_ns: int) -> list[Metric]:
        """
        Return the metrics; counters only where something was counted.

        Args:
            epoch_ns: Unix time of now, in nanoseconds.
        """
        points: defaultdict[str, list[NumberDataPoint]] = defaultdict(list)
        self._latest_epoch_ns = epoch_ns
        for reading in self._read():
            identity = (reading.metric, tuple(sorted(reading.attributes.items())))
            value = reading.value - self._arrived.get(identity, 0)
            if reading.metric != semconv.METRIC_QUEUE_SIZE:
                self._latest[identity] = reading.value
                if not value:
                    continue
            points[reading.metric].append(
                NumberDataPoint(dict(reading.attributes), self._start_epoch_ns, epoch_ns, value)
            )
        return [
            Metric(
                name,
                *_DESCRIPTIONS[name],
                Gauge(held)
                if name == semconv.METRIC_QUEUE_SIZE
                else Sum(held, self._temporality, is_monotonic=True),
            )
            for name, held in points.items()
        ]

    def arrived(self) -> None:
        """Note that what was returned last has arrived."""
        if self._temporality is AggregationTemporality.DELTA:
            self._arrived = dict(self._latest)
            self._start_epoch_ns = self._latest_epoch_ns
