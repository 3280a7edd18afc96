"""Snapshot: an immutable view of everything that was recorded in one period of time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from latspan._metrics import TOKEN_METRICS, metric_named
from latspan._recording._distribution import Distribution
from latspan._recording._record import RequestRecord
from latspan._recording._series import (
    SEGMENT,
    Series,
    SeriesKey,
    add_series,
    refuse_unknown_attributes,
)
from latspan._segments import SEGMENT_ORDER, Kind, Source
from latspan._slices import give_way
from latspan._tokens import TokenSource
from latspan._units import MetricUnit, TimeUnit
from latspan.errors import ConfigError, UnknownNameError
from latspan.histogram import Histogram

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    Everything that was recorded from one instant to another.

    Each query takes ``kind``, the kind of timeline that the values were measured on, and attributes
    that the series must have. If ``kind`` is omitted, it is the outermost kind that has such values
    (the first of request, call, http, stage), because the user waits for the outermost.

    Args:
        series: Recorded series, by key; they must not be changed.
        start_epoch_ns: Unix time of the start of the period, in nanoseconds.
        end_epoch_ns: Unix time of the end of the period, in nanoseconds, at least
            ``start_epoch_ns``.
        records: The latest requests, as many as ``keep_records`` is configured to keep.
    """

    series: Mapping[SeriesKey, Series]
    start_epoch_ns: int
    end_epoch_ns: int
    records: tuple[RequestRecord, ...] = ()

    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str,
    ) -> float:
        """
        Return a percentile of a metric.

        Args:
            metric: A metric's name or alias, for example ``ttft``.
            percentile: In [0, 100].
            unit: Unit of the result if it is a time; no effect on counts and ratios.
            kind: Kind of timeline; the outermost kind that has such values if not given.
            where: Attributes that the series must have.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100].
            EmptyHistogramError: There are no such values.
            NotEnoughValuesError: There are fewer than ``ceil(100 / (100 - percentile))``.
            UnknownNameError: There is no such metric, unit, kind or attribute.
        """
        return self.metric(metric, kind=kind, **where).percentile(percentile, unit=unit)

    def metric(self, name: str, *, kind: Kind | str | None = None, **where: str) -> Distribution:
        """
        Return the values of a metric or of a token count.

        Args:
            name: A metric's name or alias, for example ``ttft`` or ``output_tokens``.
            kind: Kind of timeline; the outermost kind that has such values if not given.
            where: Attributes that the series must have.

        Raises:
            UnknownNameError: There is no such metric, kind or attribute.
        """
        metric = metric_named(name)
        recorded = sorted({key.metric for key in self.series} - {SEGMENT})
        return _distribution(
            metric.name,
            self._select(metric.name, kind, where),
            unit=metric.unit,
            hint=f"metrics recorded: {', '.join(recorded) or 'none'}",
        )

    def segment(self, name: str, *, kind: Kind | str | None = None, **where: str) -> Distribution:
        """
        Return the values of a segment: its total in each request.

        Args:
            name: Name of a segment or a stage; a name that was never recorded has no values.
            kind: Kind of timeline; the outermost kind that has such values if not given.
            where: Attributes that the series must have.

        Raises:
            UnknownNameError: There is no such kind or attribute.
        """
        return _distribution(
            name,
            self._select(SEGMENT, kind, {**where, SEGMENT: name}),
            unit="s",
            hint=f"segments recorded: {', '.join(self.segments()) or 'none'}",
        )

    def count(self, *, kind: Kind | str | None = None, **where: str) -> int:
        """
        Return the number of recorded requests, calls, exchanges or stages.

        Args:
            kind: Kind of timeline; the outermost recorded kind if not given.
            where: Attributes that they must have.

        Raises:
            UnknownNameError: There is no such kind or attribute.
        """
        return self.metric("duration", kind=kind, **where).count()

    def segments(self) -> tuple[str, ...]:
        """
        Return the names of the recorded segments: client segments in their order, then stages.
        """
        names = {name for key in self.series if (name := key.segment) is not None}
        known = [name for name in SEGMENT_ORDER if name in names]
        return (*known, *sorted(names.difference(known)))

    def where(self, **where: str) -> Snapshot:
        """
        Return the part of the snapshot whose series have the attributes.

        Args:
            where: Attributes that the series must have; ``kind`` is one of them.

        Raises:
            UnknownNameError: There is no such attribute.
        """
        refuse_unknown_attributes(where)
        held = {key: series for key, series in self.series.items() if key.has(where)}
        return replace(self, series=MappingProxyType(held), records=())

    def group_by(self, attribute: str) -> dict[str | None, Snapshot]:
        """
        Return one snapshot per value of an attribute, the one with the most requests first.

        Args:
            attribute: For example ``model``, ``route`` or ``outcome``.

        Returns:
            Snapshots by value of the attribute; ``None`` is the key of the series without it.

        Raises:
            UnknownNameError: There is no such attribute.
        """
        refuse_unknown_attributes((attribute,))
        groups: defaultdict[str | None, dict[SeriesKey, Series]] = defaultdict(dict)
        for key, series in self.series.items():
            groups[key.attribute(attribute)][key] = series
        snapshots = {
            value: replace(self, series=MappingProxyType(held), records=())
            for value, held in groups.items()
        }
        return dict(sorted(snapshots.items(), key=lambda group: -group[1].count()))

    def diff(self, earlier: Snapshot) -> Snapshot:
        """
        Return what was recorded after an earlier snapshot of the same recorder.

        Counts and sums are exact. The smallest and the largest value are within 1/1024, because
        they may have been recorded before ``earlier``. If a series was forgotten as idle after the
        earlier snapshot, the values recorded in between are in neither snapshot.

        Args:
            earlier: A snapshot that this one contains.

        Raises:
            ConfigError: ``earlier`` ends later than this snapshot, or has values that this snapshot
                does not have.
        """
        if earlier.end_epoch_ns > self.end_epoch_ns:
            raise ConfigError(
                "the snapshot to subtract ends later than this one",
                hint="subtract the earlier of two snapshots from the later: later.diff(earlier)",
            )
        left: dict[SeriesKey, Series] = {}
        for key, series in self.series.items():
            before = earlier.series.get(key)
            # A series that was forgotten in between started anew.
            if before is None or series.start_epoch_ns > before.end_epoch_ns:
                left[key] = series
                continue
            histogram = series.histogram.subtract(before.histogram)
            if histogram.count or histogram.rejected:
                left[key] = Series(histogram, earlier.end_epoch_ns, series.end_epoch_ns)
        return Snapshot(
            series=MappingProxyType(left),
            start_epoch_ns=earlier.end_epoch_ns,
            end_epoch_ns=self.end_epoch_ns,
        )

    def merge(self, other: Snapshot) -> Snapshot:
        """
        Return one snapshot of both: of two processes, two hosts or two periods of time.

        Args:
            other: A snapshot of another process or another time; no value may be in both.
        """
        series = dict(self.series)
        for key, theirs in other.series.items():
            add_series(series, key, theirs)
            give_way()
        return Snapshot(
            series=MappingProxyType(series),
            start_epoch_ns=min(self.start_epoch_ns, other.start_epoch_ns),
            end_epoch_ns=max(self.end_epoch_ns, other.end_epoch_ns),
            records=self.records + other.records,
        )

    def _select(
        self, metric: str, kind: Kind | str | None, where: Mapping[str, str]
    ) -> dict[SeriesKey, Histogram]:
        """Return the metric's histograms that have the attributes, all of one kind."""
        refuse_unknown_attributes(where)
        found = {
            key: series.histogram
            for key, series in self.series.items()
            if key.metric == metric and key.has(where)
        }
        kinds = {key.kind for key in found}
        wanted = (
            next((each for each in Kind if each in kinds), None)
            if kind is None
            else _kind_named(kind)
        )
        return {key: histogram for key, histogram in found.items() if key.kind == wanted}


def _kind_named(name: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise UnknownNameError(f"no kind '{name}'", hint=f"one of {', '.join(Kind)}") from None


def _distribution(
    name: str, series: Mapping[SeriesKey, Histogram], *, unit: MetricUnit, hint: str
) -> Distribution:
    merged = Histogram()
    sources: Counter[Source | TokenSource] = Counter()
    for key, histogram in series.items():
        merged.merge(histogram)
        source = _source_of(key)
        if source is not None:
            sources[source] += histogram.count
    merged.compact()
    return Distribution(name, merged, unit=unit, sources=MappingProxyType(sources), hint=hint)


def _source_of(key: SeriesKey) -> Source | TokenSource | None:
    if key.source is None:
        return None
    return TokenSource(key.source) if key.metric in TOKEN_METRICS else Source(key.source)
