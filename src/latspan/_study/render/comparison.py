"""A comparison on a terminal: what differs, percentiles, segments that changed, the conclusion."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from latspan._model.censoring import Bounds
from latspan._model.segments import KIND_NOUNS
from latspan._model.text import FAINT, count, difference, in_words, needs, percent
from latspan._model.units import milliseconds
from latspan._study.compare import (
    SEGMENT,
    Comparison,
    Explanation,
    Judgement,
    PercentileChange,
    PercentileRow,
    SegmentChange,
    Weight,
)
from latspan._study.render.layout import MARGIN, fitted, prose, shown, title
from latspan._study.stats import Verdict

_STYLES: Final = {
    PercentileChange.IMPROVED: "green",
    PercentileChange.NO_WORSE: "green",
    PercentileChange.WORSE: "red",
    PercentileChange.CHANCE: "yellow",
    PercentileChange.DIFFERS: "yellow",
    PercentileChange.TOO_FEW: FAINT,
}
JUDGEMENT_STYLES: Final = {
    Judgement.IMPROVED: "bold green",
    Judgement.NO_WORSE: "bold green",
    Judgement.WORSE: "bold red",
    Judgement.INCONCLUSIVE: "bold yellow",
    Judgement.NOT_INTERPRETABLE: "bold red",
}
_MIN_NS: Final = 50_000
"""Difference of a segment below which its line is left out: less than 0.1 ms."""


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """
    A comparison.

    Args:
        comparison: Result to show.
    """

    comparison: Comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts, separated by blank lines."""
        del console
        found = self.comparison
        noun = KIND_NOUNS[found.kind][1]
        sides = [
            f"{count(runs, 'run')} with {units:,} {noun} {side}"
            for runs, units, side in zip(found.runs, found.units, ("before", "after"), strict=True)
        ]
        group = "" if found.group is None else f" of {found.group[0]} {found.group[1]}"
        yield title(f"{found.question}{group}", ", ".join(sides), options=options)
        if found.differences:
            yield from _differences(found, options)
        yield Text()
        yield from _rows(found.rows, options)
        if found.explanation is not None:
            yield Text()
            yield from _segments(found.explanation, noun, options)
        yield Text()
        yield from _judgement(found, options)


def _differences(found: Comparison, options: ConsoleOptions) -> Iterator[Text]:
    for each in found.differences:
        if each.accepted:
            word, style = "changed", "bold"
        elif each.weight is Weight.EXPLAINS:
            word, style = "DIFFERS", "bold red"
        else:
            word, style = "differs", FAINT
        yield shown(Text.assemble(MARGIN, (word, style), f" {each}"), options)


def _rows(rows: Sequence[PercentileRow], options: ConsoleOptions) -> Iterator[Text]:
    cells = [
        {
            "metric": Text(row.name.removeprefix(SEGMENT)),
            "": Text(f"p{row.percentile:g}"),
            "before": Text(ends_of(row)[0]),
            "after": Text(ends_of(row)[1]),
            "change": Text(change_of(row)),
            "95 % interval": Text(interval_of(row)),
            "result": Text(_result(row), style=_STYLES[row.change]),
        }
        for row in rows
        if row.change is not PercentileChange.TOO_FEW or row is rows[0]
    ]
    yield from _table(cells, ("metric", "", "result"), ("change",), options)


def _table(
    rows: Sequence[Mapping[str, Text]],
    left: Sequence[str],
    implied: Sequence[str],
    options: ConsoleOptions,
) -> Iterator[Text]:
    """Yield a table; a narrow terminal shows it without the columns that the others imply."""
    lines, _ = fitted(
        {head: [row[head] for row in rows] for head in rows[0]},
        left=left,
        left_out_first=implied,
        names=left[:1],
        options=options,
    )
    yield from lines


def _result(row: PercentileRow) -> str:
    return needs(row.needed) if row.change is PercentileChange.TOO_FEW else in_words(row.change)


def value_of(value_ns: float) -> str:
    """Return a percentile for a table."""
    if math.isnan(value_ns):
        return "—"
    return "unbounded" if math.isinf(value_ns) else milliseconds(value_ns)


def ends_of(row: PercentileRow) -> tuple[str, str]:
    """Return both percentiles of a row, each with both ends if given-up requests leave it open."""
    low_ns = row.before_ns, row.after_ns
    one, two = (
        Bounds(low, high).text(value_of, unbounded="unbounded") if low < high else value_of(low)
        for low, high in zip(low_ns, row.high_ns or low_ns, strict=True)
    )
    return one, two


def change_of(row: PercentileRow) -> str:
    """Return the relative change of a row, or a dash."""
    return "—" if row.ratio is None else f"{row.ratio - 1:+.1%}"


def interval_of(row: PercentileRow) -> str:
    """Return the interval of the relative change, or nothing."""
    if row.low is None or row.high is None:
        return ""
    if math.isinf(row.high):
        return f"≥ {row.low - 1:+.1%}" if row.low > 0 else ""
    return f"{row.low - 1:+.1%} to {row.high - 1:+.1%}"


def _segments(explanation: Explanation, noun: str, options: ConsoleOptions) -> Iterator[Text]:
    yield title("what changed", f"mean of the slow {noun}, whose segments add up", options=options)
    rows = [
        _segment(each, explanation)
        for each in explanation.segments
        if abs(each.difference_ns) >= _MIN_NS
    ]
    in_all = {
        "before": Text(milliseconds(explanation.before_ns)),
        "after": Text(milliseconds(explanation.after_ns)),
        "difference": Text(difference(explanation.difference_ns)),
    }
    rows.append({"segment": Text("in all"), **in_all, "95 % interval": Text(), "": Text()})
    yield from _table(rows, ("segment", ""), ("before",), options)


def _segment(each: SegmentChange, explanation: Explanation) -> dict[str, Text]:
    interval = ""
    if each.low_ns is not None and each.high_ns is not None:
        interval = f"{difference(each.low_ns).removesuffix(' ms')} to {difference(each.high_ns)}"
    word = "significant" if each.is_real else "could be chance"
    if each is explanation.leading:
        word = "explains it"
    return {
        "segment": Text(each.name),
        "before": Text(milliseconds(each.before_ns)),
        "after": Text(milliseconds(each.after_ns)),
        "difference": Text(difference(each.difference_ns)),
        "95 % interval": Text(interval),
        "": Text(word, style="bold" if each.is_real else FAINT),
    }


def _judgement(found: Comparison, options: ConsoleOptions) -> Iterator[Text]:
    failures = found.failures
    if failures.before or failures.after:
        text = f"failed: {percent(failures.before)} before, {percent(failures.after)} after"
        yield shown(Text(text, style="red" if failures.more else ""), options)
    target = found.target
    if target is not None:
        style = {Verdict.MET: "green", Verdict.MISSED: "red"}.get(target.verdict, "yellow")
        text = (
            f": {target.misses:,} of {target.requests:,} took longer than the limit or failed;"
            f" the percentile was within it in {found.met_in} of {count(found.runs[1], 'run')}"
        )
        yield shown(Text.assemble(("target " + str(target), style), text), options)
    if found.exact_p is not None:
        text = f"exact permutation of the runs: p = {found.exact_p:.3f}"
        yield shown(Text(text, style=FAINT), options)
    yield prose(found.sentence, options, style=JUDGEMENT_STYLES[found.judgement])
    for note in found.notes:
        yield prose(note, options, style=FAINT)
