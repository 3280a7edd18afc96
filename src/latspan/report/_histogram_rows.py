"""
The histograms of log files as rows: one a metric or segment, kinds never mixed.

A file's own series are too many to look at: each has its outcome, its source and all else that
is said of its requests. A row takes together what differs in nothing that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from latspan._metrics import EVIDENCE_METRICS, METRICS, SERVER_METRICS, metric_named
from latspan._recording import TaggedName, read_tag
from latspan._segments import SEGMENT_ORDER, Kind
from latspan._units import MetricUnit
from latspan.errors import HistogramPrecisionError, UnknownNameError
from latspan.histogram import FULL_PRECISION, Histogram, LogTotals, Precision, values_needed

__all__ = [
    "PERCENTILES",
    "HistogramRow",
    "Percentiles",
    "RowKey",
    "change",
    "is_coarse",
    "paired",
    "percentiles_of",
    "rows_of",
]

PERCENTILES: Final = (50, 90, 95, 99, 99.9)

_SEGMENT: Final = "segment"
_KINDS: Final = [kind.value for kind in Kind]
_METRICS: Final = [name for name in METRICS if name not in {*EVIDENCE_METRICS, *SERVER_METRICS}]
_SEGMENTS: Final[list[str]] = [str(name) for name in SEGMENT_ORDER]


class RowKey(NamedTuple):
    """
    What the values of a row have in common.

    Args:
        kind: What they were measured on; ``None`` where the file does not say.
        metric: The metric's name, or ``segment``, or a tag that somebody else chose.
        segment: Which segment.
        by: The values of the attributes that rows are kept apart by.
    """

    kind: str | None
    metric: str
    segment: str | None
    by: tuple[str | None, ...]

    @property
    def label(self) -> str:
        """What to call it in a table."""
        return self.metric if self.segment is None else self.segment

    @property
    def unit(self) -> MetricUnit:
        """The metric's; whatever nobody knows is a time in nanoseconds."""
        metric = METRICS.get(self.metric)
        return "s" if metric is None else metric.unit


@dataclass(slots=True)
class HistogramRow:
    """
    The values of every series that a row stands for, together.

    Args:
        key: What they have in common.
        precision: How well they are known.
        histogram: The values.
        sources: How they are known, sorted; empty where the file does not say.
        series: How many series they are of.
    """

    key: RowKey
    precision: Precision
    histogram: Histogram
    sources: tuple[str, ...] = ()
    series: int = 0


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
        totals: What the files hold.
        metric: Only this one: a metric's name or alias, a segment's name, or a tag.
        where: Attributes that a series must have.
        by: Attributes to keep apart.

    Raises:
        HistogramPrecisionError: Series of different precision would be in one row.
        UnknownNameError: The files have no such metric or attribute.
    """
    where = where or {}
    named = [(read_tag(tag), series) for tag, series in totals.series.items()]
    known = {name for tagged, _ in named for name in tagged.attributes}
    for name in (*where, *by):
        if name not in known:
            raise UnknownNameError(
                f"no attribute '{name}' in what was read",
                hint=f"there are {', '.join(sorted(known))}" if known else "it has none at all",
            )
    wanted = None if metric is None else _wanted(metric, [tagged for tagged, _ in named])
    rows: dict[RowKey, HistogramRow] = {}
    for tagged, series in named:
        attributes = tagged.attributes
        if any(attributes.get(name) != value for name, value in where.items()):
            continue
        key = RowKey(
            attributes.get("kind"),
            tagged.metric,
            attributes.get(_SEGMENT),
            tuple(attributes.get(name) for name in by),
        )
        if wanted is not None and wanted not in (key.metric, key.segment):
            continue
        row = rows.setdefault(key, HistogramRow(key, series.precision, Histogram()))
        _merge(row, series.histogram, series.precision, attributes.get("source"))
    return sorted(rows.values(), key=_place)


Percentiles = Mapping[float, int | None]
"""By the percentile; ``None`` where there are too few values for it."""


def percentiles_of(row: HistogramRow | None) -> Percentiles:
    """Return all :data:`PERCENTILES` of a row; those of no row are not known."""
    count = 0 if row is None else row.histogram.count
    known = [asked for asked in PERCENTILES if count >= values_needed(asked)]
    held = row.histogram.values_at_percentiles(known) if row is not None and known else ()
    return {**dict.fromkeys(PERCENTILES), **dict(zip(known, held, strict=True))}


def change(before: float | None, after: float | None) -> float | None:
    """Return by what share of ``before`` it changed, ``None`` where that is no number."""
    if before is None or after is None or not before:
        return None
    return (after - before) / before


def is_coarse(row: HistogramRow) -> bool:
    """Return whether the values are known less well than latspan's own."""
    return row.precision != FULL_PRECISION


def paired(
    before: Iterable[HistogramRow], after: Iterable[HistogramRow]
) -> Iterator[tuple[RowKey, HistogramRow | None, HistogramRow | None]]:
    """Yield the rows of two measurements that have the same key, ``None`` where one has none."""
    old = {row.key: row for row in before}
    new = {row.key: row for row in after}
    for row in sorted({**new, **old}.values(), key=_place):
        yield row.key, old.get(row.key), new.get(row.key)


def _merge(
    row: HistogramRow, histogram: Histogram, precision: Precision, source: str | None
) -> None:
    if row.precision != precision:
        raise HistogramPrecisionError(
            f"values of {row.key.label} were written with {row.precision} and with {precision}",
            hint="look at one of them at a time, with --where or --metric",
        )
    row.histogram.merge(histogram)
    row.series += 1
    if source is not None:
        row.sources = tuple(sorted({*row.sources, source}))


def _wanted(metric: str, named: Iterable[TaggedName]) -> str:
    """Return the metric's or segment's own name."""
    there = {tagged.metric for tagged in named} | {
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
            f"no metric or segment '{metric}' in what was read",
            hint=f"there are {', '.join(sorted(there - {_SEGMENT}))}",
        )
    return name


def _place(row: HistogramRow) -> tuple[object, ...]:
    """Return what rows are sorted by: the outermost kind first, segments last and in order."""
    key = row.key
    return (
        _position(key.kind or "", _KINDS),
        key.segment is not None,
        _position(key.segment or key.metric, _SEGMENTS if key.segment is not None else _METRICS),
        tuple(value or "" for value in key.by),
    )


def _position(name: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)
