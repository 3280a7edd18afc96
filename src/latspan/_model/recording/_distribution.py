"""
Distribution of the values of one metric or segment, over all selected series.

A distribution has the values that were seen, and what is known of the requests without a value (see
:mod:`latspan._model.recording._population`). Mean, minimum, maximum and spectrum are those of the
values seen. A percentile is a number only if it is the same whatever the missing values would have
been.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar, overload

from latspan._model.censoring import Bounds
from latspan._model.metrics import METRICS, TOKEN_METRICS
from latspan._model.recording._population import (
    Population,
    population_of,
    rounded_bound,
    text_of_unknown,
)
from latspan._model.recording._questions import NO_DEFAULT
from latspan._model.recording._series import SeriesKey
from latspan._model.segments import KIND_NOUNS, Kind, Outcome, Source
from latspan._model.tokens import TokenSource
from latspan._model.units import (
    BILLIONTHS,
    MetricUnit,
    TimeUnit,
    from_unit,
    shown_in,
)
from latspan.errors import (
    ConfigError,
    EmptyHistogramError,
    NotEnoughValuesError,
    UndeterminedPercentileError,
)
from latspan.histogram import Histogram, percentile_spectrum, values_needed

_Default = TypeVar("_Default", bound=float | None)

_DECIMALS: Final[Mapping[TimeUnit, int]] = {"ns": 0, "us": 0, "ms": 1, "s": 3}
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
        histogram: All values seen: nanoseconds for the unit ``s``, plain numbers for ``1``,
            billionths for ``ratio``. Of a segment, they include the times of the segments in which
            requests were given up or failed, which are lower bounds.
        unit: ``s`` for times, ``1`` for counts, ``ratio`` for ratios.
        sources: Number of values per source.
        hint: Hint of the :class:`~latspan.errors.EmptyHistogramError` if there are no values.
        kind: Kind of timeline that the values were measured on; ``None`` without values, unless the
            query named a kind.
        population: What is known of all values, also of the requests without one; ``None`` if the
            question is about the values seen only.
        outcome: The outcome that the question named, if it named one.
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
    population: Population | None = None
    outcome: str | None = None

    def count(self) -> int:
        """Return the number of values seen, clamped ones included."""
        return self.histogram.count

    def cut(self) -> int:
        """Return the number of values that are unknown because the caller gave the request up."""
        return 0 if self.population is None else self.population.cut

    def failed(self) -> int:
        """Return the number of values that do not exist because the request failed."""
        return 0 if self.population is None else self.population.failed

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

        A request that was given up ranks at least as high as the time that its caller waited, and a
        failed one ranks last. A percentile that depends on them is not known.

        Args:
            percentile: 0, which gives the smallest value, or in [1, 100]. A number between 0 and 1
                is refused, because it is nearly always a fraction. The method
                ``value_at_percentile`` of :attr:`histogram` accepts it.
            unit: Unit of the result; no effect on counts and ratios.
            default: Result if there are no values or too few, or if the percentile is not known; if
                not given, these cases raise.

        Returns:
            The value; never below the true one, and at most 1/1024 above it.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1.
            EmptyHistogramError: There are no values.
            NotEnoughValuesError: There are fewer values than ``ceil(100 / (100 - percentile))``.
            UndeterminedPercentileError: It depends on requests that were given up or failed; see
                :meth:`percentile_bounds`.
            UnknownNameError: There is no such unit.
        """
        self._shown(0, unit)  # An unknown unit is an error all the same.
        needed = _needed(percentile)
        if default is not NO_DEFAULT and self._size() < needed:
            return default
        known = self._enough_for(percentile, needed).percentile(percentile)
        if known.is_known:
            return self._shown(known.low, unit)
        if default is not NO_DEFAULT:
            return default
        low = self._shown(known.low, unit)
        raise self._undetermined(
            f"p{percentile:g} of {self.name} {self._text_of_low(low, unit)}",
            percentile=percentile,
            low=low,
            needed=needed,
        )

    def percentile_bounds(self, percentile: float, *, unit: TimeUnit = "ms") -> tuple[float, float]:
        """
        Return the smallest and the largest value that a percentile may have.

        They are equal if the percentile is known. A request that its caller gave up counts with the
        time that the caller waited for the first, and as infinitely slow for the second; a failed
        request is infinitely slow for both.

        Args:
            percentile: 0, or in [1, 100].
            unit: Unit of the result; no effect on counts and ratios.

        Returns:
            Both ends; ``math.inf`` if there is no upper limit, or if the percentile is one of the
            failed requests.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1.
            EmptyHistogramError: There are no values.
            NotEnoughValuesError: There are fewer values than ``ceil(100 / (100 - percentile))``.
            UnknownNameError: There is no such unit.
        """
        low, high = self._enough_for(percentile, _needed(percentile)).percentile(percentile)
        return self._shown(low, unit), self._shown(high, unit)

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
        interval_ns = from_unit(expected_interval, unit)
        population = self.population
        return replace(
            self,
            name=f"{self.name} (corrected for coordinated omission)",
            histogram=self.histogram.corrected_for_coordinated_omission(interval_ns),
            population=None if population is None else population.corrected(interval_ns),
        )

    def fraction_above(self, limit: float, *, unit: TimeUnit = "ms") -> float:
        """
        Return the fraction of values above a limit, in [0, 1]; a failed request is above it.

        Args:
            limit: The limit. A value that exceeds the limit by at most 1/1024 of it may be left out
                of the fraction.
            unit: Unit of the limit; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
            UndeterminedPercentileError: A request was given up before the limit; see
                :meth:`fraction_above_bounds`.
        """
        low, high = self.fraction_above_bounds(limit, unit=unit)
        if low == high:
            return low
        shown = f"{limit:g} {unit}" if self.unit == "s" else f"{limit:g}"
        raise self._undetermined(
            f"the fraction of {self.name} above {shown} is from {low:.4g} to {high:.4g}",
            percentile=math.nan,
            low=low,
            needed=1,
        )

    def fraction_above_bounds(self, limit: float, *, unit: TimeUnit = "ms") -> tuple[float, float]:
        """
        Return the smallest and the largest fraction of values that may be above a limit.

        Args:
            limit: See :meth:`fraction_above`.
            unit: Unit of the limit; no effect on counts and ratios.

        Raises:
            EmptyHistogramError: There are no values.
        """
        low, high = self._all().fraction_above(self._held(limit, unit))
        return low, high

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
        count = self.count()
        numbers = "".join(
            f", {self._text(percentile)}" for percentile in _PERCENTILES if self._size()
        )
        values = "value" if count == 1 else "values"
        return f"<Distribution of {self.name}{self._whose(' of ')}: {count:,} {values}{numbers}>"

    def _text(self, percentile: float) -> str:
        needed = values_needed(percentile)
        if self._size() < needed:
            return f"p{percentile} needs {needed}"
        unit = " ms" if self.unit == "s" else ""
        low, high = self.percentile_bounds(percentile)
        if low == high and math.isfinite(low):
            return f"p{percentile} {low:,.5g}{unit}"
        text = text_of_unknown(Bounds(low, high), lambda end: f"{end:,.5g}{unit}", self._all())
        return f"p{percentile} {text}"

    def _whose(self, preposition: str) -> str:
        """Return the requests that the values belong to, with a preposition before them."""
        if self.kind is None:
            return ""
        completed = f"{self.outcome} " if self.outcome == Outcome.COMPLETED else ""
        return f"{preposition}{completed}{KIND_NOUNS[self.kind][1]}"

    def _text_of_low(self, low: float, unit: TimeUnit) -> str:
        if self.population is not None and self.population.undocumented:
            return "is not known"
        if math.isinf(low):
            return "does not exist"
        if self.unit != "s":
            return f"is at least {low:.4g}"
        return f"is at least {rounded_bound(low):,.{_DECIMALS[unit]}f} {unit}"

    def _undetermined(
        self, text: str, *, percentile: float, low: float, needed: int
    ) -> UndeterminedPercentileError:
        return UndeterminedPercentileError(
            f"{text}: {self._missing()}",
            hint="percentile_bounds() and fraction_above_bounds() return both ends;"
            ' outcome="completed" asks only about the requests that completed',
            percentile=percentile,
            low=low,
            count=self._size(),
            needed=needed,
            cut=self.cut(),
            failed=self.failed(),
        )

    def _missing(self) -> str:
        """Return how many values are not known, and why."""
        cut, failed, whole = self.cut(), self.failed(), self._size()
        metric = METRICS.get(self.name)
        is_part = metric is None or metric.distribution
        nouns = "values" if is_part or self.kind is None else KIND_NOUNS[self.kind][1]
        reason = "were cut short" if is_part else "were given up before it"
        if self.population is not None and self.population.undocumented:
            reason = "were given up, and files of older releases do not show whether before it"
        if not cut:
            return f"{failed:,} of {whole:,} {nouns} failed"
        return f"{cut:,} of {whole:,} {nouns} {reason}" + (f", {failed:,} failed" if failed else "")

    def _size(self) -> int:
        """Return the number of values, known or not."""
        return self.histogram.count if self.population is None else self.population.count

    def _all(self) -> Population:
        """Return what is known of all values; raise if there are none."""
        return (
            self.population
            if self.population is not None and self.population.count
            else Population(self._occupied())
        )

    def _enough_for(self, percentile: float, needed: int) -> Population:
        held = self._all()
        if held.count < needed:
            raise NotEnoughValuesError(
                self.name, percentile=percentile, count=held.count, needed=needed
            )
        return held

    def _shown(self, value: float, unit: TimeUnit) -> float:
        return shown_in(value, self.unit, unit)

    def _held(self, limit: float, unit: TimeUnit) -> int:
        if self.unit == "s":
            return from_unit(limit, unit)
        return math.floor(limit) if self.unit == "1" else round(limit * BILLIONTHS)

    def _occupied(self) -> Histogram:
        if not self.histogram.count:
            cause = self._missing() if self.cause is None and self._size() else self.cause
            why = "" if cause is None else f": {cause}"
            raise EmptyHistogramError(
                f"there are no values of {self.name}{self._whose(' for ')}{why}", hint=self.hint
            )
        return self.histogram


