"""
Rows for the histograms of log files: one per metric or segment; kinds and sides are never mixed.

A file has too many series to show: one per outcome, source and combination of its requests' other
attributes. A row merges all series that do not differ in a requested attribute. The lower bounds of
a metric are in the row of its values; a row of one outcome is about the values seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from latspan._model.censoring import AT_LEAST, Bounds
from latspan._model.metrics import (
    EVIDENCE_METRICS,
    LATENCY_METRICS,
    METRICS,
    SERVER_METRICS,
    metric_named,
    unit_of,
)
from latspan._model.recording import (
    Population,
    SeriesKey,
    TaggedName,
    key_of,
    nearest_values,
    population_of,
    read_tag,
)
from latspan._model.segments import SEGMENT_ORDER, Kind
from latspan._model.units import MetricUnit
from latspan.errors import HistogramPrecisionError, UnknownNameError
from latspan.histogram import FULL_PRECISION, Histogram, LogTotals, Precision, values_needed

PERCENTILES: Final = (50, 90, 95, 99, 99.9)

_SEGMENT: Final = "segment"
_OUTCOME: Final = "outcome"
_KINDS: Final = [kind.value for kind in Kind]
_METRICS: Final = [name for name in METRICS if name not in {*EVIDENCE_METRICS, *SERVER_METRICS}]
_SEGMENTS: Final[list[str]] = [str(name) for name in SEGMENT_ORDER]


class RowKey(NamedTuple):
    """
    Attributes that the values of a row have in common.

    Args:
        kind: Kind of operation that was measured; ``None`` if the file does not have it.
        side: Side of the network that it was measured on; ``None`` if the file does not have it.
        metric: Name of the metric, or ``segment``, or a tag that another program wrote.
        segment: Name of the segment.
        by: Values of the attributes by which rows are split.
    """

    kind: str | None
    side: str | None
    metric: str
    segment: str | None
    by: tuple[str | None, ...]

    @property
    def label(self) -> str:
        """Label in a table."""
        return self.metric if self.segment is None else self.segment

    @property
    def unit(self) -> MetricUnit:
        """Unit of the metric."""
        return unit_of(self.metric)


@dataclass(slots=True)
class HistogramRow:
    """
    Merged values of all series of a row.

    Args:
        key: Attributes that they have in common.
        precision: Precision of the values.
        histogram: The values seen.
        sources: Sources of the values, sorted; empty if the file does not have them.
        series: Number of series.
        parts: Histogram of each series, with its lower bounds; empty if the row is about the values
            seen only.
    """

    key: RowKey
    precision: Precision
    histogram: Histogram
    sources: tuple[str, ...] = ()
    series: int = 0
    parts: dict[SeriesKey, Histogram] = field(default_factory=dict[SeriesKey, Histogram])
    _population: Population | None = None

    @property
    def population(self) -> Population:
        """What is known of all values; the parts must be complete."""
        if self._population is None:
            found = population_of(self.parts) if self.parts else Population(self.histogram)
            self._population = found
        return self._population


def rows_of(
    totals: LogTotals,
    *,
    metric: str | None = None,
    where: Mapping[str, str] | None = None,
    by: Sequence[str] = (),
) -> list[HistogramRow]:
    """
    Return a row for each metric and segment, and each value of the attributes in ``by``.

    Args:
        totals: Contents of the files.
        metric: Only this one: a metric's name or alias, a segment's name, or a tag.
        where: Attributes that a series must have.
        by: Attributes by which rows are split.

    Raises:
        HistogramPrecisionError: A row would merge series of different precision.
        UnknownNameError: The files do not have such a metric or attribute.
    """
    where = where or {}
    named = [(read_tag(tag), series) for tag, series in totals.series.items()]
    known = {name for tagged, _ in named for name in tagged.attributes}
    for name in (*where, *by):
        if name not in known:
            raise UnknownNameError(
                f"no attribute '{name}' in the files",
                hint=f"the attributes are {', '.join(sorted(known))}"
                if known
                else "the series have no attributes",
            )
    wanted = None if metric is None else _wanted(metric, [tagged for tagged, _ in named])
    conditional = _OUTCOME in where or _OUTCOME in by
    rows: dict[RowKey, HistogramRow] = {}
    for tagged, series in named:
        attributes = tagged.attributes
        if any(attributes.get(name) != value for name, value in where.items()):
            continue
        key = RowKey(
            attributes.get("kind"),
            attributes.get("side"),
            _measured(tagged.metric),
            attributes.get(_SEGMENT),
            tuple(attributes.get(name) for name in by),
        )
        if wanted is not None and wanted not in (key.metric, key.segment):
            continue
        row = rows.setdefault(key, HistogramRow(key, series.precision, Histogram()))
        _merge(row, tagged, series.histogram, series.precision)
        if not conditional:
            row.parts[key_of(tagged.metric, attributes)] = series.histogram
    return sorted(rows.values(), key=_place)


def refuse_absent_values(totals: Iterable[LogTotals], where: Mapping[str, str]) -> None:
    """
    Raise an error for a selection without rows.

    Args:
        totals: Contents of the files, in none of which a series was selected.
        where: Attributes that a series must have; without any, nothing is raised.

    Raises:
        UnknownNameError: The files do not have a value, or not all of them in one series.
    """
    named = [read_tag(tag) for each in totals for tag in each.series]
    for name, value in where.items():
        recorded = {found for tagged in named if (found := tagged.attributes.get(name)) is not None}
        if value not in recorded:
            raise UnknownNameError(
                f"no series in the files has {name}={value}",
                hint=f"the values of {name} are {nearest_values(value, recorded)}",
            )
    if where:
        selected = " and ".join(f"{name}={value}" for name, value in where.items())
        raise UnknownNameError(
            f"no selected series in the files has {selected}",
            hint="leave out an attribute, or select another metric",
        )


Percentiles = Mapping[float, int | None]
"""Values by percentile; ``None`` if there are too few values for it, or if it is not known."""


def bounds_of(row: HistogramRow) -> Mapping[float, Bounds | None]:
    """Return the interval of each of the :data:`PERCENTILES`; ``None`` with too few values."""
    held = row.population
    return {
        each: held.percentile(each) if held.count >= values_needed(each) else None
        for each in PERCENTILES
    }


def percentiles_of(row: HistogramRow | None) -> Percentiles:
    """Return all :data:`PERCENTILES` of a row; without a row, all are ``None``."""
    if row is None:
        return dict.fromkeys(PERCENTILES)
    return {
        percentile: int(bounds.low) if bounds is not None and bounds.is_known else None
        for percentile, bounds in bounds_of(row).items()
    }


def change(before: float | None, after: float | None) -> float | None:
    """Return the relative change from ``before`` to ``after``; ``None`` if it is undefined."""
    if before is None or after is None or not before:
        return None
    return (after - before) / before


def is_coarse(row: HistogramRow) -> bool:
    """Return whether the values are less precise than latspan's own."""
    return row.precision != FULL_PRECISION


