"""Tables of ``latspan histogram``: percentiles of files, and of two measurements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._drawing import SOURCE_LETTERS, count, instant, needs, quantity
from latspan._segments import Source
from latspan._units import TimeUnit
from latspan.histogram import LogTotals, percentile_spectrum, values_needed
from latspan.reports._histogram_rows import (
    PERCENTILES,
    HistogramRow,
    RowKey,
    change,
    is_coarse,
    paired,
    percentiles_of,
)
from latspan.reports._layout import FAINT, aligned, heads, title

__all__ = ["HistogramDiffTable", "HistogramsTable"]

_HEADS: Final = tuple(f"p{percentile}" for percentile in PERCENTILES)
_LETTERS: Final = {source.value: SOURCE_LETTERS[source] for source in Source}


@dataclass(frozen=True, slots=True)
class HistogramsTable:
    """
    The percentiles of each row.

    Args:
        totals: Contents of the files.
        rows: Rows to show.
        by: Attributes by which the rows are split.
        unit: Unit of the times.
        spectrum: Whether to show each row's percentile spectrum after the table.
    """

    totals: LogTotals
    rows: Sequence[HistogramRow]
    by: tuple[str, ...] = ()
    unit: TimeUnit = "ms"
    spectrum: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table and the spectra."""
        del console
        yield title(_span(self.totals), options=options)
        named = _Names(self.rows, self.by)
        extras = {
            head: numbers
            for head, numbers in (
                ("rejected", [row.histogram.rejected for row in self.rows]),
                ("clamped", [row.histogram.clamped for row in self.rows]),
            )
            if any(numbers)
        }
        coarse = any(is_coarse(row) for row in self.rows)
        lines = [
            heads(
                *named.heads,
                "series",
                "n",
                *_HEADS,
                "max",
                *extras,
                *(("digits",) if coarse else ()),
                "source",
            )
        ]
        lines += [
            (
                *named.cells(row.key),
                Text(f"{row.series:,}"),
                Text(f"{row.histogram.count:,}"),
                *self._percentiles(row),
                *(Text(f"{numbers[index]:,}") for numbers in extras.values()),
                *((Text(str(row.precision.significant_digits)),) if coarse else ()),
                Text(_sources(row)),
            )
            for index, row in enumerate(self.rows)
        ]
        yield from aligned(
            lines, left=(*range(len(named.heads)), len(lines[0]) - 1), options=options
        )
        if self.spectrum:
            for row in self.rows:
                yield from self._spectrum(row, named, options)

    def _percentiles(self, row: HistogramRow) -> Iterator[Text]:
        for percentile, value in percentiles_of(row).items():
            yield _cell(value, row.key, percentile, self.unit)
        if row.histogram.count:
            yield Text(quantity(row.histogram.max_ns, row.key.unit, self.unit))
        else:
            yield Text("—", style=FAINT)

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
            for percentile in PERCENTILES:
                values = was[percentile], now[percentile]
                if values != (None, None):
                    lines.append(
                        (
                            *(Text() for _ in cells),
                            Text(f"p{percentile}"),
                            *(_cell(value, key, percentile, self.unit) for value in values),
                            Text(_percent(change(*values))),
                        )
                    )
        yield from aligned(lines, left=range(len(named.heads) + 1), options=options)


class _Names:
    """Columns that identify a row: metric, kind if there are several, and the split attributes."""

    def __init__(self, rows: Sequence[HistogramRow], by: Sequence[str]) -> None:
        self._kinds = len({row.key.kind for row in rows}) > 1
        self.heads = ("metric", *(("kind",) if self._kinds else ()), *by)

    def cells(self, key: RowKey) -> tuple[Text, ...]:
        words = (key.label, *((key.kind,) if self._kinds else ()), *key.by)
        return tuple(Text("—" if word is None else word) for word in words)


def _cell(value: int | None, key: RowKey, percentile: float, unit: TimeUnit) -> Text:
    """Return a percentile, or the number of values that it needs."""
    if value is None:
        return Text(needs(values_needed(percentile)), style=FAINT)
    return Text(quantity(value, key.unit, unit))


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
