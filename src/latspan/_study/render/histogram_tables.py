"""Tables of ``latspan histogram``: percentiles of files, and of two measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.censoring import Bounds
from latspan._model.recording import rounded_bound
from latspan._model.segments import Source
from latspan._model.text import FAINT, SOURCE_LETTERS, count, instant, needs, percent, quantity
from latspan._model.units import TimeUnit
from latspan._study.render.histogram_rows import (
    PERCENTILES,
    HistogramRow,
    RowKey,
    bounds_of,
    change,
    is_coarse,
    paired,
    percentiles_of,
)
from latspan._study.render.layout import MARGIN, aligned, fitted, heads, shortened, shown, title
from latspan.histogram import LogTotals, percentile_spectrum, values_needed

_HEADS: Final = tuple(f"p{percentile}" for percentile in PERCENTILES)
_LETTERS: Final = {source.value: SOURCE_LETTERS[source] for source in Source}


_LEFT_OUT_FIRST: Final = ("series", "p90", "p99.9", "source")
"""Columns left out on a narrow terminal, in this order."""

_MAX_NAME_LENGTH: Final = 60
"""Maximum length of a name in a table; ``--json`` contains the whole name."""

_MAX_FOLDED: Final = 3
"""Number of folded rows that are named."""

_FEW: Final = values_needed(95)
"""Number of values below which a row is folded, if others have more."""


@dataclass(frozen=True, slots=True)
class HistogramsTable:
    """
    The percentiles of each row.

    If the terminal is too narrow, the least important columns are left out. Rows with too few
    values for a p95 are folded into one line, unless all are like that.

    Args:
        totals: Contents of the files.
        rows: Rows to show.
        by: Attributes by which the rows are split.
        unit: Unit of the times.
        spectrum: Whether to show each row's percentile spectrum after the table.
        fold: Whether to fold rows with too few values.
    """

    totals: LogTotals
    rows: Sequence[HistogramRow]
    by: tuple[str, ...] = ()
    unit: TimeUnit = "ms"
    spectrum: bool = False
    fold: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table and the spectra."""
        del console
        yield title(_span(self.totals), options=options)
        enough = [row for row in self.rows if not _is_folded(row)]
        rows = enough if self.fold and enough else self.rows
        named = _Names(self.rows, self.by)
        columns = self._columns(rows, named)
        lines, _ = fitted(
            columns,
            left=(*named.heads, "source"),
            left_out_first=_LEFT_OUT_FIRST,
            names=named.heads,
            options=options,
        )
        yield from lines
        if len(rows) < len(self.rows):
            folded = list(filter(_is_folded, self.rows))
            yield shown(Text(MARGIN + _folded(folded, named), style=FAINT), options)
        if self.spectrum:
            for row in rows:
                yield from self._spectrum(row, named, options)

    def _columns(self, rows: Sequence[HistogramRow], named: _Names) -> dict[str, list[Text]]:
        """Return the cells of each column, by its heading."""
        names = [named.cells(row.key) for row in rows]
        columns = {head: [each[at] for each in names] for at, head in enumerate(named.heads)}
        columns["series"] = [Text(f"{row.series:,}") for row in rows]
        columns["n"] = [Text(f"{row.histogram.count:,}") for row in rows]
        values = [self._percentiles(row) for row in rows]
        for at, head in enumerate((*_HEADS, "max")):
            columns[head] = [each[at] for each in values]
        for head, numbers in (
            ("rejected", [row.histogram.rejected for row in rows]),
            ("clamped", [row.histogram.clamped for row in rows]),
        ):
            if any(numbers):
                columns[head] = [Text(f"{number:,}") for number in numbers]
        # The shares of the requests without a value, which may decide a percentile.
        for head, numbers in (
            ("cut", [row.population.cut for row in rows]),
            ("failed", [row.population.failed for row in rows]),
        ):
            if any(numbers):
                columns[head] = [
                    Text(percent(number / row.population.count) if number else "—")
                    for number, row in zip(numbers, rows, strict=True)
                ]
        if any(is_coarse(row) for row in rows):
            columns["digits"] = [Text(str(row.precision.significant_digits)) for row in rows]
        columns["source"] = [Text(_sources(row)) for row in rows]
        return columns

    def _percentiles(self, row: HistogramRow) -> tuple[Text, ...]:
        held = row.histogram.count > 0
        return (
            *(
                _cell(bounds, row.key, percentile, self.unit)
                for percentile, bounds in bounds_of(row).items()
            ),
            Text(quantity(row.histogram.max_ns, row.key.unit, self.unit))
            if held
            else Text("—", style=FAINT),
        )

    def _spectrum(
        self, row: HistogramRow, named: _Names, options: ConsoleOptions
    ) -> Iterator[Text]:
        if not row.histogram.count:
            return
        yield Text()
        yield title(
            " ".join(cell.plain for cell in named.cells(row.key)),
            f"spectrum of {count(row.histogram.count, 'value')}",
            options=options,
        )
        lines = [heads("percentile", "value", "n up to it", "1 in")]
        for point in percentile_spectrum(row.histogram):
            beyond = 100 - point.percentile
            lines.append(
                (
                    Text(f"{point.percentile:.6f}"),
                    Text(quantity(point.value, row.key.unit, self.unit)),
                    Text(f"{point.count:,}"),
                    Text(f"{100 / beyond:,.1f}" if beyond else "—"),
                )
            )
        yield from aligned(lines, left=(), options=options)