def paired(
    before: Iterable[HistogramRow], after: Iterable[HistogramRow]
) -> Iterator[tuple[RowKey, HistogramRow | None, HistogramRow | None]]:
    """Yield the rows of two measurements by key; ``None`` if one of them lacks the key."""
    old = {row.key: row for row in before}
    new = {row.key: row for row in after}
    for row in sorted({**new, **old}.values(), key=_place):
        yield row.key, old.get(row.key), new.get(row.key)


def _merge(
    row: HistogramRow, tagged: TaggedName, histogram: Histogram, precision: Precision
) -> None:
    if row.precision != precision:
        raise HistogramPrecisionError(
            f"values of {row.key.label} were written with {row.precision} and with {precision}",
            hint="select one of them with --where or --metric",
        )
    row.series += 1
    if tagged.metric != row.key.metric:
        return
    row.histogram.merge(histogram)
    if (source := tagged.attributes.get("source")) is not None:
        row.sources = tuple(sorted({*row.sources, source}))


def _measured(metric: str) -> str:
    """Return the metric of a series of values or of lower bounds."""
    base = metric.removesuffix(AT_LEAST)
    return base if base == _SEGMENT or base in LATENCY_METRICS else metric


def _wanted(metric: str, named: Iterable[TaggedName]) -> str:
    """Return the canonical name of the metric or segment."""
    there = {_measured(tagged.metric) for tagged in named} | {
        segment for tagged in named if (segment := tagged.attributes.get(_SEGMENT)) is not None
    }
    if metric in there:
        return metric
    try:
        name = metric_named(metric).name
    except UnknownNameError:
        name = metric
    if name not in there:
        raise UnknownNameError(
            f"no metric or segment '{metric}' in the files",
            hint=f"there are {', '.join(sorted(there - {_SEGMENT}))}",
        )
    return name


def _place(row: HistogramRow) -> tuple[object, ...]:
    """Return the sort key of a row: outermost kind first, segments last and in order."""
    key = row.key
    return (
        _position(key.kind or "", _KINDS),
        key.side or "",
        key.segment is not None,
        _position(key.segment or key.metric, _SEGMENTS if key.segment is not None else _METRICS),
        tuple(value or "" for value in key.by),
    )


def _position(name: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)