def _needed(percentile: float) -> int:
    """Return the number of values that a percentile needs; refuse a fraction."""
    if 0 < percentile < 1:
        meant = f"{percentile * 100:.12g}"
        raise ConfigError(
            f"{percentile:g} is a fraction, not a percentile",
            hint=f"use {meant} for p{meant}: percentiles are numbers from 0 to 100",
        )
    return values_needed(percentile)


def merged_distribution(
    name: str,
    series: Mapping[SeriesKey, Histogram],
    *,
    unit: MetricUnit,
    kind: Kind | None,
    hint: str | None,
    cause: str | None,
    outcome: str | None = None,
    undocumented: int = 0,
) -> Distribution:
    """
    Return the distribution of the values of several series.

    Args:
        name: The metric's or the segment's name.
        series: Histogram of each series, of values and of lower bounds.
        unit: Unit of the values.
        kind: Kind of the timelines, if it is known.
        hint: See :class:`Distribution`.
        cause: See there.
        outcome: The outcome in the question; the answer is then about the values seen.
        undocumented: See :class:`~latspan._model.recording._population.Population`.
    """
    merged = Histogram()
    sources: Counter[Source | TokenSource] = Counter()
    for key, histogram in series.items():
        if key.is_at_least:
            continue
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
        population=None if outcome is not None else population_of(series, undocumented),
        outcome=outcome,
    )


def _source_of(key: SeriesKey) -> Source | TokenSource | None:
    if key.source is None:
        return None
    return TokenSource(key.source) if key.metric in TOKEN_METRICS else Source(key.source)