@dataclass(frozen=True, slots=True)
class HistogramDiffTable:
    """
    Two measurements side by side, one line per percentile.

    Args:
        before: Contents and rows of the first measurement.
        after: Contents and rows of the second measurement.
        by: Attributes by which the rows are split.
        unit: Unit of the times.
    """

    before: tuple[LogTotals, Sequence[HistogramRow]]
    after: tuple[LogTotals, Sequence[HistogramRow]]
    by: tuple[str, ...] = ()
    unit: TimeUnit = "ms"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the titles and the table."""
        del console
        yield title("before", _span(self.before[0]), options=options)
        yield title("after", _span(self.after[0]), options=options)
        named = _Names([*self.before[1], *self.after[1]], self.by)
        lines = [heads(*named.heads, "", "before", "after", "change")]
        for key, old, new in paired(self.before[1], self.after[1]):
            cells = named.cells(key)
            counts = (0 if row is None else row.histogram.count for row in (old, new))
            lines.append((*cells, Text("n"), *(Text(f"{each:,}") for each in counts), Text()))
            was, now = percentiles_of(old), percentiles_of(new)
            both = [None if row is None else bounds_of(row) for row in (old, new)]
            for percentile in PERCENTILES:
                bounds = [None if each is None else each[percentile] for each in both]
                if bounds != [None, None]:
                    lines.append(
                        (
                            *(Text() for _ in cells),
                            Text(f"p{percentile}"),
                            *(_cell(each, key, percentile, self.unit) for each in bounds),
                            Text(_percent(change(was[percentile], now[percentile]))),
                        )
                    )
        yield from aligned(lines, left=range(len(named.heads) + 1), options=options)


def _is_folded(row: HistogramRow) -> bool:
    held = row.histogram
    # Values that were not counted as they are must stay visible.
    return row.population.count < _FEW and not held.rejected and not held.clamped


def _folded(rows: Sequence[HistogramRow], named: _Names) -> str:
    names = [" ".join(cell.plain for cell in named.cells(row.key)) for row in rows]
    numbers = [f"{name} ({row.histogram.count:,})" for name, row in zip(names, rows, strict=True)]
    listed_few = ", ".join(numbers[:_MAX_FOLDED])
    more = f" and {len(rows) - _MAX_FOLDED:,} more" if len(rows) > _MAX_FOLDED else ""
    return (
        f"{count(len(rows), 'row')} with fewer than {_FEW} values: {listed_few}{more};"
        " --all shows them"
    )


class _Names:
    """
    Columns that identify a row: the metric, kind and side if there are several, the attributes.
    """

    def __init__(self, rows: Sequence[HistogramRow], by: Sequence[str]) -> None:
        self._kinds = len({row.key.kind for row in rows}) > 1
        self._sides = len({row.key.side for row in rows if row.key.side is not None}) > 1
        self.heads = (
            "metric",
            *(("kind",) if self._kinds else ()),
            *(("side",) if self._sides else ()),
            *by,
        )

    def cells(self, key: RowKey) -> tuple[Text, ...]:
        words = (
            key.label,
            *((key.kind,) if self._kinds else ()),
            *((key.side,) if self._sides else ()),
            *key.by,
        )
        return tuple(
            Text("—" if word is None else shortened(word, _MAX_NAME_LENGTH)) for word in words
        )


def _cell(bounds: Bounds | None, key: RowKey, percentile: float, unit: TimeUnit) -> Text:
    """Return a percentile, what is known of it, or the number of values that it needs."""
    if bounds is None:
        return Text(needs(values_needed(percentile)), style=FAINT)
    if math.isinf(bounds.low):
        return Text("—", style=FAINT)
    low = bounds.low if bounds.is_known else rounded_bound(bounds.low)
    return Text(("" if bounds.is_known else "≥ ") + quantity(int(low), key.unit, unit))


def _span(totals: LogTotals) -> str:
    if not totals.intervals:
        return "no intervals"
    start, end = instant(totals.start_epoch_ns), instant(totals.end_epoch_ns)
    return f"{count(totals.intervals, 'interval')} from {start} to {end} UTC"


def _sources(row: HistogramRow) -> str:
    letters = [letter for source, letter in _LETTERS.items() if source in row.sources]
    return "+".join([*letters, *(each for each in row.sources if each not in _LETTERS)]) or "—"


def _percent(share: float | None) -> str:
    return "—" if share is None else f"{share * 100:+.1f} %"
