"""Snapshot: an immutable view of everything that was recorded in one period of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from latspan._base.log import warn_once
from latspan._base.slices import give_way
from latspan._base.text import texts_of
from latspan._model.metrics import DURATION
from latspan._model.recording._empty_reason import NOT_CONFIGURED, is_mistake, parts_of
from latspan._model.recording._questions import (
    NO_DEFAULT,
    hint_for_metric,
    hint_for_other_kinds,
    hint_for_segment,
    kind_of_question,
    metric_of_question,
    refuse_absent_values,
)
from latspan._model.recording._rows import SNAPSHOT_SCHEMA, rows_of, table_of
from latspan._model.recording._series import (
    SEGMENT,
    Series,
    SeriesKey,
    add_series,
    has_attributes,
    refuse_unknown_attributes,
)
from latspan._model.segments import KIND_NOUNS, SEGMENT_ORDER, Kind, kind_named
from latspan._model.units import MetricUnit, TimeUnit
from latspan.errors import ConfigError

if TYPE_CHECKING:
    from pandas import DataFrame

    from latspan._model.recording._distribution import Distribution
    from latspan._model.recording._record import RequestRecord

_Default = TypeVar("_Default", bound=float | None)

_OUTCOME: Final = "outcome"
_OF_VALUES: Final = frozenset({"source", SEGMENT})
"""Attributes that describe a value and not the request that it was measured on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """
    Everything that was recorded from one instant to another.

    Each query accepts ``kind``, the kind of timeline on which the values were measured, and
    attributes that the series must have. If ``kind`` is omitted, the query uses the outermost kind
    that was recorded with these attributes: the first of request, inner_request, call, http and
    stage. If only an inner kind has the metric, the query raises an error that names that kind,
    because the values of the inner kind are not the time that a user waits: the time to the first
    token of a call, for example, does not include the work before the call.

    A query for an attribute value that was never recorded raises an error that lists the recorded
    values, because the value is probably misspelt. If the value was recorded, but not in this part
    of the snapshot or not together with the other attributes, the count is zero.

    Percentiles and fractions include the requests that were given up or failed. If they decide the
    result, it is not a number, and the query raises an error. A query for one outcome, for example
    ``outcome="completed"``, is about the values of the requests with that outcome only.

    Args:
        series: Recorded series, by key; they must not be changed.
        start_epoch_ns: Unix time of the start of the period, in nanoseconds.
        end_epoch_ns: Unix time of the end of the period, in nanoseconds, at least
            ``start_epoch_ns``.
        records: Complete records of the latest requests, calls and stages; the setting
            ``keep_records`` limits their number.
        recorders: Random IDs of the recorders of the values; empty if unknown, as in files.
        known: All series of the snapshot that this one is a part of; empty if it is not a part.
        outcome: The outcome that selected this part of a snapshot, if one did: questions are then
            about the values that requests with this outcome have.
        empty_reason: Reason why nothing was recorded, if it is known, and its remedy, as two lines.
            Errors about missing values contain it.
    """

    series: Mapping[SeriesKey, Series]
    start_epoch_ns: int
    end_epoch_ns: int
    records: tuple[RequestRecord, ...] = ()
    recorders: frozenset[int] = field(default=frozenset(), compare=False)
    known: Collection[SeriesKey] = field(default=(), compare=False)
    empty_reason: str | None = field(default=None, compare=False)
    outcome: str | None = field(default=None, compare=False)

    @overload
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str | float,
    ) -> float: ...
    @overload
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        default: _Default,
        **where: str | float,
    ) -> float | _Default: ...
    def percentile(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        default: Any = NO_DEFAULT,
        **where: str | float,
    ) -> Any:
        """
        Return a percentile of a metric.

        Args:
            metric: A metric's name or alias, for example ``ttft``.
            percentile: 0, or in [1, 100].
            unit: Unit of the result if it is a time; no effect on counts and ratios.
            kind: Kind of timeline; the outermost recorded kind if not given.
            default: Result if there are no values or too few, if the percentile is not known, or if
                an attribute value was never recorded; if not given, these cases raise.
            where: Attributes that the series must have. With ``outcome``, requests that were given
                up or failed count only if they have that outcome and a value.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1: a fraction.
            EmptyHistogramError: There are no such values.
            NotEnoughValuesError: There are fewer than ``ceil(100 / (100 - percentile))``.
            UndeterminedPercentileError: It depends on requests that were given up or failed; see
                :meth:`percentile_bounds`.
            UnknownNameError: There is no such metric, unit, kind or attribute; or the value of an
                attribute was never recorded; or only an inner kind has the metric.
        """
        values = self._metric(
            metric, kind, texts_of(where), values_may_be_absent=default is not NO_DEFAULT
        )
        return values.percentile(percentile, unit=unit, default=default)

    def percentile_bounds(
        self,
        metric: str,
        percentile: float,
        *,
        unit: TimeUnit = "ms",
        kind: Kind | str | None = None,
        **where: str | float,
    ) -> tuple[float, float]:
        """
        Return the smallest and the largest value that a percentile of a metric may have.

        They are equal if the percentile is known; see :meth:`Distribution.percentile_bounds`.

        Args:
            metric: See :meth:`percentile`.
            percentile: See there.
            unit: See there.
            kind: See there.
            where: See there.

        Returns:
            Both ends; ``math.inf`` if there is no upper limit.

        Raises:
            ConfigError: ``percentile`` is outside [0, 100], or between 0 and 1: a fraction.
            EmptyHistogramError: There are no such values.
            NotEnoughValuesError: There are fewer than ``ceil(100 / (100 - percentile))``.
            UnknownNameError: There is no such metric, unit, kind or attribute; or the value of an
                attribute was never recorded; or only an inner kind has the metric.
        """
        return self.metric(metric, kind=kind, **where).percentile_bounds(percentile, unit=unit)

    def metric(
        self, name: str, *, kind: Kind | str | None = None, **where: str | float
    ) -> Distribution:
        """
        Return the values of a metric or of a token count.

        Args:
            name: A metric's name or alias, for example ``ttft`` or ``output_tokens``.
            kind: Kind of timeline; the outermost recorded kind if not given.
            where: Attributes that the series must have.

        Raises:
            UnknownNameError: There is no such metric, kind or attribute; or the value of an
                attribute was never recorded; or only an inner kind has the metric.
        """
        return self._metric(name, kind, texts_of(where))

    def segment(
        self, name: str, *, kind: Kind | str | None = None, **where: str | float
    ) -> Distribution:
        """
        Return the values of a segment: one per request, call, exchange or stage that records it.

        A value is the sum of all intervals of the segment in that request, call, exchange or stage.

        Args:
            name: Name of a segment or a stage; a name that was never recorded has no values.
            kind: Kind of timeline; the outermost kind that has such values if not given. An inner
                kind is not an error here, because a segment means the same on every timeline.
            where: Attributes that the series must have.

        Raises:
            UnknownNameError: There is no such kind or attribute, the value of an attribute was
                never recorded, or only the requests around the segment have the attribute.
        """
        texts = texts_of(where)
        return self._values(
            SEGMENT,
            kind,
            texts,
            segment=name,
            unit="s",
            hint=lambda: hint_for_segment(name, self.segments(), self.series, texts),
        )

    def count(self, *, kind: Kind | str | None = None, **where: str | float) -> int:
        """
        Return the number of recorded requests, calls, exchanges or stages.

        If nothing was recorded because of a mistake, for example because latspan is not configured,
        one warning per process explains the zero.

        Args:
            kind: Kind of timeline; the outermost recorded kind if not given.
            where: Attributes that they must have.

        Raises:
            UnknownNameError: There is no such kind or attribute, or the value of an attribute was
                never recorded.
        """
        if self.empty_reason is not None and is_mistake(self.empty_reason):
            cause, step = parts_of(self.empty_reason)
            warn_once(f"count() is 0: {cause}; hint: {step}")
        return self.metric(DURATION, kind=kind, **where).count()

    def segments(self, *, kind: Kind | str | None = None) -> tuple[str, ...]:
        """
        Return the names of the recorded segments.

        Client segments come first, in the order in which a request passes through them, then stages
        by name.

        Args:
            kind: Only segments that timelines of this kind record; of all kinds if not given.

        Raises:
            UnknownNameError: There is no such kind.
        """
        asked = None if kind is None else kind_named(kind)
        names = {
            name
            for key in self.series
            if (name := key.segment) is not None and asked in (None, key.kind)
        }
        known = [str(name) for name in SEGMENT_ORDER if name in names]
        return (*known, *sorted(names.difference(known)))

    def where(self, **where: str | float) -> Snapshot:
        """
        Return the part of the snapshot whose series have the attributes.

        Args:
            where: Attributes that the series must have; ``kind`` is one of them. A series holds
                text: a boolean or a number is compared as its text.

        Raises:
            UnknownNameError: There is no such attribute, or its value was never recorded.
        """
        refuse_unknown_attributes(where, self._known())
        texts = texts_of(where)
        held = {key: series for key, series in self.series.items() if has_attributes(key, texts)}
        if not held:
            refuse_absent_values(self._known(), texts)
        return self._part(held, texts.get(_OUTCOME))

    def group_by(self, attribute: str) -> dict[str | None, Snapshot]:
        """
        Return one snapshot per value of an attribute, the one with the most requests first.

        Args:
            attribute: For example ``model``, ``route`` or ``outcome``.

        Returns:
            Snapshots by value of the attribute. The key ``None`` has the requests without the
            attribute, and is absent if there are none. A request has a model only if
            :func:`latspan.annotate` sets one: to group calls by model, use
            ``where(kind="call").group_by("model")``.

        Raises:
            UnknownNameError: There is no such attribute.
        """
        refuse_unknown_attributes((attribute,), self._known())
        groups: defaultdict[str | None, dict[SeriesKey, Series]] = defaultdict(dict)
        for key, series in self.series.items():
            groups[key.attribute(attribute)][key] = series
        is_outcome = attribute == _OUTCOME
        parts = {
            value: self._part(held, value if is_outcome else None) for value, held in groups.items()
        }
        counts = {value: part.count() for value, part in parts.items()}
        # The conventions' metrics lack some attributes of the requests that they measure.
        if len(parts) > 1 and counts.get(None) == 0:
            del parts[None]
        return dict(sorted(parts.items(), key=lambda part: -counts[part[0]]))

    def diff(self, earlier: Snapshot) -> Snapshot:
        """
        Return what was recorded after an earlier snapshot of the same recorder.

        Counts and sums are exact. The smallest and the largest value are those of their buckets,
        with an error of at most 1/1024: the exact smallest and largest value may have been recorded
        before the snapshot ``earlier``. If a series was dropped as idle after the earlier snapshot,
        the result lacks the values that the series received between that snapshot and the drop.

        Args:
            earlier: A snapshot that this one contains.

        Raises:
            ConfigError: ``earlier`` is a snapshot of another recorder, ends later than this
                snapshot, or has values that this snapshot does not have.
        """
        if self.recorders and not earlier.recorders <= self.recorders:
            raise ConfigError(
                "the snapshot to subtract is of another recorder",
                hint="subtract the earlier of two snapshots of one process, without configure() or"
                " a new test in between; merge() adds snapshots of different recorders",
            )
        if earlier.end_epoch_ns > self.end_epoch_ns:
            raise ConfigError(
                "the snapshot to subtract ends later than this one",
                hint="subtract the earlier of two snapshots from the later: later.diff(earlier)",
            )
        if not (self.recorders and earlier.recorders):
            # A recorder forgets idle series; snapshots from files do not.
            lost = earlier.series.keys() - self.series.keys()
            if any(earlier.series[key].histogram.count for key in lost):
                raise ConfigError(
                    "the snapshot to subtract has values that this one does not have",
                    hint="subtract a snapshot that was merged into this one",
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
            recorders=self.recorders,
            known=self._known(),
            empty_reason=self.empty_reason,
            outcome=self.outcome,
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
            recorders=self.recorders | other.recorders,
            known={*self._known(), *other._known()} if self.known or other.known else (),
            outcome=self.outcome if self.outcome == other.outcome else None,
        )

    def to_dict(self, *, unit: TimeUnit = "ms") -> dict[str, Any]:
        """
        Return the snapshot as plain values that :func:`json.dumps` accepts, one row per series.

        Args:
            unit: Unit of the times.

        Returns:
            ``schema``, ``start_epoch_ns``, ``end_epoch_ns`` and ``series``. A row of ``series`` has
            ``metric``, ``attributes`` (with ``kind``, ``source`` and, if the metric is ``segment``,
            ``segment``), ``unit`` (the unit of the times, ``1`` or ``ratio``), ``count``,
            ``rejected``, ``clamped``, ``sum``, ``min``, ``p50``, ``p90``, ``p95``, ``p99``,
            ``p99.9`` and ``max``. A number is ``None`` if it is not known or has too few values.

        Raises:
            UnknownNameError: There is no such unit.
        """
        return {
            "schema": SNAPSHOT_SCHEMA,
            "start_epoch_ns": self.start_epoch_ns,
            "end_epoch_ns": self.end_epoch_ns,
            "series": rows_of(self.series, unit),
        }

    def to_pandas(self, *, unit: TimeUnit = "ms") -> DataFrame:
        """
        Return a :class:`pandas.DataFrame` with the rows of :meth:`to_dict`, a column per attribute.

        Args:
            unit: Unit of the times.

        Raises:
            MissingExtraError: pandas is not installed.
            UnknownNameError: There is no such unit.
        """
        return table_of(rows_of(self.series, unit))

    def __repr__(self) -> str:
        counts = {kind: self.metric(DURATION, kind=kind).count() for kind in Kind}
        parts = [
            f"{count:,} {KIND_NOUNS[kind][count != 1]}" for kind, count in counts.items() if count
        ]
        if not parts and self.series:
            parts = [f"{len(self.series):,} series"]
        return f"<Snapshot of {', '.join(parts) or 'nothing'}>"

    def _metric(
        self,
        name: str,
        kind: Kind | str | None,
        where: Mapping[str, str],
        *,
        values_may_be_absent: bool = False,
    ) -> Distribution:
        metric = metric_of_question(name, self._known())
        return self._values(
            metric.name,
            kind,
            where,
            unit=metric.unit,
            hint=lambda: hint_for_metric(self.series),
            values_may_be_absent=values_may_be_absent,
        )

    def _values(
        self,
        metric: str,
        kind: Kind | str | None,
        where: Mapping[str, str],
        *,
        unit: MetricUnit,
        hint: Callable[[], str],
        segment: str | None = None,
        values_may_be_absent: bool = False,
    ) -> Distribution:
        """Return the values of a metric, or of a segment, that have the attributes and one kind."""
        refuse_unknown_attributes(where, self._known())
        asked = None if kind is None else kind_named(kind)
        wanted = where if segment is None else {**where, SEGMENT: segment}
        found = {
            key: series.histogram
            for key, series in self.series.items()
            if key.measured_metric == metric and has_attributes(key, wanted)
        }
        kinds = {key.kind for key in found}
        # If series were found, every attribute value that the query names was recorded. The checks
        # and hints read every series, so they are made only for questions without an answer.
        if not kinds or (asked is not None and asked not in kinds):
            refuse_absent_values(
                self._known(),
                where,
                metric=metric,
                kind=asked,
                segment=segment,
                values_may_be_absent=values_may_be_absent,
            )
        if asked is None:
            asked = kind_of_question(metric, kinds, lambda: self._kinds(where))
        no_values: str | None = None
        cause: str | None = None
        if self.empty_reason is not None:
            cause, no_values = parts_of(self.empty_reason)
        elif asked is not None and kinds and asked not in kinds:
            no_values = hint_for_other_kinds(metric, asked, kinds)
        elif not kinds:
            no_values = hint()
        # Imported here, because only a query needs `_distribution`, and every program that
        # configures latspan imports the module of the snapshot.
        from latspan._model.recording._distribution import merged_distribution

        outcome = where.get(_OUTCOME, self.outcome)
        return merged_distribution(
            metric if segment is None else segment,
            {key: histogram for key, histogram in found.items() if key.kind == asked},
            unit=unit,
            kind=asked,
            hint=no_values,
            cause=cause,
            outcome=outcome,
            undocumented=0 if outcome is not None else self._undocumented(metric, asked, where),
        )

    def _undocumented(self, metric: str, kind: Kind | None, where: Mapping[str, str]) -> int:
        """Return the number of given-up requests that files of older releases do not describe."""
        # What this process recorded is complete, except for series that were dropped as idle.
        if kind is None or self.recorders:
            return 0
        from latspan._model.recording._population import undocumented_cuts

        of_timelines = {name: where[name] for name in where if name not in _OF_VALUES}
        selected = {
            key: series for key, series in self.series.items() if has_attributes(key, of_timelines)
        }
        return undocumented_cuts(metric, kind, selected, self._known())

    def _kinds(self, where: Mapping[str, str]) -> set[Kind]:
        """Return the kinds of the timelines that were recorded with the attributes."""
        # Each timeline has one duration. A source or a segment in the query describes the values
        # asked for, not the duration, so both are left out here.
        of_timelines = {name: where[name] for name in where if name not in _OF_VALUES}
        return {
            key.kind
            for key in self.series
            if key.metric == DURATION and has_attributes(key, of_timelines)
        }

    def _known(self) -> Collection[SeriesKey]:
        return self.known or self.series.keys()

    def _part(self, held: dict[SeriesKey, Series], outcome: str | None = None) -> Snapshot:
        """Return the part of the snapshot that holds these of its series."""
        return replace(
            self,
            series=MappingProxyType(held),
            records=(),
            known=self._known(),
            outcome=self.outcome if outcome is None else outcome,
        )


def empty_snapshot(reason: str = NOT_CONFIGURED) -> Snapshot:
    """
    Return the snapshot of a process that records nothing.

    Args:
        reason: Why nothing is recorded; one of the texts of :mod:`latspan._model.recording`.
    """
    return Snapshot(series={}, start_epoch_ns=0, end_epoch_ns=0, empty_reason=reason)
