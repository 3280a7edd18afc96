"""Distribution of the values of one metric or segment, over all selected series."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

from latspan._metrics import TOKEN_METRICS
from latspan._recording._questions import NO_DEFAULT
from latspan._recording._series import SeriesKey
from latspan._segments import KIND_NOUNS, Kind, Source
from latspan._tokens import TokenSource
from latspan._units import (
    BILLIONTHS,
    MetricUnit,
    TimeUnit,
    from_unit,
    shown_in,
)
from latspan.errors import ConfigError, EmptyHistogramError, NotEnoughValuesError
from latspan.histogram import Histogram, percentile_spectrum, values_needed

__all__ = ["Distribution", "merged_distribution"]

_Default = TypeVar("_Default", bound=float | None)

_PERCENTILES: Final = (50, 95, 99)
"""Percentiles in the text form of a distribution."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """
    Distribution of the values of one metric or segment, with the source of the values.

    If the unit is ``1`` or ``ratio``, the values are not times, and the argument ``unit`` of the
    methods has no effect.

    Args:
        name: The metric's or the segment's name.
        histogram: All values: nanoseconds for the unit ``s``, plain numbers for ``1``, billionths
            for ``ratio``.
        unit: ``s`` for times, ``1`` for counts, ``ratio`` for ratios.
        sources: Number of values per source.
        hint: Hint of the :class:`~latspan.errors.EmptyHistogramError` if there are no values.
        kind: Kind of timeline that the values were measured on; ``None`` without values, unless the
            query named a kind.
        cause: Reason why there are no values, if it is known; part of the message of that
            :class:`~latspan.errors.EmptyHistogramError`.
    """

    name: str
    histogram: Histogram
    unit: MetricUnit = "s"
    sources: Mapping[Source | TokenSource, int] = field(
        default_factory=dict[Source | TokenSource, int]
    )
    hint: str | None = None
    kind: Kind | None = None
    cause: str | None = None

    def count(self) -> int:
        """Return the number of values, clamped ones included."""
        return self.histogram.count

    def rejected(self) -> int:
        """Return the number of negative values, which are not stored."""
        return self.histogram.rejected

    def clamped(self) -> int:
        """Return the number of values above 24 hours; each is stored as 24 hours."""
        return self.histogram.clamped

    def source_fractions(self) -> dict[Source | TokenSource, float]:
        """Return the fraction of the values from each source, in (0, 1], largest fraction first."""
        whole = sum(self.sources.values())
        by_count = sorted(self.sources.items(), key=lambda item: -item[1])
        return {source: count / whole for source, count in by_count if count}

    @overload
    def percentile(
        self, percentile: float, *, unit: TimeUnit = "ms", default: _Default
    ) -> float | _Default: ...
    @overload
    def percentile(self, percentile: float, *, unit: TimeUnit = "ms") -> float: ...
    def percentile(
        self, percentile: float, *, unit: TimeUnit = "ms", default: Any = NO_DEFAULT
    ) -> Any:
        """
        Return the value that ``percentile`` percent of the values do not exceed.

        Args:
            percentile: 0, which gives the smallest value, or in [1, 100]. A number between 0 and 1
                is refused, because it is nearly always a fraction. The method
                ``value_at_percentile`` of :attr:`histogram` accepts it.
            unit: Unit of the result; no effect on counts and ratios.
            default: Result if there are no values or too few; if not given, these cases raise.

        Returns:
            The value; never below the true one, and at most 1/1024 above it.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1.
            EmptyHistogramError: There are no values.
            NotEnoughValuesError: There are fewer values than ``ceil(100 / (100 - percentile))``.
            UnknownNameError: There is no such unit.
        """
        if 0 < percentile < 1:
            meant = f"{percentile * 100:.12g}"
            raise ConfigError(
                f"{percentile:g} is a fraction, not a percentile",
                hint=f"use {meant} for p{meant}: percentiles are numbers from 0 to 100",
            )
        needed = values_needed(percentile)
        if default is not NO_DEFAULT and self.count() < needed:
            self._shown(0, unit)  # An unknown unit is an error all the same.
            return default
        held = self._occupied()
        if held.count < needed:
            raise NotEnoughValuesError(
                self.name, percentile=percentile, count=held.count, needed=needed
            )
        return self._shown(held.value_at_percentile(percentile), unit)

    def spectrum(self, *, ticks: int = 5, unit: TimeUnit = "ms") -> list[tuple[float, float, int]]:
        """
        Return the percentile spectrum: the whole distribution, finer towards its tail.

        Args:
            ticks: Number of points in each half of the distance to 100 %, at least 1: from 0 to 50,
                from 50 to 75, from 75 to 87.5, and so on.
            unit: Unit of the values; no effect on counts and ratios.

        Returns:
            Tuples of a percentile in [0, 100], its value, and the number of values that do not
            exceed it. The last tuple has the largest value. A percentile that needs more values
            than were recorded equals the largest value, for example p99.9 of 100 values.

        Raises:
            ConfigError: ``ticks`` is less than 1.
            EmptyHistogramError: There are no values.
            UnknownNameError: There is no such unit.

        Source: HdrHistogram, percentile ticks per half distance.
        """
        return [
            (point.percentile, self._shown(point.value, unit), point.count)
            for point in percentile_spectrum(self._occupied(), ticks)
        ]

    def corrected_for_coordinated_omission(
        self, expected_interval: float, *, unit: TimeUnit = "ms"
    ) -> Distribution:
        """
        Return a copy that also has the values that a blocked load generator did not measure.

        Use it only for a load test whose generator was meant to send at a fixed interval, but sent
        nothing while it waited for a response. Do not use it for the requests of an application's
        users: it would add requests that were never made.

        Args:
            expected_interval: Intended interval between requests, greater than 0.
            unit: Unit of the interval.

        Raises:
            ConfigError: The interval is not positive, or so short that more than a million
                additions would be needed.

        Source: HdrHistogram, ``copyCorrectedForCoordinatedOmission``.
        """
        corrected = self.histogram.corrected_for_coordinated_omission(
            from_unit(expected_interval, unit)
        )
        name = f"{self.name} (corrected for coordinated omission)"
        return replace(self, name=name, histogram=corrected)

    def fraction_above(self, limit: float, *, unit: TimeUnit = "ms") -> float:
        """
        Return the fraction of values above a limit, in [0, 1].

        Args:
            limit: The limit. A value that exceeds the limit by at most 1/1024 of it may be left out
                of the fraction.
            unit: Unit of the limit; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
        """
        return self._occupied().fraction_above(self._held(limit, unit))

    def mean(self, *, unit: TimeUnit = "ms") -> float:
        """
        Return the exact mean.

        Args:
            unit: Unit of the result; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
        """
        return self._shown(self._occupied().mean_ns, unit)

    def min(self, *, unit: TimeUnit = "ms") -> float:
        """
        Return the exact smallest value.

        Args:
            unit: Unit of the result; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
        """
        return self._shown(self._occupied().min_ns, unit)

    def max(self, *, unit: TimeUnit = "ms") -> float:
        """
        Return the exact largest value.

        Args:
            unit: Unit of the result; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
        """
        return self._shown(self._occupied().max_ns, unit)

    def __repr__(self) -> str:
        whose = "" if self.kind is None else f" of {KIND_NOUNS[self.kind][1]}"
        count = self.count()
        numbers = "".join(f", {self._text(percentile)}" for percentile in _PERCENTILES if count)
        values = "value" if count == 1 else "values"
        return f"<Distribution of {self.name}{whose}: {count:,} {values}{numbers}>"

    def _text(self, percentile: float) -> str:
        needed = values_needed(percentile)
        if self.count() < needed:
            return f"p{percentile} needs {needed}"
        unit = " ms" if self.unit == "s" else ""
        return f"p{percentile} {self.percentile(percentile):,.5g}{unit}"

    def _shown(self, value: float, unit: TimeUnit) -> float:
        return shown_in(value, self.unit, unit)

    def _held(self, limit: float, unit: TimeUnit) -> int:
        if self.unit == "s":
            return from_unit(limit, unit)
        return math.floor(limit) if self.unit == "1" else round(limit * BILLIONTHS)

    def _occupied(self) -> Histogram:
        if not self.histogram.count:
            whose = "" if self.kind is None else f" for {KIND_NOUNS[self.kind][1]}"
            why = "" if self.cause is None else f": {self.cause}"
            raise EmptyHistogramError(
                f"there are no values of {self.name}{whose}{why}", hint=self.hint
            )
        return self.histogram


def merged_distribution(
    name: str,
    series: Mapping[SeriesKey, Histogram],
    *,
    unit: MetricUnit,
    kind: Kind | None,
    hint: str | None,
    cause: str | None,
) -> Distribution:
    """
    Return the distribution of the values of several series.

    Args:
        name: The metric's or the segment's name.
        series: Histogram of each series.
        unit: Unit of the values.
        kind: Kind of the timelines, if it is known.
        hint: See :class:`Distribution`.
        cause: See there.
    """
    merged = Histogram()
    sources: Counter[Source | TokenSource] = Counter()
    for key, histogram in series.items():
        merged.merge(histogram)
        source = _source_of(key)
        if source is not None:
            sources[source] += histogram.count
    merged.compact()
    return Distribution(
        name,
        merged,
        unit=unit,
        sources=MappingProxyType(sources),
        hint=hint,
        kind=kind,
        cause=cause,
    )


def _source_of(key: SeriesKey) -> Source | TokenSource | None:
    if key.source is None:
        return None
    return TokenSource(key.source) if key.metric in TOKEN_METRICS else Source(key.source)
